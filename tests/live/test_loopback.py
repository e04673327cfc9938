"""`kinspect live` on the loopback interface, beside real traffic."""

import json
import os
import pty
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress

import pytest
from support.captures import CAPTURES
from support.packets import packets, tcp
from support.waiting import wait_for_lines

import kinspect
from kinspect.cli import main
from kinspect.protocol import Message, encode_request

from . import traffic
from .conftest import read_some
from .loopback import free_port, talk
from .processes import balance, packets_in, worker_of

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]

NO_DROPS = "packets dropped by the capturing kernel: 0"


def key(line):
    return line["client"]["port"], line["api_key"], line["correlation_id"]


def test_an_interface_given_twice_is_one(live):
    with live("-i", "lo", "-i", "lo", "--port", free_port()) as running:
        assert running.started == "kinspect: capturing on lo, Ctrl-C ends it\n"
        running.end()


def test_every_exchange_once_with_its_latency(live):
    port = free_port()
    with live("-i", "lo", "--port", port) as running:
        assert running.started == "kinspect: capturing on lo, Ctrl-C ends it\n"
        before = time.time()
        talked = talk(port, 200, connections=5)
        out, err = running.end()
        assert running.process.returncode == 0
    lines = {key(line): line for line in map(json.loads, out.splitlines())}
    assert len(out.splitlines()) == len(lines) == 1000
    for exchange in talked:
        line = lines[exchange.client_port, exchange.api_key, exchange.correlation_id]
        assert line["outcome"] == "answered"
        assert line["problems"] == []
        least = traffic.SLOW_SECONDS * 1000 - 1 if exchange.slow else 0
        assert least < line["latency_ms"] < exchange.milliseconds
        assert line["request"]["frames"]["file"] == "lo"
    starts = [line["timestamp"] for line in lines.values()]
    day = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before))
    assert day <= min(starts)
    assert NO_DROPS in err.splitlines()


ENDINGS = [(signal.SIGINT, "Ctrl-C", 0), (signal.SIGTERM, "SIGTERM", 0), (signal.SIGHUP, "SIGHUP", 129)]


@pytest.mark.parametrize(("number", "name", "status"), ENDINGS)
def test_a_signal_ends_it_with_a_summary_that_balances(live, tmp_path, number, name, status):
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--port", port, "--emit", "exchange,summary", "-w", path) as running:
        talk(port, 20)
        for _ in range(20):
            running.line()
        out, err = running.end(number)
        assert running.process.returncode == status
    summary = json.loads(out.splitlines()[-1])
    assert balance(summary) == summary["saved_packets"] == packets_in(path)
    assert f"stopped by {name}" in err
    assert f"{summary['saved_packets']:,} of them saved" in err


def test_who_ignores_a_terminal_that_goes_away_still_does(live):
    port = free_port()
    with live("-i", "lo", "--port", port, before=("nohup",), stdin=subprocess.DEVNULL) as running:
        running.process.send_signal(signal.SIGHUP)
        talk(port, 1)
        assert json.loads(running.line())["api"] == "Metadata"
        running.end()
        assert running.process.returncode == 0


def test_an_exchange_is_printed_as_it_completes(live):
    port = free_port()
    with live("-i", "lo", "--port", port) as running:
        talk(port, 2)
        assert json.loads(running.line())["api"] == "Metadata"
        assert json.loads(running.line())["api"] == "Heartbeat"
        assert running.process.poll() is None


def test_duration(live):
    port, start = free_port(), time.monotonic()
    with live("-i", "lo", "--port", port, "--duration", "1s") as running:
        talk(port, 5)
        out, err = running.end(0)
        assert time.monotonic() - start > 1
        assert running.process.returncode == 0
    assert len(out.splitlines()) == 5
    assert NO_DROPS in err


def test_count_is_of_packets(live):
    port = free_port()
    with live("-i", "lo", "--count", 7, "--emit", "summary") as running:
        talk(port, 20)
        out, _ = running.end(0)
        assert running.process.returncode == 0
    (summary,) = map(json.loads, out.splitlines())
    assert summary["packets"] == 7
    assert summary["kernel_drops"] == 0
    assert summary["files"] == ["lo"]


def test_limit_is_of_lines(live):
    port = free_port()
    options = ("--limit", 3, "--emit", "exchange,summary")
    with live("-i", "lo", "--port", port, *options) as running:
        talk(port, 20)
        out, err = running.end(0)
        assert running.process.returncode == 0
    *lines, summary = map(json.loads, out.splitlines())
    assert len(lines) == 3
    balance(summary)
    assert "stopped at --limit 3" in err


