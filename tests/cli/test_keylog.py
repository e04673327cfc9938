"""Key logs that a client is still writing."""

from types import SimpleNamespace

import pytest

from kinspect.capture.keylogfile import KeyLogFile
from kinspect.capture.timeline import SourceStatus
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.readrun import ReadRun
from kinspect.errors import KinspectError
from kinspect.filters.filter import Filter
from kinspect.kafka.view.view import View
from kinspect.pipeline import Inspector

SECRET = b"CLIENT_RANDOM " + b"11" * 32 + b" " + b"22" * 48 + b"\n"
UNUSED = b"EXPORTER_SECRET " + b"11" * 32 + b" " + b"33" * 32 + b"\n"


@pytest.mark.parametrize(
    ("texts", "lines"),
    [([SECRET, UNUSED, SECRET, b""], 0), ([b"no key log\n", b"nor this\n"], 1), ([b"", UNUSED, SECRET], 1)],
)
def test_a_key_log_without_secrets_is_named_once(capsys, texts, lines):
    following = iter(texts)
    options = SimpleNamespace(
        filter=Filter(),
        emit=frozenset({"exchange"}),
        view=View(),
        format=None,
        silent=True,
        keylog=SimpleNamespace(more=lambda: next(following)),
        values={"keylog": "keys", "utc": False},
    )
    packets = SimpleNamespace(secrets=[], status=SourceStatus([], bytes_total=0))
    run = ReadRun(packets, Inspector(), options, Interrupt(), None, [], keylog=options.keylog)
    for _ in texts:
        run.add_secrets()
    assert capsys.readouterr().err.count("keys: no TLS secrets in it") == lines


def test_what_came_since_it_was_opened_is_there_at_once(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(b"# made before\n")
    keylog = KeyLogFile(str(path))
    with path.open("ab") as file:
        file.write(SECRET + UNUSED[:20])
    # All packets of a short connection may come before anything is asked for again.
    assert keylog.more() == b"# made before\n" + SECRET
    assert keylog.more() == b""
    with path.open("ab") as file:
        file.write(UNUSED[20:])
    assert keylog.more() == UNUSED
    keylog.close()
    with path.open("ab") as file:
        file.write(SECRET)
    assert keylog.more() == b""


def test_a_last_line_without_its_end_is_taken_and_read_again(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(UNUSED + SECRET[:-1])
    keylog = KeyLogFile(str(path))
    assert keylog.more() == UNUSED + SECRET[:-1]
    with path.open("ab") as file:
        file.write(b"\n" + UNUSED)
    assert keylog.more() == SECRET + UNUSED


def test_a_key_log_that_was_closed_gives_what_it_had_read(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(SECRET)
    keylog = KeyLogFile(str(path))
    keylog.close()
    assert (keylog.more(), keylog.more()) == (SECRET, b"")


def test_what_grew_by_more_than_is_read_at_once_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "keys"
    path.write_bytes(SECRET)
    monkeypatch.setattr("kinspect.capture.keylogfile.MOST_BYTES", 1000)
    keylog = KeyLogFile(str(path))
    assert keylog.more() == SECRET
    for _ in range(9):
        with path.open("ab") as file:
            file.write(3 * SECRET)
        assert keylog.more() == 3 * SECRET
    with path.open("ab") as file:
        file.write(9 * SECRET)
    with pytest.raises(KinspectError, match=r"^--keylog: .*keys: is larger than 1000$"):
        keylog.more()
