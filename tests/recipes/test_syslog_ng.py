"""docs/recipes/syslog-ng: every line of all captures reaches the other host whole."""

from contextlib import contextmanager

import pytest
from recipes.programs import PACKAGES, running, unpacked, wait_for_listener
from support.waiting import wait_for_lines

pytestmark = pytest.mark.tools


@pytest.fixture
def syslog_ng(tmp_path):
    """Starts syslog-ng with a configuration, in a folder of its own."""
    daemon, environment = unpacked("syslog-ng")
    modules = next(PACKAGES.glob("**/libaffile.so")).parent

    def start(name, text):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "syslog-ng.conf").write_text(f"@version: current\n{text}")
        files = {
            "--cfgfile": "syslog-ng.conf",
            "--persist-file": "persist",
            "--control": "control",
            "--pidfile": "pid",
        }
        options = [f"{option}={folder / file}" for option, file in files.items()]
        return running(
            [daemon, "-F", "--no-caps", f"--module-path={modules}", *options],
            folder / "printed",
            env=environment,
        )

    return start


@pytest.fixture
def forwarding(syslog_ng, recipe, port, tmp_path):
    """Sends the lines of a file as the recipe says while the block runs; gives the file in which they come out."""

    @contextmanager
    def run(source, sized=True):
        received = tmp_path / "received.jsonl"
        listening = {"/var/log/kinspect/all.jsonl": received, "port(6514)": f'ip("127.0.0.1") port({port})'}
        sending = {"/var/log/kinspect/kafka.jsonl": source, "logs.example.com": "127.0.0.1", "6514": port}
        sizes = {} if sized else {" log-msg-size(524288)": ""}
        with syslog_ng("receives", recipe("syslog-ng/receive.conf", listening | sizes)):
            wait_for_listener(port)
            sizes = {} if sized else {" log-msg-size(262144)": ""}
            with syslog_ng("sends", recipe("syslog-ng/kinspect.conf", sending | sizes)):
                yield received

    return run


def test_lines_of_any_length(lines_of, forwarding):
    source = lines_of("--body", "text")
    sent = source.read_bytes().splitlines()
    assert max(map(len, sent)) > 65_536
    with forwarding(source) as received:
        assert wait_for_lines(received, len(sent)) == sent


def test_short_lines_need_no_setting(lines_of, forwarding):
    source = lines_of("--body", "text", "--max-line", "65000")
    sent = source.read_bytes().splitlines()
    assert any(b'"line_truncated":true' in line for line in sent)
    with forwarding(source, sized=False) as received:
        assert wait_for_lines(received, len(sent)) == sent


def test_a_line_beyond_the_maximum_stops_no_other(forwarding, tmp_path):
    source = tmp_path / "kafka.jsonl"
    long = b"x" * 300_000
    source.write_bytes(b'{"first":1}\n' + long + b'\n{"last":1}\n')
    with forwarding(source) as received:
        first, *parts, last = wait_for_lines(received, 4)
    assert (first, b"".join(parts), last) == (b'{"first":1}', long, b'{"last":1}')


def test_a_file_that_is_renamed(lines_of, forwarding, tmp_path):
    sent = lines_of("--body", "none").read_bytes().splitlines(keepends=True)
    source = tmp_path / "kafka.jsonl"
    source.write_bytes(b"".join(sent[:5000]))
    with forwarding(source) as received:
        wait_for_lines(received, 1)
        source.rename(tmp_path / "kafka.jsonl.1")
        source.write_bytes(b"".join(sent[5000:]))
        assert wait_for_lines(received, len(sent)) == [*map(bytes.rstrip, sent)]
