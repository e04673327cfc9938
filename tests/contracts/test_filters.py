"""Every filter lists in the explorer what `read` prints with it."""

import json
from contextlib import suppress
from itertools import islice

import pytest
from support.tui import CAPTURES, ERRORS, indexed, keylog

import kinspect
from kinspect.filters.filter import Filter
from kinspect.filters.filterdefinitions import FILTERS, option_of
from kinspect.tui.index.complete import written
from kinspect.tui.index.listfilter import ListFilter

SAMPLE = (
    ERRORS,
    CAPTURES / "4.4.0" / "snap96.pcap",
    CAPTURES / "4.4.0" / "controller_single.pcap",
    CAPTURES / "3.9.2" / "sasl_plain.pcap.gz",
)
MOST_BYTES = 3_000_000
TRIED = 2
"""Most names of a capture that are tried."""
VALUES = {"PATTERN": ("*", "!*"), "TIME": ("0.5", "+1s", "+2s"), "SIZE": ("100", "0.2kB"), None: (None,)}
"""Values that are tried of every filter that takes them, by what stands for them in `--help`."""


def captures():
    """All of them; those of the sample in `make test`."""
    for path in sorted(CAPTURES.rglob("*.pcap*")):
        if path.name.endswith((".pcap", ".pcap.gz")) and path.stat().st_size < MOST_BYTES:
            marks = () if path in SAMPLE else pytest.mark.big
            yield pytest.param(path, id=str(path.relative_to(CAPTURES)), marks=marks)


def values(row, seen):
    """Values of a filter that it does not refuse."""
    names = [*islice(map(written, seen), TRIED), *(row.words() if row.words is not None else ())][: TRIED * 2]
    for value in (*VALUES[row.metavar], *names, *(f"!{name}" for name in names[:1])):
        given = [value] if row.many else True if value is None else value
        try:
            row.test(given, lambda: 0)
        except kinspect.KinspectError:
            continue
        yield given


@pytest.mark.big
@pytest.mark.parametrize("path", [*captures()])
def test_rows_are_the_lines_of_read(path, kinspect):
    store, exchanges = indexed(path, keylog=keylog(path)), exchanges_of(path)
    for name in FILTERS:
        tried = [*values(FILTERS[name], store.seen.get(name, ()))]
        assert tried, name
        for given in tried:
            rows = ListFilter(store, {name: given}).passes(0, store.count)
            chosen = Filter(**{name: given})
            chosen.start = store.start
            passed = [row for row, exchange in enumerate(exchanges) if chosen.matches(exchange)]
            assert rows == passed, (name, given)
            if path in SAMPLE:
                shown = [exchanges[row].event_id for row in rows]
                assert printed(kinspect, path, name, given) == shown, (name, given)


def exchanges_of(path):
    exchanges = []
    # Some captures are none, or are cut.
    with suppress(kinspect.CaptureError):
        exchanges += kinspect.read(path, keylog=keylog(path))
    return exchanges


def printed(kinspect, path, name, given):
    """The ids of the exchanges that the command prints."""
    keys = path.with_name(path.name.split(".pcap")[0] + ".keys.log")
    secrets = ("--keylog", keys) if keys.exists() else ()
    words = (option_of(name), *(given if isinstance(given, list) else (given,)))
    read = kinspect(
        "read", path, *secrets, "-q", "--fields", "event_id", *(w for w in words if w is not True)
    )
    return [json.loads(line)["event_id"] for line in read.out.splitlines()]
