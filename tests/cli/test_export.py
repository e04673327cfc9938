"""`kinspect export`: what is read of the export is what is read of the original, for what passes."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from itertools import pairwise
from struct import pack, unpack_from

import pytest
from support.captures import CAPTURES
from support.client import Client, recorded
from support.decoded import keylog_beside
from support.formats import WRITERS
from support.packets import packets, tcp
from support.pcap import ACK, FIN, RST, Conversation, pcap
from support.wrap import fragmented

import kinspect
from kinspect.capture import open_timeline
from kinspect.capture.writer import interface_block, packet_block, section
from kinspect.cli import exportcommand, interrupt
from kinspect.exports import chosenpackets, packetcopy
from kinspect.exports.choice import Choice
from kinspect.filters.filter import Filter

NANO, ERRORS = CAPTURES / "4.4.0/nano.pcap", CAPTURES / "4.4.0/errors_java.pcap.gz"
KEYLOG = CAPTURES / "tls/sasl_ssl_tls12.keys.log"
SAMPLE = {
    "4.4.0/errors_java.pcap.gz",
    "connect/reset_java.pcap.gz",
    "tls/tls12_chacha_dsb.pcapng.gz",
    "variants/cutfile.pcap",
    "variants/ngmulti.pcapng.gz",
    "variants/qinq.pcap.gz",
}
FILES = sorted(CAPTURES.rglob("*.pcap*"))
PARTS = [
    pytest.param(path, marks=() if str(path.relative_to(CAPTURES)) in SAMPLE else pytest.mark.big)
    for path in FILES
]
ENDS = ("capture_end", "idle")
"""Where the capture ends, the export may end earlier."""


def keys(path):
    """The option for the secrets of a capture."""
    found = keylog_beside(path)
    return ("--keylog", found) if found.exists() else ()


@pytest.fixture
def read(kinspect):
    """The exchanges that are read, without their frames, and what the export need not have."""

    def run(*arguments):
        found = []
        result = kinspect("read", "-q", "--format", "jsonl", "--records", *arguments)
        for line in map(json.loads, result.out.splitlines()):
            for side in ("request", "response"):
                if line[side]:
                    del line[side]["frames"]
            if line["outcome"] == "unanswered" and line["outcome_reason"] in ENDS:
                line["completed_at"] = line["outcome_reason"] = None
            found.append(line)
        return result.status, found

    return run


@pytest.fixture
def exported(kinspect, tmp_path):
    """The status of an export, and its path."""
    path = tmp_path / "out.pcapng"

    def run(*arguments):
        result = kinspect("export", "-q", "--force", "-o", path, *arguments)
        return result.status, path

    return run


def asked(path, lines):
    """Filters that some of the lines pass; of captures beside the sample two, which take turns."""
    found = [(), ("--errors-only",)]
    for option, values in (
        ("--client-id", [line["client"]["id"] for line in lines]),
        ("--api", [line["api"] for line in lines]),
        ("--topic", [topic for line in lines for topic in line["topics"]]),
    ):
        if named := sorted({value for value in values if value}):
            found.append((option, named[len(named) // 2].replace("[", "?").replace("!", "?")))
    first = FILES.index(path) % len(found)
    return found if str(path.relative_to(CAPTURES)) in SAMPLE else (found * 2)[first : first + 2]


@pytest.mark.parametrize("path", PARTS, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_an_export_is_read_as_the_original(read, exported, path):
    _, everything = read(path, *keys(path))
    for filters in asked(path, everything):
        status, expected = read(path, *keys(path), *filters)
        made, out = exported(path, *keys(path), *filters)
        assert made == status
        if status != 1:
            assert read(out, *filters) == (0, expected)


LEFT_TO_OTHERS = ("in_flight", "service_ms", "wait")
"""Keys that depend on what other exchanges of the connection did."""


def alone(lines):
    """The lines without what other exchanges of their connections show, in any order."""
    found = []
    for line in lines:
        kept = {key: value for key, value in line.items() if key not in LEFT_TO_OTHERS}
        found.append({**kept, "client": {**kept["client"], "role": None}})
    return sorted(found, key=lambda line: line["event_id"])


@pytest.mark.parametrize("path", PARTS, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_exchanges_alone_are_read_as_before(read, exported, path):
    _, everything = read(path, *keys(path))
    for filters in asked(path, everything):
        status, expected = read(path, *keys(path), *filters)
        made, out = exported(path, *keys(path), *filters, "--packets", "exchange")
        assert made == status
        if status != 1:
            assert alone(read(out, *filters)[1]) == alone(expected)


def test_exchanges_alone_are_no_more_than_asked_for(exported, read):
    path = CAPTURES / "4.4.0/sarama.pcap.gz"
    _, whole = exported(path, "--api", "ListOffsets")
    packets_before = len(rows(whole))
    _, out = exported(path, "--api", "ListOffsets", "--packets", "exchange")
    assert len(rows(out)) < packets_before / 2
    apis = {line["api"] for line in read(out)[1]}
    assert apis <= {"ListOffsets", "ApiVersions", "Metadata"}


def test_exchanges_that_do_not_pass_are_not_kept():
    chosen = Filter(client_id=["nobody"])
    choice, taken = Choice(chosen, exchanges_alone=True), 0
    for exchange in kinspect.read(ERRORS):
        if chosen.matches(exchange):
            before = sys.getrefcount(exchange)
            choice.take(exchange)
            assert sys.getrefcount(exchange) == before
            taken += 1
    assert taken > 10


TLS = [path for path in FILES if path.parent.name == "tls"]


@pytest.mark.parametrize("path", TLS, ids=lambda path: path.name)
def test_plaintext_is_read_as_what_was_encrypted(read, exported, path):
    for filters in ((), ("--api", "Produce")):
        _, expected = read(path, *keys(path), *filters)
        _, out = exported(path, *keys(path), *filters, "--decrypted", "--comments")
        status, found = read(out, *filters)
        assert status == 0
        for line in expected + found:
            line["tls"] = None
        assert found == expected
        assert bool(expected) == any(comments(out))
        timeline = open_timeline([out])
        assert {link for block in timeline for link in block.link_types} <= ({101} if expected else set())
        assert timeline.secrets == []


@pytest.mark.parametrize("name", ["go", "tls13"])
def test_what_was_inside_tls_is_in_the_order_of_time(exported, name):
    source = CAPTURES / f"tls/{name}.pcap.gz"
    _, out = exported(source, *keys(source), "--decrypted")
    times = [row[0] for row in rows(out)]
    assert times == sorted(times)
    assert any(row[2][33] & RST for row in rows(out))


@pytest.mark.parametrize("by_client", [True, False])
def test_a_reset_is_its_senders(exported, tmp_path, by_client):
    source, path = CAPTURES / "tls/tls13.pcap.gz", tmp_path / "made.pcap"
    taken = [(packet, tcp(packet.data)) for packet in packets(source)]
    end = next(at for at, (_, part) in enumerate(taken) if part.flags & FIN)
    own = [each for each in taken[:end] if {*each[1].ends} == {*taken[end][1].ends}]
    client = own[0][1].ends[0]
    last = [part for _, part in own if (part.ends[0] == client) == by_client][-1]
    reset = own[-1][0]._replace(data=last.carrying(last.seq + len(last.carried), b"", RST | ACK, 1))
    path.write_bytes(WRITERS["pcap"]([*(packet for packet, _ in own), reset]))
    _, out = exported(path, *keys(source), "--decrypted")
    data = rows(out)[-1][2]
    assert (data[12:16] + data[20:22], data[33]) == (last.ends[0], RST | ACK)


def comments(path):
    """The comments on each packet."""
    found, data, at = [], path.read_bytes(), 0
    while at < len(data):
        kind, size = unpack_from("<II", data, at)
        if kind == 6:
            captured = unpack_from("<I", data, at + 20)[0]
            rest, own = data[at + 28 + captured + -captured % 4 : at + size - 4], []
            while rest[:2] == b"\1\0":
                length = unpack_from("<H", rest, 2)[0]
                own.append(rest[4 : 4 + length].decode())
                rest = rest[4 + length + -length % 4 :]
            found.append(own)
        at += size
    return found


def test_comments_stand_on_the_packets_that_end_messages(exported, read, tmp_path):
    _, out = exported(ERRORS, "--client-id", "pc-err-big", "--comments")
    ends = [line for line in comments(out) if line]
    assert ends[-2:] == [
        ["Produce v13 pcerr-small[0] 1 record 5071 B"],
        ["Produce v13 pcerr-small[0] 1 record 5071 B → MESSAGE_TOO_LARGE, 1.17ms"],
    ]
    plain = rows(out)
    assert plain == rows(exported(ERRORS, "--client-id", "pc-err-big")[1])
    path = tmp_path / "made.pcap"
    client = Client("a")
    names = [f"\x1b\n{number:03}{'x' * 200}" for number in range(9)]
    topics = [{"name": name, "partitions": []} for name in names]
    client.ask(0, 3, {"acks": 0, "transactional_id": None, "topic_data": topics})
    client.ask(12, 0, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    path.write_bytes(recorded(client))
    first, second = (own for own in comments(exported(path, "--comments")[1]) if own)
    assert first[0].startswith("Produce v3 \\x1b\\x0a000xxx")
    assert first[0].isprintable()
    assert len(first[0]) == 400
    assert second == ["Heartbeat v0 group g → unanswered (capture_end)"]


def test_files_of_a_split_can_be_read_alone(kinspect, read, tmp_path):
    out = tmp_path / "part.pcapng"
    result = kinspect("export", ERRORS, "--split", "20KiB", "-o", out)
    parts = sorted(tmp_path.iterdir())
    assert f"written, into {len(parts)} files" in result.err
    assert len(parts) > 3
    assert all(part.stat().st_size <= 20 << 10 and rows(part) for part in parts)
    kinspect("export", "-q", ERRORS, "-o", out)
    assert rows(*parts) == rows(out)
    assert read(*parts) == read(out)


def rows(*paths):
    """Time, link type and bytes of all packets, and the bytes that are missing of each."""
    return [
        (packet.time, packet.link_type, packet.data, packet.cut)
        for path in paths
        for packet in packets.__wrapped__(path)
    ]


@pytest.mark.parametrize("name", WRITERS)
def test_packets_of_any_format_stay_as_they_are(exported, tmp_path, name):
    path = tmp_path / f"made.{name}.gz"
    path.write_bytes(gzip.compress(WRITERS[name](packets(NANO))))
    _, out = exported(path)
    assert rows(out) == rows(path)
    assert len(rows(out)) == 24


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return pack(order + "II", kind, size) + body + pack(order + "I", size)


def option(order, code, value):
    return pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def written(order, kind, taken):
    """A section with options everywhere. `kind`: of the blocks that hold the packets."""
    text = option(order, 1, f"comment {order}".encode()) + bytes(4)
    offset = option(order, 9, b"\x06") + option(order, 14, pack(order + "q", 100)) + bytes(4)
    name = option(order, 1, b"\x7f\0\0\x01local\0") + bytes(4)
    parts = [
        block(order, 0x0A0D0D0A, pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + text),
        block(order, 1, pack(order + "HHI", 1, 0, 0) + option(order, 2, b"quiet0") + bytes(4)),
        block(order, 1, pack(order + "HHI", 1, 0, 0) + option(order, 2, b"eth1") + offset),
        block(order, 4, name),
    ]
    for packet in taken:
        size, ticks = len(packet.data), packet.time // 1000 - 100_000_000
        numbers = {6: pack(order + "I", 1), 2: pack(order + "HH", 1, 7)}.get(kind, b"")
        head = numbers + pack(order + "4I", ticks >> 32, ticks & 0xFFFFFFFF, size, size)
        padded = packet.data + bytes(-size % 4)
        if kind == 3:
            parts.append(block(order, 3, pack(order + "I", size) + padded))
        else:
            parts.append(block(order, kind, head + padded + option(order, 2, pack(order + "I", 2)) + text))
    return b"".join(parts)


@pytest.mark.parametrize("kind", [6, 2, 3])
def test_what_pcapng_says_of_packets_stays(exported, tmp_path, kind):
    taken = packets(NANO)
    half = len(taken) // 2
    path = tmp_path / "made.pcapng"
    path.write_bytes(written("<", kind, taken[:half]) + written(">", kind, taken[half:]))
    _, out = exported(path)
    assert rows(out) == rows(path)
    assert all((time is None) == (kind == 3) for time, *_ in rows(out))
    found = out.read_bytes()
    for part, count in (
        (b"local", 1),
        (option("<", 1, b"comment <"), 1 if kind == 3 else 1 + half),
        (option("<", 1, b"comment >"), 1 if kind == 3 else 1 + len(taken) - half),
        (option("<", 2, pack("<I", 2)), 0 if kind == 3 else len(taken)),
        # They are described alike in both sections.
        (b"eth1", 0 if kind == 3 else 1),
        (b"quiet0", 1 if kind == 3 else 0),
    ):
        assert found.count(part) == count, part


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", [6, 2])
def test_times_that_are_not_read_stay(exported, tmp_path, kind, order):
    # Its lower half is the type of simple packet blocks.
    ticks = 0xFFFFFFFF << 32 | 3
    taken = [packet._replace(time=(ticks + 100_000_000) * 1000) for packet in packets(NANO)]
    path = tmp_path / "made.pcapng"
    path.write_bytes(written(order, kind, taken))
    _, out = exported(path)
    assert rows(out) == rows(path)
    assert {time for time, *_ in rows(out)} == {None}
    assert out.read_bytes().count(pack("<II", ticks >> 32, 3)) == len(taken)


def calls(run):
    """Number of functions of the module that copies packets that are called."""
    found = 0

    def note(frame, event, _):
        nonlocal found
        found += event == "call" and frame.f_code.co_filename == packetcopy.__file__

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def test_many_interfaces_that_are_described_alike(exported, tmp_path):
    path, found = tmp_path / "made.pcapng", []
    for times in (3, 6):
        taken = [packet for packet in packets(NANO) for _ in range(times)]
        count = len(taken)
        parts = [section(), *[interface_block(1)] * count]
        parts += [packet_block(at, each.time, each.data, len(each.data)) for at, each in enumerate(taken)]
        path.write_bytes(b"".join(parts))
        found.append(calls(lambda: exported(path)))
        assert rows(path) == rows(tmp_path / "out.pcapng")
        assert (tmp_path / "out.pcapng").read_bytes().count(interface_block(1)) == count
    assert found[1] <= 2 * found[0]


def beats(port, name, errors=(0,)):
    client = Client(name, port)
    for error in errors:
        client.ask(12, 0, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": error})
    return client


def test_captures_become_one_in_the_order_of_time(exported, read, tmp_path):
    first, second = beats(40000, "a", (0, 0, 27)), beats(40001, "b", (0, 0))
    paths = []
    for name, client in (("b", second), ("a", first)):
        paths.append(tmp_path / f"{name}.pcap")
        paths[-1].write_bytes(recorded(client))
    assert exported(*paths)[0] == 0
    _, out = exported(*paths)
    times = [time for time, *_ in rows(out)]
    assert times == sorted(time for path in paths for time, *_ in rows(path))
    assert read(out) == read(*paths)


@pytest.mark.parametrize("name", ["pcap", "pcapng"])
def test_clocks_of_two_hosts_are_set_right_in_the_file(exported, read, tmp_path, name):
    taken = packets(ERRORS)
    # A hop further, where the clock is ahead.
    later = [
        packet._replace(time=packet.time + 25_300_000, data=packet.data[:22] + b"\x3f" + packet.data[23:])
        for packet in taken
    ]
    paths = [tmp_path / "one.pcapng", tmp_path / "other.pcapng"]
    for path, packets_of in zip(paths, (taken, later), strict=True):
        path.write_bytes(WRITERS[name](packets_of))
    _, out = exported(*paths, "--errors-only")
    times = [time for time, *_ in rows(out)]
    assert times == sorted(times)
    assert read(out, "--errors-only") == read(*paths, "--errors-only")


def test_ports_that_are_used_again(exported, read, tmp_path):
    one, other = beats(40000, "one"), Client("two", 40000)
    one.talk.close()
    other.talk = Conversation(("10.0.0.1", 40000), sequences=(9_000_000, 8_000_000), time_us=one.talk.time_us)
    other.talk.open()
    other.ask(12, 0, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": 0})
    path = tmp_path / "made.pcap"
    path.write_bytes(recorded(one, other))
    for name, count in (("one", len(one.talk.packets)), ("two", len(other.talk.packets))):
        _, out = exported(path, "--client-id", name)
        assert len(rows(out)) == count
        assert read(out) == read(path, "--client-id", name)


def test_fragments_are_there(exported, read, tmp_path):
    path = tmp_path / "made.pcap"
    path.write_bytes(WRITERS["pcap"](fragmented(packets(NANO), 64, 1)))
    _, out = exported(path)
    assert rows(out) == rows(path)


def test_names_that_other_connections_tell_are_there(exported, read):
    _, lines = read(ERRORS, "--client-id", "pc-err-oor")
    assert {line["broker"]["node_id"] for line in lines} == {1}
    assert read(exported(ERRORS, "--client-id", "pc-err-oor")[1], "--client-id", "pc-err-oor") == (0, lines)


def test_secrets_of_what_is_written_are_in_it(kinspect, tmp_path):
    out = tmp_path / "out.pcapng"
    path = KEYLOG.with_name("sasl_ssl_tls12.pcap.gz")
    result = kinspect("export", path, "--keylog", KEYLOG, "-o", out, "--api", "Produce")
    assert "secrets of 2 TLS connections are in it" in result.err
    lines = {line.lower() for line in KEYLOG.read_bytes().splitlines()}
    timeline = open_timeline([out])
    for _ in timeline:
        pass
    (text,) = timeline.secrets
    kept = {line.lower() for line in text.splitlines()}
    assert 0 < len(kept) < len(lines)
    assert kept < lines


def test_standard_output(kinspect, process, tmp_path):
    assert kinspect("export", "-q", NANO, "-o", tmp_path / "out").status == 0
    piped = process("export", NANO, "-o", "-")
    assert (piped.returncode, piped.stdout) == (0, (tmp_path / "out").read_bytes())
    assert b"24 packets of 2 connections written" in piped.stderr
    with open("/dev/full", "wb") as full:
        failed = process("export", "-q", NANO, stdout=full)
    assert (failed.returncode, failed.stderr) == (1, b"kinspect: /dev/stdout: No space left on device\n")


def test_a_closed_pipe_is_no_error(process):
    receiver, sender = os.pipe()
    os.close(receiver)
    with os.fdopen(sender, "wb") as closed:
        done = process("export", "-q", NANO, stdout=closed)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_is_refused(kinspect, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copy(NANO, out)
    for arguments, text in (
        (("-", "-o", "new"), "-: is read twice, and a pipe can be read only once"),
        ((NANO, "-o", out), "exists; give --force to overwrite it"),
        ((out, "-o", out, "--force"), "is one of the inputs"),
        ((NANO, "-o", out / "in"), "No such file or directory"),
    ):
        result = kinspect("export", *arguments)
        assert (result.status, text in result.err) == (2, True), result.err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "packets are not for a terminal" in kinspect("export", NANO).err
    assert out.read_bytes() == NANO.read_bytes()


def test_inputs_that_cannot_be_read_leave_the_file(kinspect, tmp_path):
    out = tmp_path / "out"
    out.write_text("before")
    result = kinspect("export", tmp_path / "missing", "-o", out, "--force")
    assert (result.status, out.read_text()) == (1, "before")
    cut = CAPTURES / "variants/cutfile.pcap"
    result = kinspect("export", cut, tmp_path / "missing", "-o", out, "--force")
    assert (result.status, result.err.count("no such file")) == (3, 1)
    assert rows(out)


class Stopped(interrupt.Interrupt):
    """Ctrl-C at the second block of the `at`th reading."""

    at = 0

    def guard(self, items):
        self.at -= 1
        for number, one in enumerate(super().guard(items)):
            if number == 1 and not self.at:
                os.kill(os.getpid(), 2)
            yield one


@pytest.mark.parametrize(
    ("at", "told"), [(1, "nothing was written"), (2, " packets of 16 connections written")]
)
def test_ctrl_c_ends_with_what_is_done(kinspect, many_capture, tmp_path, monkeypatch, at, told):
    monkeypatch.setattr(exportcommand, "Interrupt", Stopped)
    monkeypatch.setattr(Stopped, "at", at)
    out = tmp_path / "out"
    result = kinspect("export", many_capture, "-o", out)
    assert (result.status, "stopped by Ctrl-C" in result.err, told in result.err) == (130, True, True), (
        result.err
    )
    assert out.exists() == (at > 1)


def test_connections_that_there_is_no_room_to_note_are_counted(kinspect, many_capture, tmp_path, monkeypatch):
    monkeypatch.setattr(chosenpackets, "SPANS_KEPT", 10)
    result = kinspect("export", many_capture, "-o", tmp_path / "out")
    assert "left out for want of room" in result.err
    assert all(before[0] <= after[0] for before, after in pairwise(rows(tmp_path / "out")))


def test_captures_that_are_not_read_whole(kinspect, tmp_path):
    limits = ("--max-connections", "2", "--max-message-bytes", "50")
    result = kinspect("export", ERRORS, *limits, "-o", tmp_path / "cut.pcapng")
    assert (result.status, "caps hit" in result.err, "written" in result.err) == (0, True, True), result.err
    result = kinspect("export", KEYLOG.with_name("tls13.pcap.gz"), "-o", tmp_path / "tls.pcapng")
    assert (result.status, "not decrypted" in result.err) == (0, True), result.err


def test_names_that_there_is_no_room_for_are_counted(kinspect, tmp_path):
    path, out = tmp_path / "made.pcapng", tmp_path / "out.pcapng"
    names = [block("<", 4, option("<", 1, bytes(4) + b"%03d\0" % number) + bytes(4)) for number in range(258)]
    large = block("<", 4, option("<", 1, bytes(40_000)) * 2 + bytes(4))
    path.write_bytes(b"".join([section(), large, *names, *names]))
    result = kinspect("export", path, "-o", out)
    assert "name resolution blocks left out for want of room: 5" in result.err
    assert out.read_bytes().count(names[0]) == out.read_bytes().count(names[255]) == 1
    assert names[256] not in out.read_bytes()


def test_a_capture_without_anything_that_passes_is_one(kinspect, exported, read):
    status, out = exported(NANO, "--client-id", "nobody")
    assert (status, rows(out), read(out)) == (0, [], (0, []))
    result = kinspect("export", "-q", NANO, "--client-id", "nobody", "--force", "-o", out)
    assert (result.status, result.err) == (0, f"kinspect: {out}: has no packets, as nothing passes\n")


def test_times_are_as_fine_as_before(exported, tmp_path):
    path = tmp_path / "micro.pcap"
    path.write_bytes(pcap(beats(40000, "a").talk.packets))
    resolution = option("<", 9, b"\x06"), option("<", 9, b"\x09")
    assert [exported(each)[1].read_bytes().count(form) for each in (path, NANO) for form in resolution] == [
        *(1, 0),
        *(0, 1),
    ]


def test_names_that_cannot_be_written_are_usage_errors(kinspect, tmp_path):
    found = kinspect("export", NANO, "-o", tmp_path)
    assert (found.status, f"-o: {tmp_path}: is a folder" in found.err) == (2, True)
    found = kinspect("export", NANO, "-o", tmp_path / "out.pcapng.gz")
    assert (found.status, "is not written compressed" in found.err) == (2, True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["refused_java", "health-check_bash", "tls-to-plain_java"])
def test_without_a_filter_connections_that_failed_are_in_it(kinspect, tmp_path, name):
    path, out = CAPTURES / f"connect/{name}.pcap.gz", tmp_path / "out.pcapng"
    assert "without an exchange" not in kinspect("export", path, "-o", out).err
    found = [json.loads(kinspect("connect", each).out)["rows"] for each in (path, out)]
    for row in (row for rows in found for row in rows):
        del row["frames"]
    assert found[0] == found[1] != []
    assert (
        "without an exchange" in kinspect("export", path, "--redact", "-o", tmp_path / "redacted.pcapng").err
    )
