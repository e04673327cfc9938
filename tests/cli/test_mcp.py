"""`kinspect mcp`: its tools, by the SDK's own client."""

import json
import os
import re
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from support.captures import CAPTURES
from support.questions import questions, shown

from kinspect.answers import answers
from kinspect.cli import commandtools, group, main, mcpserver
from kinspect.cli.commandtools import Finished, Granted, bounded
from kinspect.cli.mcpserver import made_server, run_command

FOLDER = CAPTURES / "2.8.2"
COOKBOOK = {
    each.title.removeprefix("## "): each.answer
    for each in questions(CAPTURES.parent / "docs" / "cookbook.md")
}
ALL = sorted(path.name for path in FOLDER.glob("*.pcap*"))
ONE = "console-none.pcap"


@pytest.fixture
def call(monkeypatch, capfd):
    """Calls a tool of a server in this process, in which kinspect runs too; gives the object, or the error's text."""

    async def run(arguments, folder):
        monkeypatch.chdir(folder)
        capfd.readouterr()
        status = main(arguments)
        out, err = capfd.readouterr()
        return Finished(status, out.encode(), err.encode())

    def one(tool, granted=None, **arguments):
        async def called():
            async with Client(made_server(granted or Granted([str(FOLDER)]), run)) as client:
                return await client.call_tool(tool, arguments)

        result = anyio.run(called)
        (content,) = result.content
        return content.text if result.is_error else json.loads(content.text)

    return one


async def tools_of(server):
    async with Client(server) as client:
        return {each.name: each for each in (await client.list_tools()).tools}


def test_over_stdio(tmp_path):
    """The process as a program starts it: two calls, one refused, and it ends with its input."""
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the folder was loaded')")
    (tmp_path / ONE).write_bytes((FOLDER / ONE).read_bytes())
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "kinspect", "mcp", str(tmp_path)], cwd=CAPTURES.parent
    )

    async def session():
        async with Client(stdio_client(parameters)) as client:
            assert "schema" in {each.name for each in (await client.list_tools()).tools}
            read = await client.call_tool("read", {"captures": [ONE], "api": ["Fetch"], "rows": 1})
            refused = await client.call_tool("read", {"captures": ["../" + ONE]})
            return read, refused

    read, refused = anyio.run(session)
    found = json.loads(read.content[0].text)
    assert [row["api"] for row in found["rows"]] == ["Fetch"]
    assert (found["summary"]["type"], found["more"], read.is_error) == ("summary", True, False)
    assert refused.is_error
    assert "no such file in" in refused.content[0].text


def test_tools_are_those_of_the_table_of_answers():
    tools = anyio.run(tools_of, made_server(Granted([str(FOLDER)])))
    assert tools.keys() == {"captures", *"read records telemetry diff check schema".split(), *answers()}
    assert all(each.annotations.read_only_hint for each in tools.values())
    writing = anyio.run(tools_of, made_server(Granted([str(FOLDER)], str(FOLDER))))
    assert writing.keys() - tools.keys() == {"export"}
    assert not writing["export"].annotations.read_only_hint


def test_parameters_are_options_that_write_and_show_nothing():
    context = group.make_context("kinspect", ["schema"])
    tools = anyio.run(tools_of, made_server(Granted([str(FOLDER)])))
    for name in tools.keys() - {"captures"}:
        command = group.get_command(context, name)
        options = {each.name for each in command.params}
        offered = tools[name].input_schema["properties"].keys() - {"rows"}
        assert offered <= options
        assert {*getattr(command, "filters", ())} <= offered
        assert not offered & {
            *("output", "force", "payload", "show_secrets", "schema_registry", "schema", "split", "otlp"),
            *("progress", "jobs", "format_name", "emit", "limit", "append", "redact_key"),
        }


@pytest.mark.parametrize("name", ["captures", "keylog", "names", "topic_names"])
@pytest.mark.parametrize(
    "path",
    [
        "../4.1.2/admin_java.pcap",
        "/etc/hostname",
        "link.pcap",
        "folder",
        "pipe",
        "-",
        "",
        "a\0b",
        "../2.8.2x",
    ],
)
def test_paths_outside_are_refused(tmp_path, call, name, path):
    folder, outside = tmp_path / "in", tmp_path / "2.8.2x"
    folder.mkdir()
    (folder / ONE).write_bytes((FOLDER / ONE).read_bytes())
    outside.write_bytes(b"")
    (folder / "link.pcap").symlink_to(outside)
    (folder / "folder").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    given = {"captures": [ONE], name: [path] if name == "captures" else path}
    said = call("summary", Granted([str(folder)]), **given)
    assert "no such file in" in said or "no argument can have" in said


