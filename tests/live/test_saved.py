"""Files of `kinspect live --save`, whatever becomes of the process that decodes."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from contextlib import suppress

import pytest
from support.screen import Screen
from support.waiting import wait_until

from kinspect.capture import open_timeline

from .loopback import free_port, talk
from .processes import balance, packets_in, worker_of
from .tlstraffic import talk_tls

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]


def lines(text):
    """The exchanges of JSON lines, without the name of where they come from."""
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        for side in ("request", "response"):
            if line[side] is not None:
                line[side]["frames"].pop("file")
        # `read` knows of neither.
        del line["host"], line["interface"]
    return found


def read(*paths, options=()):
    command = [sys.executable, "-m", "kinspect", "read", "-q", *map(str, options), *map(str, paths)]
    return lines(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_read_again_it_gives_what_live_printed(live, tmp_path):
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--port", port, "-w", path) as running:
        talk(port, 200, connections=5)
        out, _ = running.end()
        assert running.process.returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    live_lines = lines(out)
    assert len(live_lines) == 1000
    assert read(path, options=["--port", port]) == live_lines
    assert open_timeline([path]).errors == []


def test_several_files_hold_it_together(live, tmp_path):
    port = free_port()
    options = ("--bpf", f"tcp port {port}", "--rotate-count", 100)
    with live("-i", "lo", *options, "-w", tmp_path / "saved.pcapng") as running:
        talk(port, 200)
        out, _ = running.end()
        assert running.process.returncode == 0
    paths = sorted(tmp_path.iterdir())
    sizes = [sum(map(len, open_timeline([path]))) for path in paths]
    assert sizes[:-1] == [100] * (len(paths) - 1)
    assert len(paths) > 3
    assert len(lines(out)) == 200

    def ends(found):
        return [(line["correlation_id"], line["latency_ms"], line["outcome"]) for line in found]

    assert ends(read(*paths)) == ends(lines(out))


def test_while_the_decoder_stands_still_packets_are_saved_and_then_counted(live, tmp_path):
    port, path = free_port(), tmp_path / "saved.pcapng"
    # A queue too short for what comes.
    options = ("--port", port, "--emit", "exchange,summary", "--queue", "64KiB")
    with live("-i", "lo", *options, "-w", path) as running:
        talk(port, 10)
        wait_until(lambda: path.stat().st_size > 10_000)
        running.process.send_signal(signal.SIGSTOP)
        before = path.stat().st_size
        talk(port, 1000)
        wait_until(lambda: path.stat().st_size > before + 5_000_000)
        running.process.send_signal(signal.SIGCONT)
        out, err = running.end()
        assert running.process.returncode == 0
    *exchanges, summary = map(json.loads, out.splitlines())
    assert summary["kernel_drops"] == 0
    assert summary["queue_drops"] > 0
    assert f"not decoded, as they came too fast: {summary['queue_drops']:,}" in err
    saved = read(path, options=["--port", port])
    assert [line["outcome"] for line in saved] == ["answered"] * 1010
    assert packets_in(path) == summary["saved_packets"] == balance(summary)
    assert summary["left_packets"] == 0
    # What was decoded has the numbers that the packets have in the file.
    frames = {(line["client"]["port"], line["correlation_id"]): line["request"]["frames"] for line in saved}
    for line in exchanges:
        if line["outcome"] == "answered" and not line["problems"]:
            found = frames[line["client"]["port"], line["correlation_id"]]
            assert found.items() <= line["request"]["frames"].items()


def test_a_decoder_that_dies_leaves_a_file_that_is_whole(live, tmp_path):
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "-w", path) as running:
        worker = worker_of(running)
        talk(port, 20)
        running.process.kill()
        wait_until(lambda: not os.path.exists(f"/proc/{worker}"))
    timeline = open_timeline([path])
    assert sum(map(len, timeline)) > 40
    assert timeline.errors == []
    assert timeline.status.kernel_drops == 0


def test_a_capturing_process_that_dies_is_told(live):
    with live("-i", "lo", "--format", "none") as running:
        os.kill(worker_of(running), signal.SIGKILL)
        _, err = running.end(0)
        assert running.process.returncode == 1
    how = "was ended by SIGKILL, as when memory runs out; what it had not handed over is lost"
    assert err.startswith(f"kinspect: the capturing process {how}\n")


def test_a_closed_pipe_ends_the_file_too(live, tmp_path):
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--port", port, "-w", path) as running:
        talk(port, 1)
        running.line()
        running.process.stdout.close()
        talk(port, 1)
        assert running.process.wait(10) == 1
    timeline = open_timeline([path])
    assert sum(map(len, timeline)) > 0
    assert timeline.status.kernel_drops == 0


def test_a_terminal_that_goes_away_leaves_a_file_that_is_whole(tmp_path):
    path = tmp_path / "saved.pcapng"
    screen = Screen(tmp_path, sys.executable, "-m", "kinspect", "live", "-i", "lo", "-w", path)
    try:
        screen.until(b"DROPPED")
        talk(free_port(), 5)
        wait_until(lambda: path.stat().st_size > 10_000)
        screen.close()
        assert screen.status() == 1
        assert packets_in(path) > 10
    finally:
        screen.end()


def test_a_full_disk_is_told(live):
    with live("-i", "lo", "-w", "/dev/full", "--format", "none") as running:
        running.end(0)
        assert running.process.returncode == 1
        assert running.started == "kinspect: /dev/full: No space left on device\n"


@pytest.fixture
def small_disk(tmp_path):
    """A file system that is soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True, timeout=20)
    yield folder
    subprocess.run(["umount", folder], check=True, timeout=20)


