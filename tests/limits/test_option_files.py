"""Files of options (`--keylog`, `--topic-names`, `--rules`): what they should not be is one line, in bounded memory."""

import os
import socket

import pytest
from support.pcap import Conversation, pcap
from support.shares import one_in

PEAK = 150
"""MiB: an interpreter, and a file of 16 MiB."""
ID = "xtzWWN4bTjitpL3kfd9s5g"
OPTIONS = ["--keylog", "--topic-names", "--rules"]


@pytest.fixture
def capture(tmp_path):
    talk = Conversation()
    talk.open()
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(talk.packets))
    return path


@pytest.fixture
def refused(measured, capture):
    """Gives the one line that a file is refused with."""

    def run(option, path, command=("read",)):
        command = ("check",) if option == "--rules" else command
        result = measured(*command, option, path, capture)
        assert (result.status, result.out) == (2, b"")
        *usage, line = result.err.splitlines()
        assert len(usage) == 3
        assert result.peak < PEAK
        start = f"Error: {option}: {path}"
        assert line.startswith(start)
        assert len(line) < len(start) + 160
        return line.removeprefix(start)

    return run


def sparse(path):
    with path.open("wb") as file:
        file.truncate(10 << 30)


def listening(path):
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))


@pytest.mark.parametrize("option", one_in(3, OPTIONS))
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (sparse, "is larger than "),
        (lambda path: path.mkdir(), "Is a directory"),
        (os.mkfifo, "is a pipe: give a file"),
        (listening, "No such device or address"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device: give a file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
    ],
    ids=["10 GB", "folder", "pipe", "socket", "device", "loop", "nowhere"],
)
def test_what_is_no_small_file(refused, tmp_path, option, make, why):
    make(tmp_path / "given")
    assert refused(option, tmp_path / "given").startswith(f": {why}")


@pytest.mark.big
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 1_000_000, ", line 1: must be a topic id and a name, or one JSON object"),
        (b'{"a":' * 1_000_000, ": must be an object of topic ids and names"),
        (b'{"a":' + b"[" * 1_000_000, ": must be an object of topic ids and names"),
        (b'{"a":[' + b"{}," * 4_000_000, ": must be an object of topic ids and names"),
        (b'{"a": "' + b"b" * 15_000_000, ": is not JSON: "),
        (b'{"' + b"b" * 15_000_000 + b'": "a"}', f": '{'b' * 60}…' is not a topic id"),
        (b"x" * 15_000_000 + b" y", f": '{'x' * 60}…' is not a topic id"),
        (b"\n" * 1_000_000 + b"x", ", line 1000001: must be a topic id and a name"),
        (b"a b\n" * 4_000_000, ": 'a' is not a topic id"),
        (b"\0" * 15_000_000, ", line 1: must be a topic id and a name"),
        (os.urandom(1 << 20), ": is not UTF-8 text"),
        (f"{ID} a\n".encode("utf-16"), ": is not UTF-8 text"),
        (b"x" * (17 << 20), ": is larger than 16MiB"),
        (b'{"\x1b[2J": "a"}', ": "),
    ],
    ids=range(14),
)
def test_topic_names(refused, tmp_path, content, why):
    path = tmp_path / "names"
    path.write_bytes(content)
    line = refused("--topic-names", path)
    assert line.startswith(why)
    assert line.isprintable()


@pytest.mark.big
def test_as_many_topic_names_as_a_file_holds(measured, capture, tmp_path):
    path = tmp_path / "names"
    path.write_text("".join(f"{number:022} topic-{number}\n" for number in range(300_000)))
    result = measured("read", "--topic-names", path, capture)
    assert (result.status, result.peak < 250) == (0, True)


@pytest.mark.parametrize(
    "content",
    [
        bytes(1000),
        os.urandom(1 << 20) + bytes(1),
        "CLIENT_RANDOM ab cd\n".encode("utf-16"),
        pcap(Conversation().packets),
    ],
    ids=["zeros", "random", "UTF-16", "capture"],
)
def test_a_key_log_that_is_no_text(refused, tmp_path, content):
    path = tmp_path / "keys"
    path.write_bytes(b"\0" + content)
    assert refused("--keylog", path) == ": is no text, so no key log (NSS key log format)"


@pytest.mark.big
@pytest.mark.parametrize(
    "line", [b"x" * (64 << 20), b"x " * (32 << 20), b"\n" * (2 << 20), b"[" * (64 << 20)]
)
def test_a_key_log_without_secrets(measured, capture, tmp_path, line):
    path = tmp_path / "keys"
    path.write_bytes(line)
    result = measured("read", "--keylog", path, capture)
    assert result.status == 0
    assert result.err.count("no TLS secrets in it") == 1
    # The file is held once, and once more while its last line is looked for.
    assert result.peak < 250


def test_other_commands_refuse_the_same(refused, tmp_path):
    sparse(tmp_path / "given")
    for option in OPTIONS:
        refused(option, tmp_path / "given", ["pipeline", "run", "--out", tmp_path / "out"])
