"""`kinspect live --from`: captures that a command prints, or a server sends."""

import json
import os
import shlex
import socket
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from support.captures import CAPTURES
from support.waiting import wait_until

from kinspect.capture import sender
from kinspect.capture.captureworker import CaptureLimits
from kinspect.capture.handover import QUEUE_BYTES
from kinspect.capture.sender import sender_of
from kinspect.capture.streamedcapture import StreamedCapture
from kinspect.capture.writer import interface_block, packet_block, section, statistics_block
from kinspect.cli import main
from kinspect.cli.ownmetrics import _drops

PLAIN = CAPTURES / "4.1.2" / "admin_java.pcap"
SECRETS = CAPTURES / "tls" / "tls12_chacha_dsb.pcapng.gz"
EACH = [PLAIN, CAPTURES / "4.1.2" / "txn_java.pcap.gz", SECRETS]


@pytest.fixture(autouse=True)
def rights(monkeypatch):
    """This process keeps its own."""
    monkeypatch.setattr("kinspect.cli.livecommand.drop", lambda: None)
    monkeypatch.setattr("kinspect.cli.livecommand.preload", lambda values: None)


def lines(path, name):
    """The lines in a file, without what differs where a capture is read: its name, and what is made of that."""
    found = [json.loads(text.replace(json.dumps(name), "0")) for text in path.read_text().splitlines()]
    return sorted(({**line, "event_id": None} for line in found), key=json.dumps)


@pytest.mark.parametrize("path", EACH, ids=lambda path: path.name)
def test_lines_are_those_of_the_file(tmp_path, path):
    streamed, read, command = tmp_path / "streamed", tmp_path / "read", f"cat {shlex.quote(str(path))}"
    assert main(["live", "--from", command, "-q", "-o", str(streamed)]) == 0
    assert main(["read", str(path), "-q", "-o", str(read)]) == 0
    assert lines(streamed, command) == lines(read, str(path))
    assert lines(read, str(path))


def test_pcap_over_ip(tmp_path, capfd):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send():
            with server.accept()[0] as client:
                client.sendall(PLAIN.read_bytes())

        sending = threading.Thread(target=send)
        sending.start()
        name = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert main(["live", "--from", name, "--answer", "summary", "--format", "json"]) == 0
        sending.join()
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert (found["capture"]["packets"], found["capture"]["files"]) == (49, [name])
    assert f"49 packets, 12,853 bytes on {name}\n" in err
    # What the other host dropped is not known, and nothing was dropped here.
    assert "dropped by the capturing kernel" not in err
    assert "not decoded, as they came too fast: 0" in err


ENDED = "the command ended with status"
NOTHING = f"{shlex.quote(str(CAPTURES / 'MANIFEST.tsv'))}"
CUT = f"head -c 3000 {shlex.quote(str(PLAIN))}"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("no-such-command -w -", 1, ["there is no command 'no-such-command'"]),
        ("", 1, ["there is no command ''"]),
        ("'cat", 1, ["not a command: No closing quotation"]),
        (str(CAPTURES), 1, [f"there is no command '{CAPTURES}'"]),
        ("true", 1, ["true: is empty"]),
        ("false", 1, [f"false: {ENDED} 1"]),
        ("sh -c 'printf \"no\\n \\033[1mroute\" >&2; exit 255'", 1, [f"{ENDED} 255: no; \\x1b[1mroute"]),
        ("sh -c 'kill -9 $$'", 1, ["the command was ended by SIGKILL"]),
        (f"cat {NOTHING}", 1, ["not a capture (pcap"]),
        (f"sh -c 'echo warned >&2; cat {NOTHING}'", 1, ["not a capture (pcap", "the command said: warned"]),
        (CUT, 3, ["ends in the middle of packet 16"]),
        (f"sh -c '{CUT}; exit 4'", 3, ["ends in the middle of packet 16", f"{ENDED} 4"]),
        ("tcp://127.0.0.1:1", 1, ["cannot connect: "]),
        ("tcp://127.0.0.1", 1, ["not an address: tcp://host:port"]),
        ("tcp://127.0.0.1:77777", 1, ["not an address"]),
        ("tcp://[::1", 1, ["not an address"]),
    ],
)
def test_what_fails_is_told(tmp_path, capfd, command, status, said):
    assert main(["live", "--from", command, "-o", str(tmp_path / "out")]) == status
    errors = [
        line
        for line in capfd.readouterr().err.splitlines()
        if line.startswith("kinspect: ") and "Ctrl-C ends it" not in line
    ]
    assert len(errors) == len(said), errors
    for line, text in zip(errors, said, strict=True):
        assert text in line


