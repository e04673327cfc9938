"""`kinspect read` against the contract: options, exit statuses, streams."""

import gzip
import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import jsonschema_rs
import pytest
from support.pcap import Conversation, framed, pcap
from support.schemas import strict

from kinspect.protocol import Message, encode_request

CAPTURES = Path(__file__).parents[2] / "captures"


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def apis(result):
    return [line["api"] for line in lines(result)]


def test_a_line_an_exchange_in_order(kinspect, capture):
    result = kinspect("read", capture)
    assert result.status == 0
    assert apis(result) == ["Metadata", "Heartbeat", "Heartbeat", "SaslAuthenticate", "Heartbeat"]
    assert result.err.splitlines()[1:] == [
        "1 connection, 1 Kafka",
        "5 exchanges, 1 unanswered, 1 error code (REBALANCE_IN_PROGRESS)",
        "258 bytes of payload, all in Kafka messages",
    ]


def test_quiet(kinspect, capture):
    assert kinspect("read", "-q", capture).err == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--api", "metadata"], [1]),
        (["--api", "3,12"], [1, 2, 3, 5]),
        (["--api", "!Heartbeat"], [1, 4]),
        (["--api", "Heartbeat", "--group", "work*"], [2, 5]),
        (["--topic", "orders"], [1]),
        (["--client-id", "app-2"], [3]),
        (["--errors-only"], [3]),
        (["--host", "10.0.0.0/8", "--api", "Metadata"], [1]),
        (["--client-host", "10.0.0.9"], []),
        (["--port", "9092", "--group", "idlers"], [3]),
        (["--since", "+0.8ms", "--until", "+1.2ms"], [3]),
        (["--since", "22:13:20.0008", "--until", "22:13:20.001200Z"], [3]),
        (["--until", "22:13:19"], []),
        (["--min-latency", "1000"], []),
        (["--min-latency", "1.5s"], []),
        (["--min-latency", "50us", "--api", "Metadata"], [1]),
        (["--limit", "2"], [1, 2]),
        (["--group", "*", "--limit", "2"], [2, 3]),
    ],
)
def test_filters(kinspect, capture, options, expected):
    result = kinspect("read", *options, capture)
    assert result.status == 0
    assert [line["correlation_id"] for line in lines(result)] == expected


@pytest.mark.parametrize(
    "options",
    [
        ["--api", "Metdata"],
        ["--since", "soon"],
        ["--host", "10.0.0.0/99"],
        ["--port", "99999"],
        ["--since", "+2s", "--until", "+1s"],
        ["--limit", "0"],
        ["--emit", "packets"],
        ["--fields", "nothing"],
        ["--fields", "api", "--format", "table"],
        ["--format", "xml"],
        ["--max-message-bytes", "lots"],
        ["--idle-timeout", "0"],
        ["--decode-as", "70000"],
        ["--topic-names", "/nowhere/names.json"],
        ["-o", "/nowhere/out.jsonl"],
        ["-o", "/"],
        ["-o", ""],
        ["--fields", ""],
        ["--fields", "api,"],
        ["--emit", ""],
        ["--keylog", ""],
        ["--topic-names", ""],
    ],
)
def test_usage_errors_come_before_any_output(kinspect, capture, options):
    result = kinspect("read", *options, capture)
    assert result.status == 2
    assert result.out == ""
    assert result.err.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("option", ["--keylog", "--topic-names"])
def test_a_missing_file_is_told_with_its_option(kinspect, capture, option):
    result = kinspect("read", option, "nope", capture)
    assert result.status == 2
    assert result.err.splitlines()[-1] == f"Error: {option}: nope: No such file or directory"


def test_fields(kinspect, capture):
    result = kinspect("read", "--fields", "api,request.body.group_id", "--fields", "latency_ms", capture)
    assert lines(result)[1] == {
        "api": "Heartbeat",
        "latency_ms": lines(result)[1]["latency_ms"],
        "request": {"body": {"group_id": "workers"}},
    }