def test_links_within_the_folders_and_whole_paths(tmp_path, call):
    (tmp_path / "link").symlink_to(FOLDER / ONE)
    granted = Granted([str(tmp_path), str(FOLDER)])
    assert call("topics", granted, captures=["link"]) == call("topics", granted, captures=[str(FOLDER / ONE)])


def test_a_release_is_no_path_and_a_capture_is(call, tmp_path):
    (tmp_path / ONE).write_bytes((FOLDER / ONE).read_bytes())
    (tmp_path / "4.1").symlink_to("/etc/hostname")
    assert call("upgrade", captures=[ONE], to="4.1")["rows"]
    assert call("upgrade", captures=[ONE], to=ONE)["rows"]
    assert "no such file in" in call("upgrade", captures=[ONE], to="/etc/hostname")
    assert "no such file in" in call("upgrade", Granted([str(tmp_path)]), captures=[ONE], to="4.1")


def test_arguments_are_checked(call):
    assert call("read") == "read: needs captures"
    assert call("read", captures=ONE) == "captures: must be of type array"
    assert call("read", captures=[1]) == "captures: must be of type string"
    assert call("read", captures=[ONE], rows=True) == "rows: must be of type integer"
    assert call("read", captures=[ONE], rows=0) == "rows: must be from 1 to 1000"
    assert call("read", captures=[ONE], sort="name").startswith("sort: must be one of latency, ")
    assert "has no parameter 'format'; it has captures, " in call("read", captures=[ONE], format="table")
    assert "there is no tool 'rm'" in call("rm")
    # What only the command knows.
    assert "Error: --min-latency: " in call("read", captures=[ONE], min_latency="soon")


def test_values_are_no_options(call):
    assert call("read", captures=[ONE], topic=["--help"])["rows"] == []
    assert call("schema", name="errors", which="27")["rows"][0]["name"] == "REBALANCE_IN_PROGRESS"
    assert "there is no API" in call("schema", name="--help")


def test_payloads_and_secrets_are_hidden(call):
    granted = Granted([str(FOLDER)], payloads=True)
    hidden = call("records", captures=[ONE], rows=3)
    assert {row["value"] for row in hidden["rows"]} == {None}
    assert "has no parameter 'payload'" in call("records", captures=[ONE], payload="text")
    seen = call("records", granted, captures=[ONE], rows=3, payload="text")
    assert all(row["value"] for row in seen["rows"])
    for given in (None, granted):
        assert "has no parameter 'show_secrets'" in call("read", given, captures=[ONE], show_secrets=True)


def test_results_are_bounded(call):
    whole = call("clients", Granted([str(FOLDER)], most_bytes=10**7), captures=ALL, rows=1000)
    assert (len(whole["rows"]), whole["more"], whole["left_out"]) == (254, False, 0)
    few = call("clients", Granted([str(FOLDER)], most_bytes=10_000), captures=ALL)
    assert few["rows"] == whole["rows"][: len(few["rows"])]
    assert (few["more"], few["left_out"]) == (True, 254 - len(few["rows"]))
    assert len(json.dumps(few, separators=(",", ":"))) <= 10_000
    read = call("read", captures=[ONE], rows=2)
    # It stopped there: how many more there are was not counted.
    assert (len(read["rows"]), read["more"], read["left_out"]) == (2, True, None)


def test_a_row_that_has_no_room_is_counted():
    found = json.loads(bounded({"rows": ["x" * 100, "y"]}, 10, 60))
    assert found == {"rows": [], "more": True, "left_out": 2}


def test_too_large_outputs_end_the_command(monkeypatch):
    monkeypatch.setattr(mcpserver, "OUT_BYTES", 1000)
    finished = anyio.run(run_command, ["schema"], str(FOLDER))
    assert (finished.cut, len(finished.out)) == (True, 1000)
    with pytest.raises(commandtools.ToolError, match="too large"):
        commandtools.tools_for(Granted([str(FOLDER)]))["schema"].result(finished, 10)


def test_an_output_that_is_cut_is_no_result():
    tool = commandtools.tools_for(Granted([str(FOLDER)]))["schema"]
    with pytest.raises(commandtools.ToolError, match="status -9, and its output is cut"):
        tool.result(Finished(-9, b'[{"api": ', b""), 10)


