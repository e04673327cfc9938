"""Exports in tshark: it opens them, finds no errors that the originals had not, and shows the comments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from peer import CAPTURES, tshark
from support.decoded import keylog_beside

from kinspect.cli import main

pytestmark = pytest.mark.tools

ERROR = 0x800000
FILES = sorted(CAPTURES.rglob("*.pcap*"))[::37]
TLS = CAPTURES / "tls/tls13.pcap.gz"


def shown(path: Path, *options: str) -> list[str]:
    done = subprocess.run([tshark(), "-r", path, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "cut short in the middle of a packet" in done.stderr, done.stderr
    return done.stdout.splitlines()


def exported(path: Path, out: Path, *options: str) -> Path:
    assert main(["export", "-q", str(path), "-o", str(out), *options]) in (0, 3)
    return out


@pytest.mark.parametrize("mode", ["connection", "exchange"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_an_export_is_as_sound_as_the_original(tmp_path: Path, path: Path, mode: str) -> None:
    out = exported(path, tmp_path / "out.pcapng", "--packets", mode)
    errors = ("-Y", f"_ws.expert.severity == {ERROR}", "-T", "fields", "-e", "_ws.expert.message")
    assert set(shown(out, *errors)) <= set(shown(path, *errors))
    times = ("-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "tcp.seq_raw")
    assert set(shown(out, *times)) <= set(shown(path, *times))


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