def test_quiet(live):
    with live("-i", "lo", "-q", "--duration", "0.3s") as running:
        assert running.started == ""
        assert running.end(0)[1] == ""


@pytest.mark.parametrize("more", [0, 1], ids=["nothing comes", "more comes"])
def test_a_reader_that_goes_away_ends_it(live, more):
    port = free_port()
    with live("-i", "lo", "--port", port) as running:
        talk(port, 1)
        running.line()
        running.process.stdout.close()
        if more:
            talk(port, more)
        first, *summary = running.process.stderr.read().decode().splitlines()
        assert running.process.wait(10) == 1
    assert first == "kinspect: cannot write the output: Broken pipe: the capture ends"
    assert "1 Kafka" in summary[1]
    assert "stopped, as the output could not be written" in summary


def test_a_reader_of_all_that_is_said_goes_away(live):
    with live("-i", "lo", "--format", "jsonl", stdout=subprocess.PIPE) as running:
        running.process.stdout.close()
        running.process.stderr.close()
        assert running.process.wait(20) == 1
        running.process.stderr = None
        running.process.stdout = None


def test_an_output_that_cannot_be_written_ends_it(live):
    port = free_port()
    with live("-i", "lo", "--port", port, "-o", "/dev/full") as running:
        talk(port, 1)
        _, err = running.end(0)
        assert running.process.returncode == 1
    assert err.startswith("kinspect: cannot write the output: No space left on device: the capture ends\n")
    assert "1 Kafka" in err


@pytest.mark.parametrize(("term", "options"), [("dumb", ()), ("xterm", ("--format", "table"))])
def test_a_terminal_gets_a_table(live, term, options):
    port = free_port()
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "100"}
    shown = b""
    with (
        os.fdopen(controller, "rb", buffering=0) as screen,
        live("-i", "lo", "--port", port, *options, stdout=terminal, env=environment) as running,
    ):
        os.close(terminal)
        talk(port, 2)
        while b"workers" not in shown:
            shown += read_some(controller)
        assert running.process.poll() is None
        running.end()
        assert running.process.returncode == 0
        # Linux ends a pseudo-terminal's output with an error.
        with suppress(OSError):
            while data := screen.read(65536):
                shown += data
    assert b"\x1b[?1049h" not in shown
    assert b"STARTED" in shown
    assert b"Metadata v1" in shown


def test_a_file_is_written_as_exchanges_complete(live, tmp_path):
    port, path = free_port(), tmp_path / "out.jsonl"
    with live("-i", "lo", "--port", port, "-o", path) as running:
        assert path.stat().st_mode & 0o777 == 0o600
        talk(port, 2)
        assert len(wait_for_lines(path, 2)) == 2
        running.end()
        assert running.process.returncode == 0


def test_what_the_kernel_drops_is_told(live):
    with live("-i", "lo", "--emit", "summary") as running:
        overrun(running)
        out, err = running.end()
        assert running.process.returncode == 0
    summary = json.loads(out)
    assert summary["kernel_drops"] > 100
    assert summary["bytes"] > 32 * 1024 * 1024
    assert f"packets dropped by the capturing kernel: {summary['kernel_drops']:,}" in err.splitlines()


def overrun(running):
    """While all of it stands still nothing takes packets out of the ring, and more come than that holds."""
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        command = (running.process.pid, worker_of(running))
        for pid in command:
            os.kill(pid, signal.SIGSTOP)
        thread = threading.Thread(target=send, args=(receiver.getsockname(), 160 * 1024 * 1024))
        thread.start()
        connection, _ = receiver.accept()
        with connection:
            while connection.recv(1 << 20):
                pass
        thread.join()
        for pid in command:
            os.kill(pid, signal.SIGCONT)


