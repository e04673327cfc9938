"""docs/recipes/elasticsearch: a node takes all lines of all captures, keeps each once, and answers the question."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import central
import pytest
from console_blocks import examples, matches, run
from recipes.programs import RECIPES, program, running
from support.waiting import wait_until

pytestmark = pytest.mark.tools

HERE = Path(__file__).parent / "elasticsearch"
NETTY, MAPPERS = (
    "org.elasticsearch.transport.Netty4Plugin",
    "org.elasticsearch.index.mapper.MapperExtrasPlugin",
)
INDEX = "kinspect-kafka"


class Release(NamedTuple):
    """A release that Maven Central has: its plugins, and what it calls things."""

    number: str
    plugins: tuple[str, ...]
    template: str
    documents: str
    options: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()


RELEASES = [
    Release("7.17.28", (NETTY, MAPPERS), "_index_template/kinspect", INDEX, jars=("mappers",)),
    Release("6.8.23", (NETTY,), "_template/kinspect", f"{INDEX}/_doc", ("--legacy",)),
]


class Node:
    """A node that runs: its HTTP interface."""

    def __init__(self, release, url):
        self.release = release
        self.url = url

    def request(self, method, path, body=None):
        request = Request(f"{self.url}/{path}", body, {"Content-Type": "application/json"}, method=method)
        with urlopen(request) as response:
            return json.load(response)

    def send(self, path):
        """The lines of a file, by the recipe's script; gives what it printed."""
        command = [RECIPES / "elasticsearch" / "bulk.sh", f"{self.url}/{self.release.documents}"]
        with open(path, "rb") as lines:
            done = subprocess.run(command, stdin=lines, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def search(self, index, body):
        """What a query finds among all that was sent."""
        self.request("POST", f"{index}/_refresh")
        return self.request("GET", f"{index}/_search", json.dumps(body).encode())

    def taken(self, index):
        """How often a document was taken, new or not; 0 before the first."""
        try:
            statistics = self.request("GET", f"{index}/_stats/indexing")
        except HTTPError as error:
            if error.code != 404:
                raise
            return 0
        return statistics["_all"]["primaries"]["indexing"]["index_total"]

    def counts(self, index, field):
        """Documents by the value of a field."""
        buckets = {"values": {"terms": {"field": field, "size": 1000, "missing": "none"}}}
        found = self.search(index, {"size": 0, "aggs": buckets})["aggregations"]["values"]["buckets"]
        return {bucket["key"]: bucket["doc_count"] for bucket in found}


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.number)
def node(request, tmp_path_factory):
    """A node with the template."""
    release = request.param
    try:
        classes = central.classpath(
            f"Elasticsearch {release.number}",
            HERE / "pom.xml",
            central.BUILD / "elasticsearch" / release.number,
            **{"elasticsearch.version": release.number, **dict.fromkeys(release.jars, "true")},
        )
    except central.ToolError as error:
        pytest.fail(str(error))
    folder = tmp_path_factory.mktemp("elasticsearch")
    java = [
        program("java", "openjdk-17-jdk-headless"),
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
    ]
    command = [*java, "-cp", classes, str(HERE / "Server.java"), str(folder), *release.plugins]
    printed = folder / "printed"
    with running(["nice", *command], printed) as process:
        wait_until(lambda: b"\n" in printed.read_bytes() or process.poll() is not None)
        url = re.search(r"^http://\S+$", printed.read_text(), re.MULTILINE)
        assert url, printed.read_text()
        made = Node(release, url[0])
        template = [sys.executable, "-m", "kinspect", "schema", "ecs-template", *release.options]
        made.request("PUT", release.template, subprocess.check_output(template))
        yield made


def once(path):
    """The lines of a file, one of each id."""
    return {line["event"]["id"]: line for line in map(json.loads, path.read_bytes().splitlines())}


def test_all_lines_are_taken_and_kept_once(lines_of, node):
    path = lines_of("--format", "ecs", "--body", "text", "--emit", "exchange,connection,gap,summary")
    sent = path.read_bytes().count(b"\n")
    kept = once(path).values()
    datasets = Counter(line["event"]["dataset"] for line in kept)
    assert len(datasets) == 4
    for _ in range(2):
        assert node.send(path) == f"{sent} lines, 0 refused\n"
        assert node.counts(INDEX, "event.dataset") == datasets
    assert node.counts(INDEX, "event.action") == Counter(line["event"].get("action", "none") for line in kept)
    ignored = {"size": 1, "query": {"exists": {"field": "_ignored"}}}
    assert node.search(INDEX, ignored)["hits"]["hits"] == []


def test_who_produces_to_a_topic(lines_of_page, node):
    node.send(lines_of_page("--format", "ecs"))
    query = json.loads((RECIPES / "elasticsearch" / "producers.json").read_bytes())
    (client,) = node.search(INDEX, query)["aggregations"]["client"]["buckets"]
    assert (client["key"], client["doc_count"], client["records"]["value"]) == ("console-producer", 1, 13)
    assert [address["key"] for address in client["ip"]["buckets"]] == ["127.0.0.1"]


def test_a_line_that_is_refused_is_told(node, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text('{"event":{"id":"a","action":{"not":"text"}}}\n{"event":{"id":"b"}}\n')
    command = [RECIPES / "elasticsearch" / "bulk.sh", f"{node.url}/{node.release.documents}"]
    with open(lines, "rb") as file:
        done = subprocess.run(command, stdin=file, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith("2 lines, 1 refused\n")
    assert "event.action" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line", "said"),
    [
        ([], '{"event":{"id":"a"}}', "give the URL of an index"),
        (["/kinspect-kafka/"], '{"event_id":"a"}', "no event.id: give kinspect --format ecs"),
        ([""], '{"event":{"id":"a"}}', "index is missing"),
    ],
)
@pytest.mark.parametrize("node", RELEASES[:1], indirect=True, ids=lambda release: release.number)
def test_what_cannot_be_sent_is_told(node, arguments, line, said):
    command = [RECIPES / "elasticsearch" / "bulk.sh", *(node.url + index for index in arguments)]
    done = subprocess.run(command, input=f"{line}\n", check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""


def test_lines_by_rsyslog(lines_of_page, node, recipe, rsyslogd, tmp_path):
    path = lines_of_page("--format", "ecs")
    changes = {
        "/var/log/kinspect/ecs.jsonl": path,
        "9200": node.url.rpartition(":")[2],
        INDEX: "kinspect-rsyslog",
        "/var/log/kinspect/refused.json": tmp_path / "refused",
    }
    text = recipe("elasticsearch/rsyslog.conf", changes)
    kept = once(path)
    for times, name in enumerate(("first", "again"), 1):
        with rsyslogd(name, text):
            wait_until(lambda times=times: node.taken("kinspect-rsyslog") >= times * len(kept))
    assert not (tmp_path / "refused").exists()
    assert node.counts("kinspect-rsyslog", "event.action") == Counter(
        line["event"].get("action", "none") for line in kept.values()
    )


@pytest.mark.parametrize("node", RELEASES[:1], indirect=True, ids=lambda release: release.number)
def test_the_commands_of_the_page(node):
    for example in examples(RECIPES / "elasticsearch.md"):
        real = run(example.command.replace("http://127.0.0.1:9200", node.url))
        assert matches(example.shown, real), f"{example.command}\n" + "\n".join(real)
