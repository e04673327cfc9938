"""docs/recipes/rsyslog: every line of all captures reaches the other host whole."""

import time
from contextlib import contextmanager

import pytest
from recipes.programs import wait_for_listener
from support.waiting import wait_for_lines

pytestmark = pytest.mark.tools

RAISED = 'global(maxMessageSize="128k")\n'


@pytest.fixture
def receiving(rsyslogd, recipe, port, tmp_path):
    """Takes lines as the recipe says while the block runs; gives the file in which they come out."""

    @contextmanager
    def run(settings=""):
        received = tmp_path / "received.jsonl"
        text = recipe(
            "rsyslog/receive.conf",
            {"/var/log/kinspect/all.jsonl": received, 'port="6514"': f'address="127.0.0.1" port="{port}"'},
        )
        with rsyslogd("receives", settings + text):
            wait_for_listener(port)
            yield received

    return run


@pytest.fixture
def sending(rsyslogd, recipe, port):
    """Sends the lines of a file as the recipe says while the block runs."""

    def run(source, settings=""):
        text = recipe(
            "rsyslog/kinspect.conf",
            {"/var/log/kinspect/kafka.jsonl": source, "logs.example.com": "127.0.0.1", "6514": port},
        )
        return rsyslogd("sends", settings + text)

    return run


def test_lines_of_any_length_with_the_maximum_raised(lines_of, receiving, sending):
    source = lines_of("--body", "text")
    sent = source.read_bytes().splitlines()
    assert max(map(len, sent)) > 65_536
    with receiving(RAISED) as received, sending(source, RAISED):
        assert sorted(wait_for_lines(received, len(sent))) == sorted(sent)


def test_short_lines_need_no_setting(lines_of, receiving, sending):
    source = lines_of("--body", "text", "--max-line", "8000")
    sent = source.read_bytes().splitlines()
    assert sum(b'"line_truncated":true' in line for line in sent) > 50
    with receiving() as received, sending(source):
        assert sorted(wait_for_lines(received, len(sent))) == sorted(sent)


def test_lines_wait_while_the_other_host_is_away(lines_of, receiving, sending):
    source = lines_of("--body", "none")
    sent = source.read_bytes().splitlines()
    with sending(source, RAISED):
        time.sleep(2)
        with receiving(RAISED) as received:
            assert sorted(wait_for_lines(received, len(sent))) == sorted(sent)


def test_a_file_that_is_renamed(lines_of, receiving, sending, tmp_path):
    sent = lines_of("--body", "none").read_bytes().splitlines(keepends=True)
    source = tmp_path / "kafka.jsonl"
    source.write_bytes(b"".join(sent[:5000]))
    with receiving(RAISED) as received, sending(source, RAISED):
        wait_for_lines(received, 1)
        source.rename(tmp_path / "kafka.jsonl.1")
        source.write_bytes(b"".join(sent[5000:]))
        assert sorted(wait_for_lines(received, len(sent))) == sorted(map(bytes.rstrip, sent))