def test_a_field_of_records_implies_records(kinspect):
    path = "captures/4.4.0/nano.pcap"
    field = "request.body.topic_data.partition_data.records.batches"
    asked = ["read", path, "--api", "Produce", "--limit", "1", "--fields"]
    assert '"value_size":6' in kinspect(*asked, f"{field}.records.value_size").out
    assert '"records":[{"offset":0' in kinspect(*asked, f"{field}.records").out
    assert kinspect(*asked, f"{field}.records.value").out.count('"value":null') == 20
    assert '"offset"' not in kinspect(*asked, field).out


def test_emit(kinspect, capture):
    result = kinspect("read", "--emit", "summary", "-q", capture)
    (summary,) = lines(result)
    assert summary["type"] == "summary"
    assert summary["exchanges"] == 5
    both = lines(kinspect("read", "--emit", "exchange,connection", "-q", capture))
    assert [line["type"] for line in both].count("exchange") == 5
    assert [line["type"] for line in both].count("connection") == 1


@pytest.mark.parametrize("options", [[], ["--topic", "*", "--jobs", "2"], ["--errors-only"]])
@pytest.mark.parametrize("name", ["4.4.0/errors_java", "2.8.1/kraft-2nodes", "4.4.0/kip848"])
def test_the_summary_alone_tells_what_it_tells_beside_exchanges(kinspect, name, options):
    path = f"captures/{name}.pcap.gz"
    (alone,) = lines(kinspect("read", "--emit", "summary", *options, path))
    *exchanges, beside = lines(kinspect("read", "--emit", "exchange,summary", *options, path))
    assert alone == beside
    assert alone["shown"] == len(exchanges) > 0
    codes = Counter(
        error["name"] for line in exchanges if line["response"] for error in line["response"]["errors"]
    )
    assert {each["name"]: each["count"] for each in alone["error_counts"]} == codes


def test_the_summary_tells_errors_where_lines_show_no_body(kinspect):
    path = "captures/4.4.0/errors_java.pcap.gz"
    asked = ["read", "--emit", "exchange,summary", "--fields", "api,latency_ms"]
    result = kinspect(*asked, path)
    assert {"name": "UNKNOWN_TOPIC_OR_PARTITION", "count": 4} in lines(result)[-1]["error_counts"]
    assert "problems not looked for" in result.err


def test_an_output_that_cannot_be_made_is_named_with_its_option(kinspect, capture, tmp_path):
    path = tmp_path / "nowhere" / "x.jsonl"
    result = kinspect("read", "-o", path, capture)
    assert result.status == 2
    assert result.err.splitlines()[-1] == f"Error: -o: {path}: No such file or directory"


def test_a_limit_counts_lines(kinspect, capture):
    (summary,) = lines(kinspect("read", "--emit", "summary", "--limit", "1", capture))
    assert summary["shown"] == 5


def test_bytes_that_came_again_with_another_value(kinspect, packets, tmp_path):
    time, frame = packets[-2]
    packets.append(packets[-2]._replace(time_us=time + 50_000, data=frame[:-3] + b"??" + frame[-1:]))
    path = tmp_path / "conflict.pcap"
    path.write_bytes(pcap(packets))
    result = kinspect("read", "--emit", "connection,summary", path)
    connection, summary = lines(result)
    assert connection["conflicting_bytes"] == summary["conflicting_bytes"] == 2
    assert "34 repeated, 2 repeated with another value (the first one holds)\n" in result.err


def test_the_summary_counts_what_filters_could_not_tell(kinspect, capture):
    result = kinspect("read", "--min-latency", "0", "--emit", "exchange,summary", capture)
    summary = lines(result)[-1]
    assert summary["shown"] == 5
    assert summary["unknown_to_filters"] == []


