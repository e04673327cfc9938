"""What is hidden is hidden in every output: secrets without --show-secrets, keys, values and headers without --payload.

A capture is made that has a marker wherever a secret can be: in the fields of the table of traits, in each version of
each API, in values of configs, in records of the metadata topic, in SASL tokens, in the same inside an Envelope, and in
messages that are damaged or whose request is lost. Then each output that kinspect has is searched for it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet
import pytest
import replay
from exchanges import batch
from output.collector import Collector
from support.answered import objects
from support.client import Client, recorded
from support.packets import packets
from support.pcap import framed
from support.tui import indexed

import kinspect
from kinspect.analysis.metrics import KafkaMetrics, exposed
from kinspect.answers import answerobject, answers
from kinspect.cli import commands
from kinspect.cli.exposition import Exposition
from kinspect.cli.options import SIGNALS
from kinspect.exports.comments import Comments
from kinspect.formats import FOLDER, FORMATS, those_with
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.model import REQUEST, RESPONSE
from kinspect.output import JSONL, Style, table
from kinspect.protocol import Message, encode_body, encode_request, encode_response, schema
from kinspect.protocol.apikeys import (
    API_VERSIONS,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from kinspect.protocol.overlay import read_definitions
from kinspect.protocol.schema import Field
from kinspect.tables.request import Request
from kinspect.tables.tablenames import TABLES
from kinspect.tables.taggedrows import TaggedRows
from kinspect.tui.index import export
from kinspect.tui.index.exchangefields import ExchangeFields

SECRET, PAYLOAD = b"hunter2-hunter2", b"payload-payload"
RECORD_SECRETS = ("salt", "stored_key", "server_key")  # of UserScramCredentialRecord
METADATA, METADATA_ID = "__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"
CONFIG = "ssl.key.password"
FORK = 600
FORK_SECRETS = ("client_secret", "pwd", "api_tokens", "salt", "hash", "signing_key")
"""Fields of the fork's API: those named like secrets, and one in a struct that is."""
TOKENS = {
    "PLAIN": [(b"\0alice\0%s", b"")],
    "SCRAM-SHA-256": [(b"n,,n=alice,r=%s", b"r=%s,s=%s,i=4096"), (b"c=biws,r=%s,p=%s", b"v=%s")],
    "OAUTHBEARER": [(b"n,,\1auth=Bearer aa.%s.bb\1\1", b'{"status":"%s"}'), (b"\1", b"e=%s")],
    "GSSAPI": [(b"`\x82%s", b"`\x83%s")],
}
"""What client and broker send to log in, by mechanism, with the places of the secrets."""


def shows(marker: bytes, output: bytes) -> bool:
    """True if the marker is anywhere in it, as text, hex or base64, also as a part of longer bytes."""
    shifted = (b64encode(bytes(n) + marker)[4 if n else 0 : -4] for n in range(3))
    return any(form in output for form in (marker, marker.hex().encode(), *shifted))


# ---------------------------------------------------------------------- the capture


class Made(NamedTuple):
    """An exchange."""

    api_key: int
    version: int
    request: dict[str, Any]
    response: dict[str, Any]

    def raw(self, number: int) -> tuple[bytes, bytes]:
        asked = Message(self.api_key, self.version, number, self.request, "app")
        return encode_request(asked), encode_response(replace(asked, body=self.response, direction=RESPONSE))

    def enveloped(self) -> Made:
        request, response = self.raw(1)
        return Made(ENVELOPE, 0, {"request_data": request}, {"response_data": response})


