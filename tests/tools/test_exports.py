"""Exports in tshark: it opens them, finds no errors that the originals had not, and shows the comments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from peer import CAPTURES, tshark
from support.decoded import keylog_beside
from support.manifest import load

from kinspect.cli import main

pytestmark = pytest.mark.tools

WARNING, ERROR = 0x600000, 0x800000
ROWS = {row.file: row for row in load(CAPTURES)}
FILES = [str(path.relative_to(CAPTURES)) for path in sorted(CAPTURES.rglob("*.pcap*"))[::37]]
VARIED = [
    "0.8.2.2/errors.pcap",
    "0.10.0.1/sarama-sasl-v0.pcap",
    "0.10.2.2/midstream.pcap",
    "0.11.0.3/transactions.pcap.gz",
    "2.8.1/kraft-2nodes.pcap.gz",
    "2.8.2/sweep-F-interbroker.pcap",
    "3.9.2/codecs_java.pcap.gz",
    "4.4.0/ipv6.pcap",
    "4.4.0/lossin.pcap.gz",
    "4.4.0/snap96.pcap",
    "tls/sasl_ssl_tls12.pcap.gz",
    "variants/retrans.pcap.gz",
]
TLS = CAPTURES / "tls/tls13.pcap.gz"


def shown(path: Path, *options: str) -> list[str]:
    done = subprocess.run([tshark(), "-r", path, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "cut short in the middle of a packet" in done.stderr, done.stderr
    return done.stdout.splitlines()


def exported(path: Path, out: Path, *options: str) -> Path:
    assert main(["export", "-q", str(path), "-o", str(out), *options]) in (0, 3)
    return out


def complaints(path: Path, severity: int, *decode: str) -> set[str]:
    """Times of the packets of which tshark complains at least so much."""
    at_least = f"_ws.expert.severity >= {severity}"
    return set(shown(path, "-2", "-Y", at_least, *decode, "-T", "fields", "-e", "frame.time_epoch"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, f"--packets {mode}") for name in FILES for mode in ("connection", "exchange")),
        *((name, "--redact") for name in VARIED),
    ],
)
def test_an_export_is_as_sound_as_the_original(tmp_path: Path, name: str, options: str) -> None:
    row = ROWS[name]
    keylog = keylog_beside(row.path)
    ports = row.ports.split(",") if row.is_kafka else []
    kafka = [f"-dtcp.port=={port},kafka" for port in ports]
    original, keys = kafka, []
    if options == "--redact" and keylog.exists():
        keys = ["--keylog", str(keylog)]
        original = [
            f"-d{layer}" for port in ports for layer in (f"tcp.port=={port},tls", f"tls.port=={port},kafka")
        ]
        original += ["-o", f"tls.keylog_file:{keylog}"]
    out = exported(row.path, tmp_path / "out.pcapng", *options.split(), *keys)
    # What it warns of it does not understand. Other bytes there look wrong to it in other ways.
    assert complaints(out, ERROR, *kafka) <= complaints(row.path, WARNING, *original)


@pytest.mark.parametrize("mode", ["connection", "exchange"])
@pytest.mark.parametrize("name", FILES)
def test_packets_stay_as_they_are(tmp_path: Path, name: str, mode: str) -> None:
    out = exported(CAPTURES / name, tmp_path / "out.pcapng", "--packets", mode)
    times = ("-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "tcp.seq_raw")
    assert set(shown(out, *times)) <= set(shown(CAPTURES / name, *times))


def test_comments_are_shown(tmp_path: Path) -> None:
    path = CAPTURES / "4.4.0/errors_java.pcap.gz"
    out = exported(
        path, tmp_path / "out.pcapng", "--client-id", "pc-err-big", "--api", "Produce", "--comments"
    )
    text = "Produce v13 pcerr-small[0] 1 record 5071 B"
    assert [line for line in shown(out, "-T", "fields", "-e", "frame.comment") if line] == [
        text,
        f"{text} → MESSAGE_TOO_LARGE, 1.17ms",
    ]


def test_secrets_are_used(tmp_path: Path) -> None:
    out = exported(TLS, tmp_path / "out.pcapng", "--keylog", str(keylog_beside(TLS)), "--api", "Produce")
    assert shown(out, "-Y", "kafka", "-d", "tcp.port==19094,tls", "-d", "tls.port==19094,kafka")


def test_plaintext_is_kafka(tmp_path: Path) -> None:
    options = ("--keylog", str(keylog_beside(TLS)), "--api", "Produce", "--decrypted")
    out = exported(TLS, tmp_path / "out.pcapng", *options)
    kafka = ("-d", "tcp.port==19094,kafka")
    assert shown(out, "-Y", "kafka.api_key == 0", *kafka)
    checks = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    assert shown(out, "-Y", "tcp.checksum.status == 0 || ip.checksum.status == 0", *checks) == []