def test_formats(kinspect, capture):
    assert kinspect("read", "--format", "none", capture).out == ""
    table = kinspect("read", "--format", "table", "--utc", capture).out
    # The head, the day, five rows of which two go on in a second line: an error, and no answer.
    assert len(table.splitlines()) == 9
    assert "\x1b" not in table
    assert "\x1b" in kinspect("read", "--format", "table", "--color", "always", capture).out
    assert "#3 Heartbeat v4" in kinspect("read", "--format", "detail", capture).out


# ---------------------------------------------------------------------- exit statuses


def test_a_missing_file(kinspect, capture):
    result = kinspect("read", "-q", "/nowhere/x.pcap", capture)
    assert result.status == 1
    assert result.err == "kinspect: /nowhere/x.pcap: no such file\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_that_were_not_read_are_counted_apart(kinspect, capture, tmp_path, jobs):
    text, cut, empty = (tmp_path / name for name in ("text", "cut.pcap", "empty.pcap"))
    text.write_text("no capture")
    cut.write_bytes(capture.read_bytes()[:-9])
    empty.write_bytes(pcap([]))
    result = kinspect("read", "--jobs", jobs, "/nowhere/x.pcap", cut, text, empty, capture)
    assert result.err.splitlines()[3].endswith(" in 3 files, 2 could not be read")
    assert kinspect("read", cut, capture).err.splitlines()[1].endswith(" in 2 files")
    assert len(lines(result)) == 5


@pytest.mark.parametrize("content", [b"", b"Dear diary,\ntoday nothing happened.\n" * 9])
def test_what_is_no_capture(kinspect, tmp_path, content):
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    result = kinspect("read", "-q", path)
    assert result.status == 1
    assert result.out == ""
    assert result.err.startswith(f"kinspect: {path}: ")
    assert result.err.count("\n") == 1


def test_a_cut_file_gives_all_before_the_cut(kinspect, capture):
    capture.write_bytes(capture.read_bytes()[:-5])
    result = kinspect("read", "-q", capture)
    assert result.status == 3
    assert len(lines(result)) == 5
    assert result.err.startswith(f"kinspect: {capture}: ")
    assert result.err.count("\n") == 1