class Planter:
    """Fills messages. `secrets`: the markers so far; `topic`: that of records, which are the batch `records`."""

    def __init__(self) -> None:
        self.secrets: list[bytes] = []
        self.topic, self.records = "orders", batch((PAYLOAD, PAYLOAD), header=PAYLOAD)

    def secret(self) -> bytes:
        self.secrets.append(SECRET + b"%03d" % len(self.secrets))
        return self.secrets[-1]

    def struct(self, layout: Sequence[Field], names: Collection[str]) -> dict[str, Any]:
        """A struct in which the fields `names`, values of configs and records are filled; empty if it has none."""
        texts = {each.name for each in layout if each.type == "string" and not each.array}
        found: dict[str, Any] = {}
        for each in layout:
            if each.name in names and each.type in ("bytes", "string"):
                secret = self.secret() if each.type == "bytes" else self.secret().decode()
                found[each.name] = [secret] if each.array else secret
            elif each.name == "value" and each.name in texts and (named := texts & {"name", "key"}):
                found |= {named.pop(): CONFIG, "value": self.secret().decode()}
            elif each.type == "records":
                found[each.name] = self.records
            elif each.fields and (inner := self.struct(each.fields, names)):
                found[each.name] = [inner] if each.array else inner
        if found:
            # With acks=0 there is no answer.
            found |= {each.name: 1 for each in layout if each.name == "acks"}
            found |= {
                each.name: self.topic for each in layout if each.entity == "topicName" and not each.array
            }
            if self.topic == METADATA:
                found |= {each.name: METADATA_ID for each in layout if each.name == "topic_id"}
        return found

    def messages(self, *api_keys: int) -> Iterator[Made]:
        """Exchanges of all versions of these APIs, or of all APIs, that have something to be hidden."""
        for api in map(schema.api, api_keys) if api_keys else schema.apis():
            names = FORK_SECRETS if api.key == FORK else schema.traits("secrets").get(api.key, "").split(",")
            for version in api.versions:
                bodies = []
                for side in (REQUEST, RESPONSE):
                    layout, before = schema.layout(api.key, version, side), len(self.secrets)
                    bodies.append(self.struct(layout.fields, names))
                    if layout.flexible and len(self.secrets) > before:
                        bodies[-1]["unknown_tagged_fields"] = [{"tag": 999, "bytes": SECRET}]
                if any(bodies):
                    yield Made(api.key, version, *bodies)

    def replicated(self) -> list[Made]:
        """Exchanges with records of the metadata topic."""
        values = []
        for kind in schema.record_types(METADATA).values():
            layout = schema.record_layouts(kind.values[0], 0)[0]
            if body := self.struct(layout.fields, RECORD_SECRETS):
                values.append((SECRET, bytes((1, kind.number, 0)) + encode_body(layout, body)))
        # One that cannot be read may be a secret, too.
        self.topic, self.records = METADATA, batch(*values, (SECRET, b"\1\x7f\0" + SECRET))
        return [*self.messages(FETCH, FETCH_SNAPSHOT)]