def test_a_call_that_is_cancelled_ends_its_command(tmp_path):
    async def cancelled():
        with anyio.move_on_after(0.3):
            await run_command(["live", "--from", "sleep 1000"], str(tmp_path))

    before = children()
    anyio.run(cancelled)
    assert children() == before


def children():
    """The processes that this one started."""
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {pid for each in found for pid in each.read_text().split()}


def test_export_makes_new_files_there_alone(tmp_path, call):
    granted = Granted([str(FOLDER), str(tmp_path)], str(tmp_path))
    made = call("export", granted, captures=[ONE], api=["Produce"], output="made.pcapng")
    assert (made["rows"], [path.name for path in tmp_path.iterdir()]) == ([], ["made.pcapng"])
    assert {row["api"] for row in call("read", granted, captures=["made.pcapng"])["rows"]} >= {"Produce"}
    for name in ("made.pcapng", "../made", "/tmp/made", "a/b", "..", ""):
        assert isinstance(call("export", granted, captures=[ONE], output=name), str)
    assert [path.name for path in tmp_path.iterdir()] == ["made.pcapng"]
    assert "there is no tool 'export'" in call("export", captures=[ONE], output="made.pcapng")


def test_what_cannot_be_read_is_told(tmp_path, call):
    (tmp_path / "text.pcap").write_text("no capture")
    (tmp_path / "cut.pcap").write_bytes((FOLDER / ONE).read_bytes()[:9000])
    granted = Granted([str(tmp_path)])
    assert "not a capture" in call("summary", granted, captures=["text.pcap"])
    cut = call("summary", granted, captures=["cut.pcap"])
    assert cut["rows"]
    assert any("ends in the middle of packet" in line for line in cut["messages"])


def test_captures_are_listed(tmp_path, call):
    for name in ("b.pcap", "a.pcapng.gz", "notes.txt"):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "out").symlink_to("/etc/hostname")
    found = call("captures", Granted([str(tmp_path)]))
    assert [(Path(row["path"]).name, row["bytes"], row["capture"]) for row in found["rows"]] == [
        ("a.pcapng.gz", 5, True),
        ("b.pcap", 5, True),
        ("notes.txt", 5, False),
    ]
    assert call("captures", Granted([str(tmp_path)]), rows=1)["left_out"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["mcp"],
        ["mcp", "/no/such/folder"],
        ["mcp", ".", "--write-to", "/no/such"],
        ["mcp", ".", "--max-bytes", "5"],
    ],
)
def test_usage_errors(arguments, capsys):
    assert main(arguments) == 2
    assert "Error: " in capsys.readouterr().err


# ---------------------------------------------------------------------- questions of engineers, by tools alone