def test_the_highest_status_wins(kinspect, capture, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(capture.read_bytes()[:-5])
    assert kinspect("read", "-q", "/nowhere/x.pcap", cut).status == 3


# ---------------------------------------------------------------------- output files


def test_output_file(kinspect, capture, tmp_path):
    path = tmp_path / "out.jsonl"
    result = kinspect("read", "-o", path, capture)
    assert result.status == 0
    assert result.out == ""
    assert len(path.read_text().splitlines()) == 5
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_file_is_overwritten_unasked(kinspect, capture, tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious")
    path.chmod(0o644)
    refused = kinspect("read", "-o", path, capture)
    assert refused.status == 2
    assert "--force" in refused.err
    assert path.read_text() == "precious"
    assert kinspect("read", "-o", path, "--force", "--limit", "1", capture).status == 0
    assert len(path.read_text().splitlines()) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("option", [[], ["--keylog"], ["--topic-names"]])
def test_an_input_is_never_overwritten(kinspect, capture, tmp_path, option):
    path = tmp_path / "given"
    path.write_bytes(b"# nothing\n" if option else capture.read_bytes())
    before = path.read_bytes()
    assert kinspect("read", "-o", path, "--force", capture, *option, path).status == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize("format_name", ["jsonl", "table"])
@pytest.mark.parametrize(
    ("options", "status"),
    [([], 1), (["--emit", "exchange,summary"], 1), (["--since", "soon"], 2), (["--topic-names", "/no"], 2)],
)
def test_a_file_is_replaced_only_by_something(kinspect, tmp_path, options, status, format_name):
    path = tmp_path / "out"
    path.write_text("precious")
    if "--emit" in options:
        format_name = "jsonl"
    result = kinspect("read", "/nowhere/x.pcap", "-o", path, "--force", "--format", format_name, *options)
    assert result.status == status
    assert path.read_text() == "precious"


def test_an_empty_result_replaces_a_file_too(kinspect, capture, tmp_path):
    path = tmp_path / "out"
    path.write_text("of an earlier run")
    assert kinspect("read", capture, "-o", path, "--force", "--group", "nobody").status == 0
    assert path.read_text() == ""
    path.write_text("of an earlier run")
    capture.write_bytes(pcap([]))
    assert kinspect("read", capture, "-o", path, "--force").status == 0
    assert path.read_text() == ""


def test_a_dash_is_standard_output(kinspect, capture, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(lines(kinspect("read", "-o", "-", capture))) == 5
    assert not (tmp_path / "-").exists()


def test_a_device_is_written_to_unasked_and_a_pipe_with_force(kinspect, process, capture, tmp_path):
    assert kinspect("read", "-o", "/dev/null", capture).status == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert process("read", "-q", "-o", pipe, "--force", capture).returncode == 0
        assert len(reader.stdout.readlines()) == 5


def test_a_table_in_a_file(kinspect, capture, tmp_path):
    path = tmp_path / "out.txt"
    assert kinspect("read", "-o", path, "--format", "table", capture).status == 0
    assert path.read_text().startswith("STARTED")


# ---------------------------------------------------------------------- pipes and signals


def test_standard_input(process, capture):
    result = process("read", "-q", "-", input=gzip.compress(capture.read_bytes()))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 5


@pytest.mark.parametrize("format_name", ["jsonl", "table", "detail"])
def test_a_reader_that_leaves_ends_it_quietly(command, big_capture, format_name):
    process = subprocess.Popen(
        [*command, "read", big_capture, "--format", format_name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_head_closes_the_output_without_an_error(command, big_capture):
    shell = f"{' '.join(command)} read {big_capture} --format jsonl | head -1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    first, status = result.stdout.splitlines()
    assert json.loads(first)["correlation_id"] == 1
    assert status == b"0"
    assert result.stderr == b""


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "2>&1 >/dev/null | true"])
def test_closed_streams(command, capture, redirection):
    shell = f"{' '.join(command)} read {capture} {redirection}; echo ${{PIPESTATUS[0]}} >&9"
    script = ["bash", "-c", f"exec 9>&1; {shell}"]
    result = subprocess.run(script, capture_output=True, check=False)
    assert result.stdout.splitlines()[-1] == b"0"
    assert b"Exception" not in result.stderr + result.stdout


def test_a_reader_that_left_before_anything_was_written(command, capture):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        result = subprocess.run(
            [*command, "read", capture], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert result.returncode == 0
    assert result.stderr == b""


@pytest.mark.parametrize(
    ("number", "name", "status"), [(signal.SIGINT, b"Ctrl-C", 130), (signal.SIGTERM, b"SIGTERM", 143)]
)
def test_a_signal_to_end_flushes_and_sums_up(command, capture, number, name, status):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "read", "-"], **pipes)
    process.stdin.write(capture.read_bytes())
    process.stdin.flush()
    # What can be decoded is printed while the pipe is still open.
    first, *_ = [process.stdout.readline() for _ in range(4)]
    assert json.loads(first)["api"] == "Metadata"
    process.send_signal(number)
    rest, err = process.stdout.readlines(), process.stderr.read()
    assert process.wait() == status
    (last,) = rest
    assert json.loads(last)["outcome"] == "unanswered"
    assert b"5 exchanges" in err
    assert err.endswith(b"stopped by " + name + b"\n")
    assert b"Traceback" not in err


ENDLESS = """
import os, sys
from kinspect import cli
from kinspect.output import linesink

first = linesink.LineSink.take

def take(sink, one):
    if one.correlation_id == 1:
        return first(sink, one)
    for number in {numbers}:
        os.kill(os.getpid(), number)
    while True:
        pass

linesink.LineSink.take = take
sys.exit(cli.main())
"""
"""The command, which gets signals when it begins to write its second exchange, and would never be done with that."""


@pytest.mark.parametrize(("numbers", "status"), [([15], 143), ([2, 2], 130), ([2, 15], 130)])
def test_what_takes_too_long_is_broken_off(capture, numbers, status):
    command = [sys.executable, "-c", ENDLESS.format(numbers=numbers), "read", capture]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.returncode == status
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["correlation_id"] == 1
    assert b"; 1 shown" in result.stderr
    assert result.stderr.endswith(b": there was no time for all that was read\n")


def test_a_sigterm_ends_it_though_nobody_takes_the_output(command, big_capture):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "read", big_capture], **pipes)
    assert process.stdout.readline()
    process.terminate()
    err = process.stderr.read()
    assert process.wait(60) == 143
    assert err.endswith(b"stopped by SIGTERM: there was no time for all that was read\n")
    process.stdout.close()
    process.stderr.close()