def talk(number: int, made: Iterable[Made] = ()) -> Client:
    """A client that asks all of this."""
    client = Client("app", 40000 + number)
    client.ask(API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": []})
    for each in made:
        client.ask(*each)
    return client


def damaged(number: int, made: Made) -> Client:
    """A client whose messages are too long, cut, without an answer, and without a request."""
    client = talk(number)
    sends = client.talk.client_sends, client.talk.broker_sends
    for side, raw in enumerate(made.raw(2)):
        sends[side](framed(raw + b"\0"))
    for side, raw in enumerate(made.raw(3)):
        sends[side](framed(raw[:-1]))
    sends[0](framed(made.raw(4)[0]))
    sends[1](framed(made.raw(5)[1]))
    return client


def login(number: int, version: int, mechanism: str) -> Client:
    """A client that logs in, by raw tokens after version 0."""
    client = talk(number)
    client.ask(SASL_HANDSHAKE, version, {"mechanism": mechanism}, {"mechanisms": [mechanism]})
    for token, answer in ([raw.replace(b"%s", SECRET) for raw in pair] for pair in TOKENS[mechanism]):
        if version:
            client.ask(SASL_AUTHENTICATE, 0, {"auth_bytes": token}, {"auth_bytes": answer})
        else:
            client.talk.client_sends(framed(token))
            client.talk.broker_sends(framed(answer))
    return client


class Sample(NamedTuple):
    """The capture, and what was found in it. `secrets`: what --show-secrets shows; `newest`: exchanges of the newest
    versions."""

    path: Path
    secrets: list[bytes]
    in_records: list[bytes]
    newest: list[Made]
    exchanges: list[Exchange]


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    """Definitions of an API of a fork, laid over the table."""

    def field(name: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "versions": "0+", **more}

    fields = [
        *(field("ClientSecret", "string"), field("PWD", "bytes"), field("ApiTokens", "[]string")),
        field("Credentials", "[]Credential", fields=[field("Salt", "string"), field("Hash", "bytes")]),
        # No texts: shown.
        *(field("TokenCount", "int32"), field("SaslAuthBytes", "int64"), field("Hmac", "uuid")),
        field("SigningKey", "string", taggedVersions="0+", tag=0),
    ]
    path = tmp_path_factory.mktemp("fork") / "definitions.json"
    both = [{"name": f"Fork{kind.title()}", "type": kind} for kind in (REQUEST, RESPONSE)]
    shared = {"apiKey": FORK, "validVersions": "0", "flexibleVersions": "0+", "fields": fields}
    path.write_text(json.dumps([each | shared for each in both]))
    schema.lay_over(read_definitions(str(path)))
    yield
    schema.lay_over({})


@pytest.fixture(scope="module")
def sample(fork, tmp_path_factory):
    planter = Planter()
    made = [*planter.messages()]
    newest = [*{each.api_key: each for each in made}.values()]
    secrets, planter.secrets = planter.secrets, []
    replicated = planter.replicated()
    path = tmp_path_factory.mktemp("hidden") / "secrets.pcap"
    path.write_bytes(
        recorded(
            talk(0, made),
            talk(1, map(Made.enveloped, [*newest, *replicated])),
            talk(2, replicated),
            *(damaged(10 + number, each) for number, each in enumerate(newest)),
            *(
                login(100 + number, number % 2, name)
                for number, name in enumerate(sorted([*TOKENS, *TOKENS]))
            ),
        )
    )
    return Sample(path, secrets, planter.secrets, newest, [*kinspect.read(path)])


# ---------------------------------------------------------------------- what is printed

OPTIONS = [
    line.split()
    for line in """

    --records --wide
    --fields request.body,response.body --records
    --payload text --emit exchange,connection,gap,summary
    --payload base64 --body text --no-nulls
    --payload hex --int64 string --max-line 4300
""".splitlines()[1:]
]
"""Options of `read`; a format has all, or refuses them."""
SHOWING = (
    "--show-secrets --payload text --body text",
    "--show-secrets --payload text",
    "--show-secrets",
)
"""Options that show all; a format has the first ones that it does not refuse."""
NO_BODIES = ("table", "csv", "none")


@pytest.fixture
def read(kinspect, sample, tmp_path):
    """Runs `kinspect read`; gives all that is printed and written, None if the format refuses the options."""

    def run(name, *options):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        where = ["-o", folder] if FORMATS[name].writes == FOLDER else []
        found = kinspect("read", sample.path, "--format", name, *options, *where)
        if found.status == 2 and options:
            return None
        assert found.status == 0, found.err
        tables = [pyarrow.parquet.read_table(path).to_pylist() for path in folder.rglob("*.parquet")]
        return f"{found.out}{found.err}{tables}".encode()

    return run


@pytest.mark.big
@pytest.mark.parametrize("name", FORMATS)
def test_formats(read, sample, name):
    for options in OPTIONS:
        out = read(name, *options)
        if out is None:
            assert name != JSONL
            continue
        assert not shows(SECRET, out), options
        assert "--payload" in options or not shows(PAYLOAD, out), options
    found = {options: read(name, *options.split()) for options in SHOWING}
    options = next(options for options, out in found.items() if out is not None)
    if name in NO_BODIES:
        assert not shows(SECRET, found[options])
        assert not shows(PAYLOAD, found[options])
    else:
        in_records = sample.in_records if "--payload" in options else []
        assert lacking(found[options], [*sample.secrets, *in_records]) == []


@pytest.mark.big
@pytest.mark.parametrize("name", those_with("no_users"))
def test_users(read, name):
    emit = ["--emit", "exchange,connection"] if "emit" in FORMATS[name].has else []
    assert b"alice" in read(name, *emit)
    assert b"alice" not in read(name, *emit, "--no-users")


def lacking(out, secrets):
    """The secrets that are not there."""
    return [each for each in secrets if each not in out and b64encode(each) not in out]


# ---------------------------------------------------------------------- what the others show


def python(sample, view):
    return [(exchange, exchange.to_dict(view), exchange.problems) for exchange in sample.exchanges]


def explorer(sample, view):
    shown = []
    for exchange in sample.exchanges:
        found = ExchangeFields(exchange, view)
        shown += [(node.key, node.value, node.name) for _, node in found.walk()]
        for message in found.messages.values():
            drawn = bytearray(message.raw)
            for start, end in message.hidden:
                drawn[start:end] = bytes(end - start)
            shown.append(bytes(drawn))
        shown.append(export.json_line(view.exchange(exchange)))
    return shown


def rows_of_spark(sample, view):
    rows = TaggedRows(Request(TABLES, view=view, answers=tuple(answers())), None)
    return [array.to_pylist() for made in (rows.add(sample.exchanges), rows.rest()) for _, array in made]


@pytest.mark.big
@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_records(kinspect, sample, form):
    def records(*options):
        found = kinspect("records", sample.path, "--format", form, "--wide", "--control", *options)
        assert found.status == 0
        return f"{found.out}{found.err}".encode()

    filters = "--key", "*", "--value", "re:.*"
    shown = [
        records(),
        records(*filters),
        records("--payload", "text"),
        records("--payload", "text", *filters),
        records("--payload", "auto"),
        records("--payload", "text", "--show-secrets"),
    ]
    assert [shows(SECRET, out) for out in shown] == [False] * 5 + [True]
    assert [shows(PAYLOAD, out) for out in shown] == [False, False, True, True, True, True]


@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_telemetry(kinspect, sample, form):
    found = kinspect("telemetry", sample.path, "--format", form, "--wide")
    assert found.status == 0
    shown = f"{found.out}{found.err}".encode()
    assert not shows(SECRET, shown)
    assert not shows(PAYLOAD, shown)


@pytest.mark.parametrize("form", ["table", "jsonl", "junit", "github"])
def test_check(kinspect, sample, tmp_path, form):
    fields = "auth_bytes request.body.topic_data.partition_data.records.batches.records.value".split()
    rules = tmp_path / "rules.toml"
    rules.write_text(
        "".join(f'[[rule]]\nname = "{name}"\nhave."{name}" = "no such value"\n' for name in fields)
    )
    found = kinspect("check", sample.path, "--rules", rules, "--format", form, "--evidence", 100)
    assert found.status == 4
    shown = f"{found.out}{found.err}".encode()
    assert not shows(SECRET, shown)
    assert not shows(PAYLOAD, shown)


@pytest.mark.big
def test_report(kinspect, sample):
    found = kinspect("report", sample.path, "-o", "-")
    assert found.status == 0
    assert not shows(SECRET, found.out.encode())
    assert not shows(PAYLOAD, found.out.encode())


WITH_BODIES = {each.__name__: each for each in (python, explorer, rows_of_spark)}


@pytest.mark.big
@pytest.mark.parametrize("name", WITH_BODIES)
def test_outputs_with_bodies(sample, name):
    shown = [
        repr(WITH_BODIES[name](sample, view)).encode()
        for view in (View(records=True), View(payload="text"), View(payload="text", show_secrets=True))
    ]
    assert [shows(SECRET, out) for out in shown] == [False, False, True]
    assert [shows(PAYLOAD, out) for out in shown] == [False, True, True]
    assert lacking(shown[-1], [*sample.secrets, *sample.in_records]) == []


def answered(sample):
    found, _ = objects([*packets(sample.path)], b"")
    stream = TextIOWrapper(BytesIO(), "utf-8")
    for name in answerobject.FORMATS:
        answerobject.write_several([*found.values()], name, stream, Style())
    stream.flush()
    return stream.buffer.getvalue()


def live_view(sample):
    paper = replay.Paper((300, 1000))
    replay.replay(str(sample.path), paper)
    return "\n".join(line.plain for line in paper.lines).encode()


def metrics(sample):
    counted = KafkaMetrics(detail=True, brokers=True)
    for exchange in sample.exchanges:
        counted.add(exchange)
    return Exposition(lambda: exposed(counted, counted.result()), {}).text()


def listed(sample):
    store = indexed(sample.path)
    lines = [store.line(number) for number in range(store.count)]
    about = [table.about_cell(line, line["action"]) for line in lines]
    return repr((lines, about, store.seen, store.texts.all(), store.summary)).encode()


def commented(sample):
    comments = Comments()
    for exchange in sample.exchanges:
        comments.add(exchange)
    frames = {each.last_frame for one in sample.exchanges for each in (one.request, one.response) if each}
    return b"\n".join(text for frame in frames for text in comments.of(frame))


WITHOUT_BODIES = {each.__name__: each for each in (answered, live_view, metrics, listed, commented)}


@pytest.mark.parametrize("name", WITHOUT_BODIES)
def test_outputs_without_bodies(sample, name):
    out = WITHOUT_BODIES[name](sample)
    assert b"SaslAuthenticate" in out
    assert not shows(SECRET, out)
    assert not shows(PAYLOAD, out)


def test_collectors(kinspect, sample):
    collector = Collector()
    url, signals = collector.url, ",".join(SIGNALS)
    options = (
        "--show-secrets",
        "--payload",
        "text",
        "--otlp",
        url,
        "--otlp-signals",
        signals,
        "--otlp-sample",
        "1",
    )
    assert kinspect("read", sample.path, "--format", "none", *options).status == 0
    collector.close()
    assert all(collector.requests.values())
    assert not shows(SECRET, str(collector.requests).encode())
    assert not shows(PAYLOAD, str(collector.requests).encode())


@pytest.mark.parametrize("form", ["text", "json"])
def test_decode(kinspect, sample, form):
    def decode(raw, *options):
        found = kinspect("decode", raw.hex(), "--format", form, "--payload", "text", *options)
        return f"{found.out}{found.err}".encode()

    for made in sample.newest:
        for side, raw in zip((REQUEST, RESPONSE), made.raw(1), strict=True):
            told = f"--{side}", "--api", made.api_key, "--api-version", made.version
            assert not shows(SECRET, decode(raw, *told))
            assert not shows(SECRET, decode(raw, *told[: side == RESPONSE]))
            planted = re.findall(SECRET + rb"\d+", raw)
            assert lacking(decode(raw, "--show-secrets", *told), planted) == []


def test_messages_of_errors(kinspect, sample, tmp_path):
    path = tmp_path / "given"
    path.write_bytes(SECRET)
    for arguments in (
        ["read", path],
        ["summary", path],
        ["decode", "--file", path],
        ["decode", SECRET.decode()],
        ["read", sample.path, "--keylog", path],
        ["read", sample.path, "--topic-names", path],
    ):
        found = kinspect(*arguments)
        assert found.err
        assert not shows(SECRET, f"{found.out}{found.err}".encode()), arguments


def test_all_outputs_are_known():
    """What is added here is to be searched above."""
    assert {*commands()} - {*answers()} == set(
        "read live records report telemetry diff check export explore decode schema mcp pipeline completion".split()
    )
    options = {each.name for each in fields(View) if each.init}
    assert options == set("records payload show_secrets int64 fields body nulls users max_line".split())
