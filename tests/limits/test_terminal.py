"""Nothing that a capture says reaches the terminal as anything but text."""

import re
from types import SimpleNamespace

import pytest
from support.hostile import EVIL, dangerous, hostile

from kinspect.cli import main
from kinspect.protocol import Message, encode_request

FORMATS = [
    ("--format", "table", "--wide"),
    ("--format", "table"),
    ("--format", "table", "--color", "always"),
    ("--format", "detail", "--records", "--payload", "text"),
    ("--format", "detail", "--records", "--payload", "text", "--color", "always"),
    ("--format", "none"),
    ("--format", "jsonl", "--emit", "exchange,connection,gap,summary"),
]


def colourless(text):
    """Without the colours, which are kinspect's own."""
    return re.sub(r"\x1b\[([12];)?\d{1,3}m", "", text)


@pytest.fixture
def run(capfdbinary):
    """Runs `kinspect` with these arguments; tells its status and all it printed."""

    def run(*arguments):
        status = main([str(argument) for argument in arguments])
        return SimpleNamespace(status=status, **capfdbinary.readouterr()._asdict())

    return run


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "evil.pcap"
    path.write_bytes(hostile())
    return path


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
def test_captures_cannot_command_the_terminal(run, capture, options):
    result = run("read", capture, *options)
    assert result.status == 0
    assert b"4 exchanges" in result.err
    assert dangerous(colourless(result.out.decode() + result.err.decode())) == set()
    if "none" not in options:
        assert b"[red]" in result.out


@pytest.mark.parametrize("options", [("--format", "json"), ()], ids=str)
def test_one_message(run, options):
    body = {"group_id": EVIL, "generation_id": 1, "member_id": EVIL}
    message = encode_request(Message(12, 4, 1, body, "c" + EVIL))
    result = run("decode", message.hex(), *options)
    assert result.status == 0
    assert dangerous(colourless(result.out.decode() + result.err.decode())) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("read", "absent{}"), id="read absent{}"),
        pytest.param(("read", "{}", "--keylog", "absent{}"), id="read {} --keylog absent{}"),
        pytest.param(
            ("read", "made.pcap", "--topic-names", "absent{}"),
            id="read made.pcap --topic-names absent{}",
        ),
        pytest.param(("read", "made.pcap", "-o", "no/{}"), id="read made.pcap -o no/{}"),
        ("read", "made.pcap", "--api", "{}"),
        ("read", "made.pcap", "--since", "{}"),
        ("read", "made.pcap", "--emit", "{}"),
        ("read", "made.pcap", "--fields", "{}"),
        ("read", "made.pcap", "--host", "{}"),
        ("read", "made.pcap", "--{}"),
        ("decode", "{}"),
        ("schema", "{}"),
        ("schema", "errors", "{}"),
        ("{}",),
    ],
    ids=" ".join,
)
def test_complaints(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.pcap").write_bytes(hostile())
    evil = EVIL.replace("\x00", "")
    result = run(*(argument.format(evil) for argument in arguments))
    assert dangerous(colourless(result.out.decode() + result.err.decode())) == set()


def test_a_file_with_such_a_name(run, tmp_path):
    path = tmp_path / (EVIL.replace("\x00", "").replace("/", "") + ".pcap")
    path.write_bytes(hostile()[:-5])
    for options in FORMATS:
        result = run("read", path, *options)
        assert result.status == 3
        lines = result.out.decode()
        shown = "".join(c for c in lines if c < " ") if "jsonl" in options else lines
        assert dangerous(colourless(shown + result.err.decode())) == set()
