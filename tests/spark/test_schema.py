"""Definitions that a user gives travel with the request; workers are used again."""

from importlib import import_module

import orjson
import pytest
from support import fork

import kinspect
from kinspect.protocol import schema
from kinspect.protocol.overlay import read_definitions


@pytest.fixture
def definitions(tmp_path):
    """Lays definitions over the table as a process of their own does."""

    def lay_over(text):
        path = tmp_path / "definitions.json"
        path.write_text(text or "")
        schema.lay_over(read_definitions(str(path)) if text else {})
        return path if text else None

    yield lay_over
    schema.lay_over({})


@pytest.mark.tools
def test_each_job_has_its_own(spark, tmp_path, definitions):
    path = tmp_path / "fork.pcap"
    path.write_bytes(fork.capture())
    for text in (fork.TEXT, None):
        given = {"schema": definitions(text), "decode_as": frozenset({9092})}
        rows = import_module("kinspect.spark").read(spark, path, partitions=1, **given).collect()
        (wanted,) = [each.to_dict() for each in kinspect.read(path, **given)]
        ((api, body),) = [(row.api, row.request.body) for row in rows]
        assert (api, body and orjson.loads(body)) == (wanted["api"], wanted["request"]["body"])
        assert (api is None) == (text is None)


def test_a_stream_tells_other_definitions_apart(tmp_path, definitions):
    request = import_module("kinspect.tables.request").Request
    digests = set()
    for text in (fork.TEXT, fork.TEXT.replace("License", "Licence"), None):
        definitions(text)
        digests.add(request().described()["--schema"])
    assert len(digests) == 3
    assert None in digests