TXN, GROUPS, ERRORS = "4.4.0/txn_java.pcap.gz", "4.4.0/groups_classic.pcap.gz", "4.4.0/errors_java.pcap.gz"
ASKED = {
    "What is in this capture, and what is wrong?": (
        *("summary", {"captures": [TXN]}),
        {"finding": "transactions_fenced", "text": "pc-txid-open", "command": "transactions"},
    ),
    "Who produces to this topic?": (
        *("topics", {"captures": [ERRORS], "topic": ["pcerr-small"]}),
        {"direction": "produce", "client_id": "pc-err-big", "errors": {"MESSAGE_TOO_LARGE": 1}},
    ),
    "Who reads it, in which group?": (
        *("topics", {"captures": [ERRORS], "topic": ["pcerr-small"]}),
        {"direction": "consume", "client_id": "pc-err-fence", "groups": ["pcerr-fg"], "delivered": 10},
    ),
    "Which clients are there, of which software?": (
        *("clients", {"captures": [TXN]}),
        {"client_id": "pc-jt-txn", "software_name": "apache-kafka-java", "software_version": "4.4.0"},
    ),
    "Which errors did clients get, and what helps?": (
        *("errors", {"captures": [ERRORS], "api": ["Metadata"]}),
        {
            "error": "UNKNOWN_TOPIC_OR_PARTITION",
            "client_id": "pc-err-unk",
            "count": 4,
            "topics": ["pcerr-missing"],
        },
    ),
    "Which clients break with brokers of 4.x?": (
        *("upgrade", {"captures": ["2.8.2/message-format-downconv.pcap.gz"], "to": "4.0"}),
        {"client_id": "c-canyon-f09", "verdict": "breaks"},
    ),
    "Which break with the brokers of another capture?": (
        *("upgrade", {"captures": ["2.8.2/message-format-downconv.pcap.gz"], "to": TXN}),
        {"client_id": "c-canyon-f09", "verdict": "breaks"},
    ),
    "Why was this group rebalanced?": (
        *("groups", {"captures": [GROUPS], "group": ["pc-grp-java"]}),
        {"group": "pc-grp-java", "protocol": "cooperative-sticky", "coordinator": "127.0.0.1:19092"},
    ),
    "How long do records take to reach a consumer?": (
        *("delivery", {"captures": [TXN], "topic": ["pc-txin"]}),
        {"client_id": "pc-jt-eos", "records": 50, "not_delivered": 0},
    ),
    "What was slow, and where?": (
        *("latency", {"captures": ["4.4.0/cluster_kraft.pcap.gz"], "slow": "500"}),
        {"api": "Produce", "client_id": "pc-clp3", "wait": "broker", "latency_ms": 2674.459},
    ),
    "Which requests waited behind others?": (
        *(
            "read",
            {
                "captures": ["4.4.0/cluster_kraft.pcap.gz"],
                "wait": ["queued"],
                "fields": ["api,wait,in_flight"],
            },
        ),
        {"api": "Metadata", "wait": "queued", "in_flight": 1},
    ),
    "Which requests have no answer, and why?": (
        *(
            "read",
            {
                "captures": ["4.4.0/groups_classic.pcap.gz"],
                "fields": ["api,outcome,outcome_reason"],
                "rows": 1000,
            },
        ),
        {"api": "Metadata", "outcome": "unanswered", "outcome_reason": "reset"},
    ),
    "Why can this client not connect?": (
        *("connect", {"captures": ["connect/black-hole_java.pcap.gz"]}),
        {"problem": "large_packets_lost", "client_id": "black-hole_java-client", "broker": "10.77.2.2:9092"},
    ),
    "Why can this client not log in?": (
        *("auth", {"captures": ["4.4.0/sasl_plain.pcap.gz"], "client_id": ["pc-ck*"]}),
        {
            "client_id": "pc-ckbad-plain",
            "principal": "alice",
            "mechanism": "PLAIN",
            "failed": 5,
            "succeeded": 0,
        },
    ),
    "Is a client badly configured?": (
        *("settings", {"captures": ["4.4.0/cluster_kraft.pcap.gz"], "client_id": ["pc-clp"]}),
        {"client_id": "pc-clp", "acks": {"-1": 2}, "idempotent": False},
    ),
    "What became of the transactions?": (
        *("transactions", {"captures": ["2.8.2/transactions.pcap.gz"]}),
        {"transactional_id": "c-canyon-fence", "epochs": [0, 2], "client_id": "c-canyon-fe"},
    ),
    "Who compresses, and how well?": (
        *("compression", {"captures": ["4.4.0/codecs_librdkafka.pcap.gz"]}),
        {"client_id": "pc-librdkafka-prod", "codecs": {"snappy": 1}, "ratio": 3.443},
    ),
    "Was this record sent, and was it committed?": (
        *("records", {"captures": ["4.1.2/txn_java.pcap.gz"], "key": ["key-1"], "topic": ["*-out"]}),
        {"direction": "produce", "offset": 1, "transaction": "committed", "key": None},
    ),
    "Who leads, and which brokers are there?": (
        *("brokers", {"captures": ["2.8.2/controller-2brokers.pcap.gz"]}),
        {"node_id": 0, "address": "127.0.0.1:23801", "mode": "zookeeper"},
    ),
    "Who changed my topic's config?": (
        "read",
        {
            "captures": ["4.4.0/admin_java.pcap.gz"],
            "topic": ["pcadm-t1"],
            "api": ["IncrementalAlterConfigs"],
            "fields": ["client.id,api"],
        },
        {"client": {"id": "pc-adm"}, "api": "IncrementalAlterConfigs"},
    ),
    "What did the broker answer?": (
        *("read", {"captures": [ERRORS], "errors_only": True, "api": ["Produce"], "fields": ["error_names"]}),
        {"error_names": ["MESSAGE_TOO_LARGE"]},
    ),
    "What is in encrypted connections?": (
        "read",
        {
            "captures": ["tls/go.pcap.gz"],
            "keylog": "tls/go.keys.log",
            "api": ["Produce"],
            "fields": ["tls,api"],
        },
        {"tls": True, "api": "Produce"},
    ),
    "What does this message look like?": (
        *("schema", {"name": "Heartbeat", "version": 4}),
        {},
    ),
    "What does this error mean?": (
        *("schema", {"name": "errors", "which": "27"}),
        {"name": "REBALANCE_IN_PROGRESS"},
    ),
    "What do clients say of themselves?": (
        *("telemetry", {"captures": ["4.3.1/telemetry.pcap.gz"]}),
        {"kind": "subscription", "client_id": "pc-tck", "software_name": "confluent-kafka-python"},
    ),
    "What did a deploy change?": (
        *("diff", {"before": "4.4.0/txn_librdkafka.pcap.gz", "after": TXN}),
        {},
    ),
    "Do clients keep the rules?": (
        *("check", {"captures": ["3.6.2/txn_java.pcap.gz"], "rules": "rules.toml"}),
        {"rule": "consumers read what is committed", "status": "failed", "failing": 4},
    ),
}


