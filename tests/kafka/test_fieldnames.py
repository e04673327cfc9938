"""Names of body fields that `--fields` accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from exchanges import batch, fetched, metadata_value

from kinspect.errors import KinspectError
from kinspect.kafka.view.fieldnames import names
from kinspect.kafka.view.view import View

FEATURE = metadata_value(12, "FeatureLevelRecord", {"name": "metadata.version", "feature_level": 7})


@pytest.mark.parametrize(
    "path",
    [
        "request.body.topics.name",
        "request.body.is_k_raft_controller",
        "response.body.responses.topic_name_resolved",
        "response.body.responses.partitions.records.batches.records.value_decoded.data.feature_level",
        "request.body.request_data_decoded.body.topics.name",
        "request.body.auth_bytes_size",
        "request.body.unknown_tagged_fields.tag",
    ],
)
def test_known_names(path: str) -> None:
    View(fields=[path])


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("request.body.topcs", "did you mean topics"),
        ("response.body.topics.nmae", "unknown field 'response.body.topics.nmae'"),
        ("request.body.topics.xyzzyqq", "see `kinspect schema"),
        ("request.body.topcs_decoded", "unknown field"),
    ],
)
def test_unknown_names(path: str, hint: str) -> None:
    with pytest.raises(KinspectError, match=hint):
        View(fields=[path])


def test_all_that_is_derived_of_records_is_known() -> None:
    view = View(records=True, payload="text")
    made = (
        fetched(batch((b"k", b"v"))),
        fetched(batch((None, FEATURE)), "__cluster_metadata"),
        fetched(batch((b"\0\0\0\1", None), control=True)),
    )
    for exchange in made:
        shown = set(_keys(view.exchange(exchange)["response"]["body"]))
        assert {name.removesuffix("_decoded").removesuffix("_size") for name in shown} <= names()


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _keys(item)
