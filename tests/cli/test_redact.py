"""`kinspect export --redact`: what is read of the export is what is read of the original, but for texts."""

import re
import subprocess
import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import pytest
from support.captures import CAPTURES
from support.client import Client, recorded
from support.decoded import keylog_beside
from support.pcap import ACK, PSH
from support.shares import one_in

import kinspect as package
from kinspect.capture import open_timeline
from kinspect.cli import redactedexport
from kinspect.errors import CaptureError
from kinspect.exports import redactedstreams
from kinspect.exports.pseudonyms import Pseudonyms
from kinspect.protocol import schema
from kinspect.records import batches

ERRORS = CAPTURES / "4.4.0/errors_java.pcap.gz"
NANO = CAPTURES / "4.4.0/nano.pcap"
SAMPLE = {
    "0.10.0.1/sarama-sasl-v0.pcap",
    "0.10.2.2/ipv6.pcap",
    "0.11.0.3/transactions.pcap.gz",
    "2.8.1/kraft-2nodes.pcap.gz",
    "4.4.0/errors_java.pcap.gz",
    "tls/sasl_ssl_tls12.pcap.gz",
    "variants/cutfile.pcap",
    "variants/loss_one.pcap.gz",
}
PARTS = [
    pytest.param(path, marks=() if str(path.relative_to(CAPTURES)) in SAMPLE else pytest.mark.big)
    for path in sorted(CAPTURES.rglob("*.pcap*"))
]
READ_BACK = re.compile(r"read back: ([\d,]+) exchanges? equal but for what was replaced(?:, ([\d,]+) not)?")
OWN = {word for words in schema._words().values() for word in words} | schema.configs().keys()


@pytest.fixture
def redacted(kinspect, tmp_path):
    """What an export with --redact says, and its path."""
    key, path = tmp_path / "key", tmp_path / "out.pcapng"
    key.write_text("one key for all tests, of enough bytes")

    def run(*arguments):
        result = kinspect("export", "--force", "-o", path, "--redact", "--redact-key", key, *arguments)
        assert result.status in (0, 1, 3), result.err
        return result.err, path

    return run


def exchanges(path, *keys):
    given = {"keylog": keys[0]} if keys else {}
    with suppress(CaptureError), package.read(path, **given) as run:
        yield from run


def texts(value, name=""):
    """Texts and bytes in a body that are as they are in messages, and of records."""
    if isinstance(value, dict):
        for each, inner in value.items():
            yield from texts(inner, each)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, name)
    elif isinstance(value, str):
        if name != "compression" and not name.endswith("timestamp_type"):
            yield value.encode()
    elif isinstance(value, bytes):
        if name in ("records", "unaligned_records"):
            yield from texts(list(batches(value)), "batches")
        else:
            yield value


def told(path, *keys):
    """All texts and bytes of a capture's messages, of four bytes or more, that are no words of Kafka's."""
    found = set()
    for exchange in exchanges(path, *keys):
        found.add((exchange.client_id or "").encode())
        found.add((exchange.principal or "").encode())
        for message in (exchange.request, exchange.response):
            if message is not None and message.body is not None:
                found.update(texts(message.body))
    return {each for each in found if len(each) >= 4 and not is_kept(each)}


def is_kept(value):
    """True for Kafka's own words, what has no letter or digit, and addresses of the host itself."""
    text = value.decode(errors="replace")
    try:
        return ip_address(text.removeprefix("/")).is_loopback
    except ValueError:
        # Records of internal topics may have nothing but numbers and words.
        words = re.findall(r"[ -~]{4,}", text)
        return re.fullmatch(r"\d+(\.\d+)*|[\W_\0]*|A{20}\w\w", text) is not None or (
            all(any(each in word for word in OWN) for each in words)
        )


