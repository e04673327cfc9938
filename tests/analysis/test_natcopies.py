"""Exchanges before and after address translation: told, and counted once."""

import json
import re
from pathlib import Path

import pytest
from support.answered import objects
from support.islands import ALL, CAPTURES
from support.packets import Packet, moved, packets
from support.pcap import pcap
from support.shares import one_in

from kinspect.analysis.natcopies import PLACES_KEPT, NatCopies
from kinspect.answers import answers
from kinspect.answers.connectanswer import PROBLEMS
from kinspect.output.tally import OTHER_ADDRESSES, TRANSLATIONS_KEPT, Tally

LATER_NS = 5_000
GROUPS = "4.4.0/groups_classic.pcap.gz"


def translated(taken: list[Packet]) -> list[Packet]:
    """Each packet, and a little later again with other addresses."""
    return [
        each
        for packet in taken
        for each in (packet, moved(packet, 1, hops=1)._replace(time=packet.time and packet.time + LATER_NS))
    ]


def rows(found: dict) -> str:
    """All rows, without the numbers of frames, which are others among twice as many packets, and without connections
    that failed: these count at each pair of addresses."""
    rows = {
        name: [row for row in answer["rows"] if row.get("finding") not in PROBLEMS]
        for name, answer in found.items()
        if name != "connect"
    }
    text = json.dumps(rows, sort_keys=True)
    return re.sub(r'"(first|last)": \d+', r'"\1": 0', text)


@pytest.mark.parametrize("name", one_in(6, [name for name in ALL if "variants/" not in name]))
def test_a_translated_capture_answers_as_the_capture(name):
    taken = [*packets(CAPTURES / name)]
    alone, exchanges = objects(taken, b"")
    if any(exchange.connection.handshake is None for exchange in exchanges):
        return
    twice, _ = objects(translated(taken), b"")
    for answer in answers():
        counted, twins = (twice[answer]["capture"][key] for key in ("counted", "twins"))
        assert counted == twins == alone[answer]["capture"]["counted"]
        assert alone[answer]["capture"]["twins"] == 0
    assert rows(twice) == rows(alone)


def test_answers_that_take_more_tell_more_of_them():
    taken = [*packets(CAPTURES / GROUPS)]
    twice, _ = objects(translated(taken), b"", topic="pc-grp")
    alone, _ = objects(taken, b"", topic="pc-grp")
    assert rows(twice) == rows(alone)
    told = {(twice[name]["capture"]["twins"], alone[name]["capture"]["counted"]) for name in answers()}
    assert len(told) > 1
    assert all(twins == counted for twins, counted in told)


def test_connections_with_the_same_numbers_are_apart():
    """Many were begun with the same ones, on ports of their own."""
    found, exchanges = objects([*packets(CAPTURES / "variants/seqwrap.pcap.gz")], b"")
    assert {answer["capture"]["twins"] for answer in found.values()} == {0}
    assert {answer["capture"]["counted"] for answer in found.values()} == {len(exchanges)}


def test_made_connections_that_nobody_forwarded_are_apart():
    taken = [*packets(CAPTURES / GROUPS)]
    found, exchanges = objects([each for packet in taken for each in (packet, moved(packet, 1))], b"")
    assert {answer["capture"]["twins"] for answer in found.values()} == {0}
    assert {answer["capture"]["counted"] for answer in found.values()} == {len(exchanges)}


def test_the_same_packets_again_are_no_translation():
    found, _ = objects([*packets(CAPTURES / "variants/twice.pcap.gz")], b"")
    assert {answer["capture"]["twins"] for answer in found.values()} == {0}


def test_without_a_handshake_nothing_is_claimed():
    taken = [*packets(CAPTURES / GROUPS)]
    begun = translated(taken[len(taken) // 2 :])
    found, exchanges = objects(begun, b"")
    known = sum(exchange.connection.handshake is not None for exchange in exchanges)
    assert found["clients"]["capture"]["twins"] == known // 2 < len(exchanges) // 2


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_command_tells_them(kinspect, tmp_path, jobs):
    path: Path = tmp_path / "twice.pcap"
    taken = translated([*packets(CAPTURES / GROUPS)])
    path.write_bytes(pcap([((packet.time or 0) // 1000, packet.data) for packet in taken]))
    found = json.loads(kinspect("groups", "--format", "json", "--jobs", jobs, path).out)
    alone = json.loads(kinspect("groups", "--format", "json", CAPTURES / GROUPS).out)
    assert rows({"groups": found}) == rows({"groups": alone})
    assert found["capture"]["twins"] == 671
    assert "671 exchanges seen again at translated addresses: counted once" in (
        kinspect("groups", "--format", "table", "--jobs", jobs, path).out
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_read_leaves_them_out(kinspect, tmp_path, jobs):
    path: Path = tmp_path / "twice.pcap"
    taken = translated([*packets(CAPTURES / GROUPS)])
    path.write_bytes(pcap([((packet.time or 0) // 1000, packet.data) for packet in taken]))
    fields = ("--fields", "client.ip,api,correlation_id,timestamp,latency_ms")
    alone = kinspect("read", CAPTURES / GROUPS, "-q", *fields).out
    assert kinspect("read", path, "-q", *fields, "--jobs", jobs).out.count("\n") == 2 * alone.count("\n")
    found = kinspect("read", path, *fields, "--no-twins", "--jobs", jobs)
    assert found.out == alone
    assert "1,342 exchanges, 2 unanswered; 671 shown" in found.err
    assert "left out, as seen again at translated addresses: 127.0.0.1 as 127.0.1.1 671\n" in found.err
    # The filter comes before: what is behind the translation is what is asked for.
    behind = json.loads(kinspect("read", path, "-q").out.splitlines()[1])["client"]["ip"]
    assert behind != json.loads(alone.splitlines()[0])["client"]["ip"]
    chosen = kinspect("read", path, *fields, "--client-host", behind, "--no-twins", "--jobs", jobs)
    assert (chosen.out.count("\n"), "translated" in chosen.err) == (671, False)


@pytest.mark.parametrize("name", one_in(6, ALL))
def test_read_leaves_out_nothing_else(kinspect, name):
    given = kinspect("read", CAPTURES / name)
    assert kinspect("read", CAPTURES / name, "--no-twins") == given


def test_translations_are_counted_apart_as_long_as_there_is_room():
    tally = Tally()
    for number in range(TRANSLATIONS_KEPT + 2):
        tally.count_twin(f"{number} as x")
    assert (len(tally.twins), tally.twins[OTHER_ADDRESSES]) == (TRANSLATIONS_KEPT + 1, 2)


def test_a_handshake_at_many_addresses_is_kept_at_few():
    taken = [*packets(CAPTURES / GROUPS)]
    twins = NatCopies()
    for number in range(3 * PLACES_KEPT):
        _, exchanges = objects([moved(packet, number) for packet in taken[:40]], b"")
        assert exchanges
        for exchange in exchanges:
            twins.seen(exchange)
        assert max(map(len, twins._recent.values())) == min(number + 1, PLACES_KEPT)