@pytest.mark.parametrize("question", ASKED)
def test_questions_by_tools_alone(call, question):
    tool, arguments, expected = ASKED[question]
    granted = Granted([str(CAPTURES), str(CAPTURES.parent / "docs")], most_bytes=10**7)
    rows = call(tool, granted, **arguments)["rows"]
    assert any(expected.items() <= row.items() for row in rows) if expected else rows, rows[:3]


def test_each_command_of_the_guides_questions_is_asked():
    page = (CAPTURES.parent / "docs" / "guide.md").read_text("utf-8")
    named = set(re.findall(r"^\| .*\| `kinspect (\w+) ", page, re.MULTILINE)) - {"report", "export"}
    asked = {tool for tool, _, _ in ASKED.values()}
    assert len(named) > 12
    assert named - asked == set()


# ---------------------------------------------------------------------- the cookbook's questions, by tools alone


def produced_and_read(call):
    rows = call("topics", captures=ALL, topic=["canyon-none"])["rows"]
    return rows, "direction client_id client_ip requests records bytes"


def slowest(call):
    rows = call("read", captures=ALL, sort="latency", rows=60, fields=["api,client,latency_ms,max_wait_ms"])[
        "rows"
    ]
    slow = [row for row in rows if row["max_wait_ms"] is None][:5]
    return [{**row, "client": row["client"]["id"]} for row in slow], "api client latency_ms"


def unanswered(call):
    granted = Granted([str(FOLDER)], most_bytes=10**7)
    fields = ["outcome", "outcome_reason", "api"]
    rows = call("read", granted, captures=ALL, fields=fields, rows=1000)["rows"]
    found = [
        {**row, "reason": row["outcome_reason"] or "-", "exchanges": 1}
        for row in rows
        if row["outcome"] != "answered"
    ]
    return found, "outcome reason api exchanges"


def behind(call):
    rows = call("groups", captures=ALL, topic=["canyon-none"], rows=1000)["rows"]
    found = [
        {"name": row["group"], **row, "committed": each["offset"], "lag": each["lag"]}
        for row in rows
        for partition, each in row["committed"].items()
        if partition == "canyon-none-0"
    ]
    return found, "name protocol coordinator committed lag"


def throttled(call):
    return call("read", captures=ALL, wait=["throttled"])["rows"], "client api responses longest_ms"


def bytes_moved(call):
    granted = Granted([str(FOLDER)], most_bytes=10**7)
    rows = call("clients", granted, captures=ALL, rows=1000)["rows"]
    rows.sort(key=lambda row: -(row["bytes_sent"] + row["bytes_received"]))
    found = [
        {"client": row["client_id"], "sent": row["bytes_sent"], "received": row["bytes_received"], **row}
        for row in rows[:5]
    ]
    return found, "client sent received connections"


SESSION = {
    "Who produces to a topic, and who reads it?": produced_and_read,
    "The slowest responses": slowest,
    "Which group is behind on a partition?": behind,
    "Requests without a response": unanswered,
    "Who is throttled?": throttled,
    "Who moves the most bytes?": bytes_moved,
}


@pytest.mark.big
@pytest.mark.parametrize("title", SESSION)
def test_the_cookbook_by_tools_alone(call, title):
    rows, keys = SESSION[title](call)
    names = keys.split()
    assert shown(names, ([row[name] for name in names] for row in rows)) == COOKBOOK[title]