@pytest.mark.parametrize("path", PARTS, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_captures(redacted, path):
    keys = [keylog_beside(path)] if keylog_beside(path).exists() else []
    told_of, out = redacted(path, *(["--keylog", *keys] if keys else []))
    read = [*exchanges(path, *keys)]
    found = READ_BACK.search(told_of)
    if found is None:
        assert not read
        return
    equal, others = (int((count or "0").replace(",", "")) for count in found.groups())
    assert others <= sum(each.outcome == "orphan" for each in read), told_of
    assert equal + others == len(read)
    hay = [out.read_bytes(), *told(out)]
    joined = b"\n".join(hay)
    assert sorted(each for each in told(path, *keys) if each in joined) == []
    # What came late, or was held back, stands where it was.
    assert in_order(out) or not in_order(path)


def test_the_alert_of_a_tls_listener_stays(kinspect, tmp_path):
    path, out = CAPTURES / "connect/plain-to-tls_java.pcap.gz", tmp_path / "out.pcapng"
    assert "left out, as not understood: 0 bytes" in kinspect("export", path, "--redact", "-o", out).err
    reasons = [[each.outcome_reason for each in exchanges(name)] for name in (path, out)]
    assert reasons[0] == reasons[1]
    assert "tls_expected" in kinspect("connect", out).out


def in_order(path):
    with suppress(CaptureError):
        times = [time for block in open_timeline([path]) for time in block.times]
        return times == sorted(times)


def told_names(path):
    return [(each.client_id, each.connection.client_ip, each.summary.topics) for each in exchanges(path)]


def test_the_same_value_has_the_same_pseudonym(kinspect, tmp_path):
    key, found = tmp_path / "key", []
    for number, options in enumerate((("--redact-key", key), ("--redact-key", key), ())):
        out = tmp_path / f"{number}.pcapng"
        assert kinspect("export", "-q", ERRORS, "--redact", "-o", out, *options).status == 0
        found.append(told_names(out))
    original = told_names(ERRORS)
    assert found[0] == found[1] != found[2]
    assert key.stat().st_mode & 0o777 == 0o600
    for names in found:
        pairs = set(
            zip((client for client, _, _ in original), (client for client, _, _ in names), strict=True)
        )
        assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--redact", "--packets", "exchange"],
            "--redact is for whole connections: give it what --packets exchange wrote",
        ),
        (["--redact", "--comments"], "--comments say what --redact replaces: export again what that wrote"),
        (["--redact-key", "k"], "--redact-key is for --redact"),
        (["--keep-unknown"], "--keep-unknown is for --redact"),
    ],
)
def test_options_that_do_not_go_together(kinspect, tmp_path, options, message):
    result = kinspect("export", NANO, "-o", tmp_path / "o.pcapng", *options)
    assert result.status == 2
    assert message in result.err