def test_no_shell_sees_the_command(tmp_path, capfd):
    made = tmp_path / "made"
    assert main(["live", "--from", f"echo $HOME; touch {made}"]) == 1
    assert "not a capture" in capfd.readouterr().err
    assert not made.exists()


def opened(command, plan=None, queue_bytes=QUEUE_BYTES):
    capture = StreamedCapture(sender_of(command), plan or CaptureLimits(), queue_bytes)
    capture.start()
    return capture


def is_gone(pid):
    """True if there is no such process, or it only waits to be asked for its status."""
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"
    return True


def packets_until_stopped(capture, count):
    """The number of packets, if the capture is stopped once there are so many."""
    found = 0
    if count == 0:
        capture.stop()
    for block in capture:
        found += len(block)
        if found == count and len(block):
            capture.stop()
    return found


@pytest.mark.parametrize(
    ("before", "count"),
    [("", 0), (f"cat {PLAIN};", 49), (f"{CUT};", 15)],
    ids=["nothing", "packets", "half one"],
)
@pytest.mark.parametrize("trap", ["", 'trap "" TERM;'], ids=["ends", "does not end"])
def test_a_silent_command_is_ended_with_all_that_it_started(tmp_path, monkeypatch, before, count, trap):
    monkeypatch.setattr(sender, "TERM_SECONDS", 0.1)
    pids = tmp_path / "pids"
    capture = opened(f"sh -c '{trap} sleep 1000 & echo $$ $! > {pids}; {before} wait'")
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    assert packets_until_stopped(capture, count) == count
    assert capture.status.errors == []
    assert not capture.capturing
    capture.close()
    wait_until(lambda: all(map(is_gone, pids.read_text().split())))


def test_time_passes_without_packets():
    capture = opened("sleep 1000")
    blocks = iter(capture)
    assert [len(next(blocks)) for _ in range(3)] == [0, 0, 0]
    assert capture.capturing
    capture.close()
    assert [*capture] == []


def test_limits():
    assert packets_until_stopped(opened(f"cat {PLAIN}", CaptureLimits(packets=20)), -1) == 20
    capture = opened(f"sh -c 'cat {PLAIN}; sleep 1000'", CaptureLimits(duration_ns=300_000_000))
    assert packets_until_stopped(capture, -1) == 49
    assert capture.status.errors == []


def test_a_full_queue_lets_the_command_wait(tmp_path):
    """Nothing is lost, and no more than a block is read ahead."""
    path = tmp_path / "long.pcap"
    whole = PLAIN.read_bytes()
    path.write_bytes(whole + whole[24:] * 100)
    capture = opened(f"cat {path}", queue_bytes=1)
    wait_until(lambda: capture.counters.packets)
    most = 0
    found = 0
    for block in capture:
        found += len(block)
        most = max(most, capture.counters.waiting)
    assert found == 49 * 101 == capture.status.captured_packets
    assert most < 300_000


def test_what_waits_is_dropped_where_it_is_closed():
    capture = opened(f"sh -c 'cat {PLAIN}; sleep 1000'")
    wait_until(lambda: capture.counters.packets)
    capture.close()
    capture.close()
    assert not capture.capturing


def test_what_never_began_can_be_closed():
    capture = StreamedCapture(sender_of("cat"), CaptureLimits(), QUEUE_BYTES)
    capture.close()
    assert [*capture] == []


def test_descriptors_are_given_back():
    before = len(os.listdir("/proc/self/fd"))
    for begins in (True, False):
        capture = StreamedCapture(sender_of(f"cat {PLAIN}"), CaptureLimits(), QUEUE_BYTES)
        if begins:
            capture.start()
            assert sum(map(len, capture)) == 49
        capture.close()
        capture.close()
        capture.stop()
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_program_that_cannot_be_started(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"\0no program")
    path.chmod(0o700)
    (error,) = errors_of(opened(str(path)))
    assert f"{path}: cannot be started: " in str(error)


def errors_of(capture):
    for _ in capture:
        pass
    return capture.status.errors


def test_drops_are_known_where_the_stream_tells_them(tmp_path):
    path = tmp_path / "counted.pcapng"
    path.write_bytes(
        section()
        + interface_block(1)
        + packet_block(0, 1, bytes(60), 60)
        + statistics_block(0, 0, 1, 7)
        + packet_block(0, 2, bytes(60), 60)
    )
    capture = opened(f"cat {path}")
    assert errors_of(capture) == []
    assert capture.status.kernel_drops == 7
    assert [each.kernel_drops for each in capture.interfaces.values()] == [7]


def test_metrics_have_no_count_of_what_is_not_known():
    capture = opened(f"cat {PLAIN}")
    assert errors_of(capture) == []
    health = SimpleNamespace(interfaces=capture.interfaces)
    assert _drops(None, health) == {(f"cat {PLAIN}", "queue"): 0}