def send(address, size):
    with socket.create_connection(address) as sender:
        for _ in range(size // (1 << 20)):
            sender.sendall(bytes(1 << 20))


def test_no_connection_is_seen_twice(live):
    port = free_port()
    with live("-i", "lo", "--port", port, "--emit", "connection,summary") as running:
        talk(port, 10, connections=3)
        out, _ = running.end()
    lines = [json.loads(line) for line in out.splitlines()]
    assert Counter(line["type"] for line in lines) == {"connection": 3, "summary": 1}
    assert lines[-1]["duplicate_packets"] == 0
    assert lines[-1]["retransmitted_bytes"] == 0


def test_an_interface_that_is_among_all_of_them_is_seen_twice(live):
    port = free_port()
    options = ("--bpf", f"tcp port {port}", "--emit", "exchange,gap,connection,summary")
    with live("-i", "lo", "-i", "any", *options) as running:
        talk(port, 200, connections=4)
        out, err = running.end()
    *lines, summary = map(json.loads, out.splitlines())
    assert Counter(line["type"] for line in lines) == {"exchange": 800, "connection": 4}
    assert {line["outcome"] for line in lines if line["type"] == "exchange"} == {"answered"}
    assert {(line["host"], line["interface"]) for line in lines} == {(socket.gethostname(), "lo")}
    assert summary["packets"] == 2 * summary["duplicate_packets"]
    assert (summary["gaps"], summary["kernel_drops"]) == (0, 0)
    assert "of them seen twice" in err


def test_a_reset_is_told_although_nothing_else_comes(live):
    port = free_port()
    with live("-i", "lo", "--port", port) as running:
        with socket.create_server(("127.0.0.1", port)) as server:
            client = socket.create_connection(("127.0.0.1", port))
            broker, _ = server.accept()
            body = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
            client.sendall(traffic.framed(encode_request(Message(traffic.HEARTBEAT, 4, 0, body, "app"))))
            broker.recv(1 << 16)
            broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            broker.close()
            line = json.loads(running.line())
            client.close()
        assert (line["outcome"], line["outcome_reason"]) == ("unanswered", "reset")
        running.end()
        assert running.process.returncode == 0


@contextmanager
def talked_again(capture, port):
    """The connection of a capture that produces, once more."""
    (own,) = {
        exchange.connection.client_port.to_bytes(2)
        for exchange in kinspect.read(capture, filter={"api": "Produce"})
    }
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        broker, _ = server.accept()
        with client, broker:
            for found in [tcp(packet.data) for packet in packets(capture)]:
                ends = [end[-2:] for end in found.ends]
                if own in ends and (sent := found.carried):
                    writes, reads = (client, broker) if ends[0] == own else (broker, client)
                    writes.sendall(sent)
                    assert reads.recv(len(sent), socket.MSG_WAITALL) == sent
            yield


def test_records_go_to_files_as_those_of_a_file_do(live, tmp_path):
    capture, port = CAPTURES / "4.4.0/nano.pcap", free_port()
    options = ("--split", "topic", "--format", "kcat", "--payload", "text", "--direction", "produce", "-o")
    with live("-i", "lo", "--port", port, "--records-only", *options, tmp_path / "live") as running:
        with talked_again(capture, port):
            pass
        running.end()
        assert running.process.returncode == 0
    assert main(["records", str(capture), *options, str(tmp_path / "read")]) == 0
    names = os.listdir(tmp_path / "read")
    assert os.listdir(tmp_path / "live") == names
    for name in names:
        assert (tmp_path / "live" / name).read_bytes() == (tmp_path / "read" / name).read_bytes()


def test_payloads_are_decoded_by_schemas(live):
    capture, port = CAPTURES.parent / "tests/payloads/data/orders.pcap", free_port()
    schemas = capture.with_name("schemas.jsonl")
    expected = [*kinspect.records_of(capture, payload="auto", schema_registry=schemas)]
    options = ("--records-only", "--payload", "auto", "--schema-registry", schemas)
    with live("-i", "lo", "--port", port, *options) as running, talked_again(capture, port):
        rows = [json.loads(running.line()) for _ in expected]
        running.end()
    assert [row["value"] for row in rows] == [row["value"] for row in expected]


def test_records_are_those_that_the_same_packets_have_in_a_file(live):
    capture, port = CAPTURES / "4.4.0/nano.pcap", free_port()
    options = ("--records-only", "--payload", "text", "--key", "k1?", "--topic", "pc-*", "--once")
    with live("-i", "lo", "--port", port, *options) as running, talked_again(capture, port):
        expected = [*kinspect.records_of(capture, key="k1?", payload="text")]
        rows = [json.loads(running.line()) for _ in expected]
        assert running.end()[0] == ""
        assert running.process.returncode == 0
    kept = ("topic", "partition", "offset", "key", "value", "headers", "transaction", "direction")
    assert [[row[name] for name in kept] for row in rows] == [
        [row[name] for name in kept] for row in expected
    ]
