"""Answers are the objects of `kinspect.answer`, however connections are dealt, and their rows fit their tables."""

import random
from importlib import import_module
from pathlib import Path

import orjson
import pytest
from lines import answer, every_answer, plain
from support.decoded import keylog_beside
from traffic import captures, rotated

from kinspect.answers import answers

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
FOLDERS = sorted({path.parent for path in CAPTURES.rglob("*.pcap*")})
TXN = CAPTURES / "4.4.0/txn_java.pcap.gz"


@pytest.fixture(scope="module")
def tables():
    return import_module("kinspect.tables.answertables")


def secrets(paths):
    """The key logs of captures."""
    return b"".join(path.read_bytes() for path in map(keylog_beside, paths) if path.exists())


def made(local, paths, shuffled=None, chosen=None, **more):
    """The objects of all answers, by a job's tasks without Spark. `shuffled`: mixes the order of their parts."""
    found = local.captures(paths, **more)
    request = import_module("kinspect.tables.request").Request(
        (), chosen=chosen or {}, answers=tuple(answers())
    )
    decoded = found.decoded(request)
    if shuffled is not None:
        shuffled.shuffle(decoded.partitions)
    return found.answers(decoded, request, found.summary(decoded)[0])


def wanted(paths, keylog=b""):
    """The objects of all answers that reading the captures once gives."""
    return every_answer([*answers()], paths, keylog)


def whole(local, folder):
    """The captures of a folder that can be read to their end."""
    paths = sorted(folder.glob("*.pcap*"))
    damaged = {one.file for one in local.captures(paths).unread}
    # As in `test_equal`, what comes again a second later is left out.
    return [path for path in paths if str(path) not in damaged and "twice" not in path.name]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_captures_of_a_folder(local, tables, folder):
    paths = whole(local, folder)
    keylog = secrets(paths)
    found, expected = made(local, paths, split_bytes=2_000, keylog=keylog), wanted(paths, keylog=keylog)
    if folder.name == "variants":
        # A cap over all connections is reached; on Spark it holds for each island, which takes times as they stand.
        for one in (*found, *expected):
            del one["capture"]["complete"], one["capture"]["incomplete"]
    assert found == expected
    for one in found:
        assert back(tables.table_of(one["answer"]), one["rows"]) == one["rows"]


def back(table, rows):
    """Rows of an answer that were rows of its table."""
    stored = table.rows(rows, "run", "east", None).to_pylist(maps_as_pydicts="strict")
    assert [row.pop("place") for row in stored] == [*range(len(rows))]
    assert {(row.pop("run_id"), row.pop("capture_point"), row.pop("date")) for row in stored} <= {
        ("run", "east", None)
    }
    assert {row.pop("schema_version") for row in stored} <= {1}
    return [plain(row) for row in stored]


@pytest.mark.parametrize("seed", range(12))
def test_what_connections_have_in_common(local, tmp_path, seed):
    """Silence, loss, ports used again, clocks, and topic ids that another connection names later."""
    paths = captures(random.Random(seed), tmp_path)
    for partitions in (1, 4):
        assert made(local, paths, partitions=partitions, split_bytes=5_000) == wanted(paths)


@pytest.mark.parametrize("seed", range(3))
def test_parts_merge_in_any_order(local, seed):
    paths = [*sorted((CAPTURES / "4.4.0").glob("groups*.pcap*")), TXN]
    assert made(local, paths, random.Random(seed), partitions=9) == wanted(paths)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["cut"], {}),
        (["whole", "missing"], {}),
        (["cut", "whole"], {"since": "+2s"}),
        (["whole"], {"role": ["producer"]}),
        (["whole"], {"topic": ["canyon-*"]}),
        (["whole"], {"client_id": ["!console*"]}),
    ],
    ids=str,
)
def test_what_is_missing_is_told_as_by_the_command(local, kinspect, tmp_path, names, chosen):
    """Inputs that end early or are not there, and what filters left out or did not know."""
    whole = CAPTURES / "2.8.2/console-zstd.pcap"
    cut, missing = tmp_path / "cut.pcap", tmp_path / "missing.pcap"
    cut.write_bytes(whole.read_bytes()[:-10])
    paths = [{"cut": cut, "whole": whole, "missing": missing}[name] for name in names]
    options = [
        f"--{name.replace('_', '-')}={value}"
        for name, values in chosen.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    for found in made(local, paths, chosen=chosen):
        told = kinspect(found["answer"], "--format", "json", *paths, *options)
        assert found["capture"] == orjson.loads(told.out)["capture"] | {"twins": None}
        assert not found["capture"]["complete"]


def test_a_capture_cut_into_twenty_files(local, tmp_path):
    """Here the answers are those of `kinspect.answer`, each by itself; elsewhere reading once gives all."""
    paths = rotated(CAPTURES / "2.8.2/console-zstd.pcap", tmp_path, 20)
    by_themselves = [answer(name, paths) for name in answers()]
    assert made(local, paths) == wanted(paths) == by_themselves


def test_every_answer_has_a_table_with_comments(tables):
    for name in answers():
        table = tables.table_of(name)
        assert table.name == f"answer_{name}"
        assert len(set(table.schema.names)) == len(table.schema.names)
        told = set(table.comments) & set(table.schema.names)
        assert {"place", "run_id", "date"} < told