@pytest.mark.parametrize("key", [NANO, "out.pcapng"])
def test_the_key_has_a_file_of_its_own(kinspect, tmp_path, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    result = kinspect("export", NANO, "--redact", "--redact-key", key, "-o", tmp_path / "out.pcapng")
    assert (result.status, f"--redact-key: {key}: is a capture, or -o FILE" in result.err) == (2, True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("content", [b"short\n", None])
def test_keys_that_cannot_be_used(kinspect, tmp_path, content):
    key = tmp_path / "key"
    if content is None:
        key.mkdir()
    else:
        key.write_bytes(content)
    result = kinspect("export", NANO, "--redact", "--redact-key", key, "-o", tmp_path / "o.pcapng")
    assert result.status == 1
    assert f"--redact-key: {key}" in result.err
    assert "Traceback" not in result.err


def told_of_gaps(kinspect, *arguments):
    """What is told of retransmissions and lost bytes, by exchange."""
    result = kinspect("read", "-q", "--format", "jsonl", "--fields", "api,outcome,wait,problems", *arguments)
    return sorted(
        re.sub(r'"message":"[^"]*"|"(offset|bytes)":\d+,?', "", line) for line in result.out.splitlines()
    )


def conversation():
    """A client whose requests take several packets each, and what it sends of the last one."""
    client = Client("a-certain-client")
    client.talk.mss = 200
    topics = [{"name": f"a-certain-topic-{number}"} for number in range(30)]
    client.ask(18, 0, {}, {"error_code": 0, "api_keys": []})
    for _ in range(3):
        before = len(client.talk.packets)
        client.ask(3, 1, {"topics": topics}, {"topics": topics}, takes=0.3)
    return client, client.talk.packets[before : before + 4]


def test_retransmissions_stay(kinspect, tmp_path, redacted):
    client, _ = conversation()
    payload = b"\0\0\0\x12\0\x03\0\1\0\0\0\5\0\4name\0\0\0\0"
    for _ in range(2):
        client.talk._packet(0, PSH | ACK, payload)
        client.talk._next[0] -= len(payload)
        client.wait(0.2)
    client.talk._next[0] += len(payload)
    client.talk.broker_sends(b"\0\0\0\x10\0\0\0\5" + bytes(12))
    path = tmp_path / "again.pcap"
    path.write_bytes(recorded(client))
    _, out = redacted(path)
    assert told_of_gaps(kinspect, out) == told_of_gaps(kinspect, path)
    for each in (path, out):
        assert f"{len(payload)} repeated" in kinspect("read", each).err


def test_holes_stay(kinspect, tmp_path, redacted):
    client, (_, lost, _, _) = conversation()
    client.talk.packets.remove(lost)
    path = tmp_path / "hole.pcap"
    path.write_bytes(recorded(client))
    told_of, out = redacted(path)
    assert "read back: 4 exchanges equal but for what was replaced\n" in told_of
    assert told_of_gaps(kinspect, out) == told_of_gaps(kinspect, path)
    assert any('"gap"' in line for line in told_of_gaps(kinspect, out))


def test_what_is_not_understood_is_kept_if_wanted(kinspect, tmp_path, redacted):
    client, _ = conversation()
    client.talk.broker_sends(b"\0\0\0\x1a" + bytes(4) + b"an answer to nobody...")
    path = tmp_path / "orphan.pcap"
    path.write_bytes(recorded(client))
    told_of, out = redacted(path)
    assert "left out, as not understood: 30 bytes" in told_of
    assert b"nobody" not in out.read_bytes()
    told_of, out = redacted(path, "--keep-unknown")
    assert "kept, as not understood: 30 bytes" in told_of
    assert "not" not in told_of.rpartition("read back: ")[2]
    assert b"nobody" in out.read_bytes()


def test_what_pcapng_says_is_not_written(kinspect, tmp_path, redacted):
    path = CAPTURES / "tls/tls12_chacha_dsb.pcapng.gz"
    told_of, out = redacted(path)
    assert "read back: 20 exchanges equal" in told_of
    blocks = out.read_bytes()
    assert b"CLIENT_RANDOM" not in blocks
    assert b"redacted" in blocks


def test_a_text_that_is_not_its_pseudonym_is_told(monkeypatch, redacted):
    path = CAPTURES / "4.4.0/errors_java.pcap.gz"
    told_of, out = redacted(path)
    assert "read back: 95 exchanges equal but for what was replaced\n" in told_of
    topics = [topic for each in exchanges(out) for topic in each.summary.topics]
    name = next(topic for topic in topics if not topic.startswith("__")).encode()
    others = sum(name in (message.raw or b"") for each in exchanges(out) for message in messages(each))
    assert others > 0

    def changed(paths):
        (written,) = map(Path, paths)
        written.write_bytes(written.read_bytes().replace(name, name[::-1]))
        return open_timeline(paths)

    monkeypatch.setattr(redactedexport, "open_timeline", changed)
    equal, unequal = map(int, READ_BACK.search(redacted(path)[0]).groups())
    assert equal + unequal == 95
    assert 0 < unequal <= others


def messages(exchange):
    return [message for message in (exchange.request, exchange.response) if message is not None]


def test_standard_output_is_not_read_back():
    arguments = [sys.executable, "-m", "kinspect", "export", NANO, "--redact", "-o", "-"]
    result = subprocess.run(arguments, capture_output=True, check=True)
    assert b"standard output was not read back" in result.stderr
    assert b"redacted" in result.stdout


@pytest.mark.parametrize("limit", one_in(2, ["PACKETS_WAIT", "EVENTS_WAIT"]))
def test_bytes_that_wait_too_long_are_left_out_and_never_kept(redacted, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(redactedstreams, limit, 2)
    client = Client("a-certain-client")
    topics = [{"name": f"a-certain-topic-{number}"} for number in range(6_000)]
    client.ask(3, 1, {"topics": topics}, {"topics": topics[:1]})
    path = tmp_path / "long.pcap"
    path.write_bytes(recorded(client))
    said, out = redacted(path, "--keep-unknown")
    told = re.search(r"left out, as a message took too many packets: (\d{3},\d{3}) bytes", said)
    assert int(told[1].replace(",", "")) < path.stat().st_size
    assert b"certain" not in out.read_bytes()


def test_no_value_stays():
    for number in range(50):
        to = Pseudonyms(bytes([number]) * 32)
        for text in ("a", "7", "é", "-a-", "\x7f\x7f"):
            assert to.text(text) != text
        assert to.data(b"\0") != b"\0"
        assert len({to.data(bytes([each])) for each in range(256)}) == 256