# ---------------------------------------------------------------------- input options


def test_topic_names(kinspect, capture, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("# ids\nxtzWWN4bTjitpL3kfd9s5g orders\n")
    assert kinspect("read", "--topic-names", names, capture).status == 0
    names.write_text('{"xtzWWN4bTjitpL3kfd9s5g": "orders"}')
    assert kinspect("read", "--topic-names", names, capture).status == 0
    names.write_bytes(b"\xef\xbb\xbfxtzWWN4bTjitpL3kfd9s5g\torders # made on Windows\r\n\r\n")
    assert kinspect("read", "--topic-names", names, capture).status == 0
    for bad in ("only-one-word", "short orders", "x y z", '{"xtzWWN4bTjitpL3kfd9s5g": 1}', "{", '{"a": "b"}'):
        names.write_text(bad)
        result = kinspect("read", "--topic-names", names, capture)
        assert result.status == 2
        assert str(names) in result.err


def test_caps(kinspect, capture):
    options = ["--max-message-bytes", "64KiB", "--max-in-flight", "5", "--idle-timeout", "10m"]
    assert len(lines(kinspect("read", *options, capture))) == 5
    tiny = kinspect("read", "--max-message-bytes", "30", capture)
    assert "caps hit: message_bytes" in tiny.err


def test_progress_is_for_who_waits(process, capture):
    assert b"reading" not in process("read", "--progress", capture).stderr


def test_every_line_type_follows_its_schema(kinspect, packets, tmp_path):
    # A capture with a gap: the packet of a response is missing.
    del packets[-8]
    path = tmp_path / "gap.pcap"
    path.write_bytes(pcap(packets))
    found = lines(kinspect("read", "--emit", "exchange,connection,gap,summary", path))
    assert {line["type"] for line in found} == {"exchange", "connection", "gap", "summary"}
    for line in found:
        schema = strict(line["type"])
        jsonschema_rs.validate(schema, line)
        assert list(line) == list(schema["properties"])


def on_a_terminal(*command):
    """Output of a command on a terminal of 80 columns."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    with os.fdopen(controller, "rb", buffering=0) as screen:
        with subprocess.Popen(command, stdout=terminal, env=environment) as process:
            os.close(terminal)
            shown = b""
            # Linux ends a pseudo-terminal's output with an error.
            with suppress(OSError):
                while data := screen.read(65536):
                    shown += data
        assert process.returncode == 0
    return shown


def test_a_terminal_gets_a_table_a_pipe_json(command, capture):
    shown = on_a_terminal(*command, "read", "-q", capture)
    assert b"\x1b[1mSTARTED" in shown
    assert b"REBALANCE" in shown


def from_client(client_id):
    """A request by a client of this name."""
    talk = Conversation()
    talk.open()
    body = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    talk.client_sends(framed(encode_request(Message(12, 4, 1, body, client_id))))
    return talk


# C1 and DEL, every bidirectional control, both separators, a zero width, a tag.
EVIL = "\x80\x9b2J\x9f\x7f\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2028\u2029\u200b\U000e0041"


def test_json_is_harmless_wherever_it_goes(command, kinspect, tmp_path):
    client_id = f"{EVIL}caf\xe9 \u65e5\u672c"
    path = tmp_path / "evil.pcap"
    path.write_bytes(pcap(from_client(client_id).packets))
    asked = ["read", "-q", "--decode-as", "9092", "--emit", "exchange,connection,summary", path]
    written = kinspect(*asked).out
    assert "\\u0080\\u009b2J\\u009f\\u007f\\u061c" in written
    assert "\\u200b\\udb40\\udc41caf\xe9 \u65e5\u672c" in written
    assert not set(written) & set(EVIL) - set("2J")
    assert lines(kinspect(*asked))[0]["client"]["id"] == client_id
    assert kinspect(*asked, "-o", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text("utf-8") == written
    assert kinspect(*asked, "--jobs", "2").out == written
    assert on_a_terminal(*command, *asked).decode().splitlines() == written.splitlines()


@pytest.mark.parametrize("format_name", ["jsonl", "table", "detail"])
def test_a_full_disk_is_one_line(process, capture, format_name):
    result = process("read", "-q", "--format", format_name, "-o", "/dev/full", "--force", capture)
    assert result.returncode == 1
    assert result.stderr == b"kinspect: cannot write the output: No space left on device\n"


def test_bodies_left_alone_change_nothing_else(kinspect, capture):
    asked = "correlation_id,api,outcome,latency_ms,client,completed_at"
    whole = lines(kinspect("read", capture))
    assert lines(kinspect("read", "--fields", asked, capture)) == [
        {key: line[key] for key in line if key in asked.split(",")} for line in whole
    ]


def test_a_limit_reached_at_the_very_end(kinspect, capture):
    result = kinspect("read", "--limit", "5", capture)
    assert result.status == 0
    assert len(lines(result)) == 5
    assert "1 connection, 1 Kafka" in result.err
    assert "5 exchanges, 1 unanswered, 1 error code" in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--limit", "2"], "5 exchanges, 1 unanswered; 2 shown\n"),
        (["--limit", "2", "--format", "none"], "5 exchanges, 1 unanswered; 2 looked at, "),
        (["--group", "idlers", "--format", "none"], "5 exchanges, 1 unanswered; 1 passed the filters, "),
        (["--group", "idlers", "--emit", "summary"], "5 exchanges, 1 unanswered; 1 passed the filters, "),
        (["--group", "idlers", "--emit", "connection"], "5 exchanges, 1 unanswered\n"),
    ],
)
def test_the_summary_tells_what_became_of_exchanges(kinspect, capture, options, said):
    assert said in kinspect("read", *options, capture).err


def test_a_limit_that_is_no_number(kinspect):
    assert (
        "'abc' is not a valid number." in kinspect("read", "captures/4.4.0/nano.pcap", "--limit", "abc").err
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("content", ["", "# secrets come later"])
def test_a_key_log_without_secrets_is_told(kinspect, tmp_path, content, jobs):
    path = tmp_path / "keys"
    path.write_text(content)
    result = kinspect("read", "captures/4.4.0/nano.pcap", "--keylog", path, "--jobs", jobs)
    assert result.status == 0
    assert result.err.count(f"kinspect: {path}: no TLS secrets in it (NSS key log format)\n") == 1


def test_a_body_field_that_no_message_has(kinspect, capture):
    result = kinspect("read", "--fields", "request.body.topcs", capture)
    assert result.status == 2
    assert "unknown field 'request.body.topcs'" in result.err
    assert "did you mean topics" in result.err


@pytest.mark.parametrize("options", [["--payload", "text", "--body", "text"], ["--records"]])
def test_options_on_bodies_that_ecs_has(kinspect, options):
    assert kinspect("read", CAPTURES / "4.4.0" / "nano.pcap", "--format", "ecs", *options).status == 0