@pytest.mark.parametrize("rotation", [(), ("--rotate-count", 300)], ids=["one file", "several"])
def test_a_disk_that_gets_full_ends_it_and_every_packet_is_counted(live, small_disk, rotation):
    port = free_port()
    options = ("--bpf", f"tcp port {port}", "--emit", "exchange,summary", *rotation)
    with live("-i", "lo", *options, "-w", small_disk / "saved.pcapng") as running:
        with suppress(OSError):
            talk(port, 2000)
        out, err = running.end(0)
        assert running.process.returncode == 1
    *lines, summary = map(json.loads, out.splitlines())
    files = sorted(small_disk.iterdir())
    assert summary["saved_packets"] == packets_in(*files) > 400
    assert summary["saved_packets"] < balance(summary) == summary["packets"]
    assert len(lines) > 100
    (told,) = (line for line in err.splitlines() if line.startswith("kinspect: "))
    assert told == f"kinspect: {files[-1]}: No space left on device: the capture ends"
    assert (
        f"{summary['captured_packets']:,} packets captured, {summary['saved_packets']:,} of them saved" in err
    )


def test_snaplen_cuts_packets_and_says_so(live, tmp_path):
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--port", port, "--snaplen", 120, "-w", path) as running:
        talk(port, 10)
        out, _ = running.end()
    found = lines(out)
    assert "truncated_capture" in {problem["code"] for line in found for problem in line["problems"]}
    assert read(path, options=["--port", port]) == found
    blocks = list(open_timeline([path]))
    sizes = [end - start for block in blocks for start, end in zip(block.starts, block.ends, strict=True)]
    assert max(sizes) == 120
    assert max(wire for block in blocks for wire in block.wire_lengths) > 120


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_secrets_of_a_key_log_are_saved_as_they_come(live, tmp_path, version):
    port, path, keylog = free_port(), tmp_path / "saved.pcapng", tmp_path / "keys.log"
    keylog.write_text("# made before\n")
    with live("-i", "lo", "--port", port, "--keylog", keylog, "-w", path) as running:
        sent = talk_tls(tmp_path, port, 20, version, keylog)
        out, _ = running.end()
        assert running.process.returncode == 0
    found = lines(out)
    assert [line["correlation_id"] for line in found] == sent
    assert {line["tls"] for line in found} == {True}
    timeline = open_timeline([path])
    assert sum(map(len, timeline)) > 40
    assert b"".join(timeline.secrets) == keylog.read_bytes().partition(b"\n")[2]
    keylog.unlink()
    assert read(path, options=["--port", port]) == found


def test_a_saved_capture_is_one_for_tshark_too(live, tmp_path):
    assert shutil.which("capinfos"), "needs the program capinfos (package wireshark-common)"
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--bpf", f"port {port}", "-w", path) as running:
        talk(port, 10)
        running.end()
    shown = subprocess.run(["capinfos", path], check=True, capture_output=True, text=True).stdout
    for text in (
        "Name = lo",
        "Time precision = nanoseconds (9)",
        f"Filter string = port {port}",
        "stat entries = 1",
    ):
        assert text in shown
