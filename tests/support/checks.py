"""Checks of a capture's JSON lines against its row of the manifest.

Each check gives complaints, none if all is well. The lines must have their records, payloads as text; what has to be
excused stands in `known`.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from support import known
from support.expected import expectations
from support.ledger import ledger
from support.lines import Line, body, record_sets, records_of, strings
from support.manifest import Row
from support.patterns import numbered

Complaints = Iterator[str]


def _missing(what: str, wanted: Iterable[str], seen: Iterable[str]) -> Complaints:
    absent = sorted(set(wanted) - set(seen))
    if absent:
        yield f"{what} not seen: {absent}"


def _texts(facts: dict[str, Any], one: str, many: str) -> list[str]:
    """The texts under a fact's singular and plural names, whether it is a text, a list or a dict."""
    value = facts.get(many, [])
    texts = list(value.values() if isinstance(value, dict) and one == "group" else value)
    return texts + ([facts[one]] if isinstance(facts.get(one), str) else [])


# ---------------------------------------------------------------------- names


def topics(row: Row, lines: list[Line]) -> Complaints:
    facts = row.facts
    wanted = _texts(facts, "topic", "topics")
    if isinstance(facts.get("topics"), dict) and "records_per_topic" in facts:
        wanted = list(facts["topics"].values())
    yield from _missing("topics", wanted, (t for x in lines for t in x["topics"]))


def groups(row: Row, lines: list[Line]) -> Complaints:
    wanted = _texts(row.facts, "group", "groups")
    yield from _missing("groups", wanted, (g for x in lines for g in x["groups"]))


def client_ids(row: Row, lines: list[Line]) -> Complaints:
    wanted = _texts(row.facts, "client_id", "client_ids") + row.facts.get("client_ids_failing", [])
    seen = {line["client"]["id"] for line in lines}
    yield from _missing("client ids", wanted, (c for c in seen if c is not None))
    if pattern := row.facts.get("client_id_pattern"):
        expression = re.compile(re.escape(pattern).replace("<apikey>", r"\d+").replace("<version>", r"\d+"))
        for line in lines:
            if not expression.fullmatch(line["client"]["id"] or "") and line["client"]["id"] in seen:
                key, version = line["api_key"], line["api_version"]
                if row.truth and any(
                    t["corr"] == line["correlation_id"] and t["api"] == key for t in row.truth
                ):
                    yield f"client id {line['client']['id']!r} of {key} v{version} is not {pattern}"


def transactional_ids(row: Row, lines: list[Line]) -> Complaints:
    seen = (t for line in lines for t in line["transactional_ids"])
    yield from _missing("transactional ids", row.facts.get("transactional_ids", []), seen)


def group_instance_ids(row: Row, lines: list[Line]) -> Complaints:
    wanted = set(row.facts.get("group_instance_ids", []))
    if wanted:
        yield from _missing(
            "group instance ids", wanted, (s for line in lines for s in strings(body(line, "request")))
        )


def apis(row: Row, lines: list[Line]) -> Complaints:
    yield from _missing("APIs", row.facts.get("api_keys_must_see", []), (x["api"] for x in lines if x["api"]))
    unwanted = row.facts.get("api_keys_must_not_see_for_these_groups", [])
    for line in lines:
        if line["api"] in unwanted and set(line["groups"]) & set(row.facts["groups"]):
            yield f"{line['api']} of group {line['groups']}"
    versions = row.facts.get("api", {})
    for api, version in versions.items():
        seen = {line["api_version"] for line in lines if line["api"] == api}
        if not set(version if isinstance(version, list) else [version]) <= seen:
            yield f"{api} v{version} not seen, only {sorted(seen)}"


def errors(row: Row, lines: list[Line]) -> Complaints:
    seen = {name for line in lines for name in line["error_names"]}
    yield from _missing("errors", row.facts.get("errors_expected", []), seen)
    for api, key in (("Produce", "produce_error_codes_in_order"), ("Fetch", "fetch_error_codes_in_order")):
        if key in row.facts:
            codes = [(line["error_codes"] or [0])[0] for line in lines if line["api"] == api]
            if codes != row.facts[key]:
                yield f"{api} answered {codes}, not {row.facts[key]}"


def principals(row: Row, lines: list[Line]) -> Complaints:
    wanted = set(row.facts.get("users", [])) | {row.facts[key] for key in ("user",) if key in row.facts}
    yield from _missing("principals", wanted, (line["client"]["principal"] or "" for line in lines))


# ---------------------------------------------------------------------- counts


def requests_per_api(row: Row, lines: list[Line]) -> Complaints:
    if not row.api_counts:
        return
    requests: Counter[tuple[str, int]] = Counter()
    responses: Counter[tuple[str, int]] = Counter()
    for line in lines:
        if line["kind"] == "kafka" and line["request"] is not None:
            key = (line["api"] or f"key{line['api_key']}", line["api_version"])
            # A request that is not complete and has no problem was cut by the end of its connection.
            requests[key] += line["request"]["complete"] or bool(line["problems"])
            responses[key] += line["outcome"] == "answered"
    for found, wanted, what in (
        (requests, {(c.api, c.version): c.requests for c in row.api_counts}, "requests"),
        (responses, {(c.api, c.version): c.responses for c in row.api_counts}, "responses"),
    ):
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key, 0) != wanted.get(key, 0):
                yield f"{what} of {key[0]} v{key[1]}: {found.get(key, 0)}, not {wanted.get(key, 0)}"


# ---------------------------------------------------------------------- records


def _stored(
    lines: list[Line], side: str, api: str
) -> Iterator[tuple[str, int, dict[str, Any], dict[str, Any]]]:
    for line in lines:
        if line["api"] == api and not (side == "request" and line["error_count"]):
            for record_set, batch, record in records_of(line, side):
                yield record_set.topic, record_set.partition, batch, record


def records(row: Row, lines: list[Line]) -> Complaints:
    produced = list(_stored(lines, "request", "Produce"))
    fetched = list(
        {(t, p, r["offset"]): (t, p, b, r) for t, p, b, r in _stored(lines, "response", "Fetch")}.values()
    )
    for want in [] if row.is_cut else expectations(row.facts):
        made = [entry for entry in produced if want.topics is None or entry[0] in want.topics]
        read = [entry for entry in fetched if want.topics is None or entry[0] in want.topics]
        name = ", ".join(sorted(want.topics)) if want.topics else "any topic"
        values = Counter(r["value"] for _, _, _, r in made if r["value"] is not None)
        seen = {r["value"] for _, _, _, r in read if r["value"] is not None}
        strange = sorted(v for v in values if not any(m.fullmatch(v) for m in want.matchers))
        if strange and not want.others:
            yield f"{name}: produced values no pattern explains: {strange[:3]}"
        if want.values is not None:
            absent = [v for v in want.values if v not in values and v not in seen]
            if absent:
                yield f"{name}: values neither produced nor fetched: {len(absent)} of {len(want.values)}, {absent[:3]}"
        if made and want.produced is not None and len(made) != want.produced:
            yield f"{name}: {len(made)} records produced, not {want.produced}"
        if want.consumed is not None and len(read) < want.consumed:
            yield f"{name}: {len(read)} records fetched, fewer than {want.consumed}"
        if want.codec is not None:
            codecs = {batch["compression"] for _, _, batch, _ in made}
            if made and not codecs <= want.codec:
                yield f"{name}: produced with {sorted(codecs)}, not {sorted(want.codec)}"
        if want.keys is not None:
            key_of = dict(zip(want.values or [], want.keys, strict=True))
            for _, _, _, record in made + read:
                if record["value"] in key_of and record["key"] != key_of[record["value"]]:
                    yield f"{name}: key of {record['value']!r} is {record['key']!r}, not {key_of[record['value']]!r}"
                    break
        if want.header_names is not None:
            for _, _, _, record in made + read:
                names = [header["key"] for header in record["headers"]]
                if [name for name in names if name in want.header_names] != want.header_names:
                    yield f"{name}: headers of {record['value']!r} are {names}"
                    break


def _bytes(text: str | None, encoding: str) -> bytes | None:
    return None if text is None else b64decode(text) if encoding == "base64" else text.encode()


def records_in_hex(row: Row, lines: list[Line]) -> Complaints:
    """Keys, values, headers and timestamps to the byte, once in each topic."""
    extra = {value.encode() for value in row.facts.get("extra_values", [])}
    for topic in row.facts.get("each_record_once_in", []):
        for api, side in (("Produce", "request"), ("Fetch", "response")):
            timed = api == "Produce" or topic != row.facts["log_append_time_topic"]
            wanted = sorted(repr(_hex_record(record, timed)) for record in row.facts["records_hex"])
            stored = (entry for name, _, _, entry in _stored(lines, side, api) if name == topic)
            records = [_seen_record(record, timed) for record in stored]
            seen = sorted(repr(record) for record in records if record[1] not in extra)
            if seen != wanted:
                yield f"{api} of {topic} has {seen}, not {wanted}"


def _hex_record(record: dict[str, Any], timed: bool) -> tuple[Any, ...]:
    key, value = (None if record[k] is None else bytes.fromhex(record[k]) for k in ("key", "value"))
    headers = [(name, None if v is None else bytes.fromhex(v)) for name, v in record["headers"]]
    return key, value, headers, record["timestamp_ms"] if timed else None


def _seen_record(record: dict[str, Any], timed: bool) -> tuple[Any, ...]:
    key, value = (_bytes(record[k], _encoding(record, k)) for k in ("key", "value"))
    headers = [(h["key"], _bytes(h["value"], _encoding(h, "value"))) for h in record["headers"]]
    return key, value, headers, record["timestamp_ms"] if timed else None


def _encoding(struct: dict[str, Any], key: str) -> str:
    return struct.get(f"{key}_encoding") or "utf-8"


def large_values(row: Row, lines: list[Line]) -> Complaints:
    for value in row.facts.get("values", []):
        for api, side in (("Produce", "request"), ("Fetch", "response")):
            digests = {
                (
                    batch["compression"],
                    hashlib.sha256(_bytes(record["value"], _encoding(record, "value"))).hexdigest(),
                )
                for _, _, batch, record in _stored(lines, side, api)
                if record["key"] == value["key"]
            }
            if digests != {(value["codec"], value["sha256"])}:
                yield f"{api}: value of {value['key']} is {digests}"


def compacted_offsets(row: Row, lines: list[Line]) -> Complaints:
    """Offsets left by compaction inside compressed wrappers, as the client saw them."""
    wanted = row.facts.get("offsets_seen_by_kafka_python")
    if wanted is not None:
        fetched = sorted({record["offset"] for _, _, _, record in _stored(lines, "response", "Fetch")})
        if fetched != wanted:
            yield f"offsets {fetched}, not {wanted}"


def append_times(row: Row, lines: list[Line]) -> Complaints:
    """The timestamp type of each topic's batches as fetched in message format v1 or later."""
    for topic, facts in _described_topics(row.facts):
        if "timestamp_type" not in facts:
            continue
        kinds = {
            batch["timestamp_type"]
            for line in lines
            if line["api"] == "Fetch"
            for record_set in record_sets(body(line, "response"))
            if record_set.topic == topic
            for batch in record_set.batches
            if batch["magic"] > 0
        }
        if kinds and kinds != {facts["timestamp_type"]}:
            yield f"{topic}: timestamp types {kinds}"


def _described_topics(facts: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    described = facts.get("topics")
    return (
        [(t, v) for t, v in described.items() if isinstance(v, dict)] if isinstance(described, dict) else []
    )


# ---------------------------------------------------------------------- what was sent


def mentions(row: Row, lines: list[Line]) -> Complaints:
    """Texts that stand somewhere in a body."""
    facts = row.facts
    wanted = [
        facts[key]
        for key in ("mechanism", "offset_metadata", "commit_metadata", "cluster_id")
        if key in facts
    ]
    wanted += facts.get("acl_principals", []) + facts.get("assignors", [])
    wanted += [text for pair in facts.get("topic_configs", {}).items() for text in pair]
    wanted += [facts["owner"].removeprefix("User:")] if "owner" in facts else []
    wanted += [facts["principal"]] if "principal" in facts else []
    if wanted:
        sides = (body(line, side) for line in lines for side in ("request", "response"))
        yield from _missing("texts", wanted, (text for side in sides for text in strings(side)))


def acks(row: Row, lines: list[Line]) -> Complaints:
    wanted = row.facts.get("acks")
    seen = {body(line, "request")["acks"] for line in lines if line["api"] == "Produce"}
    if wanted is not None and seen != {wanted}:
        yield f"acks {seen}, not {wanted}"
    for topic, told in _described_topics(row.facts):
        produced = [line for line in lines if line["api"] == "Produce" and topic in line["topics"]]
        if "acks" in told and {body(line, "request")["acks"] for line in produced} != {told["acks"]}:
            yield f"{topic}: acks is not {told['acks']} everywhere"


def commits(row: Row, lines: list[Line]) -> Complaints:
    """Last committed offsets of the group: of one partition, or the sum of the topic's."""
    facts = row.facts
    keys = ("total_committed", "final_committed_offset", "committed_offset_of_input", "committed_offset")
    told = [facts[key] for key in keys if facts.get(key) is not None]
    if not told:
        return
    topic = facts.get("input_topic", facts.get("topic"))
    last = {
        f"p{partition['partition_index']}": partition["committed_offset"]
        for line in lines
        if line["api"] in {"OffsetCommit", "TxnOffsetCommit"}
        for entry in body(line, "request")["topics"]
        if entry["name"] == topic
        for partition in entry["partitions"]
    }
    for wanted in told:
        if not (last.items() >= wanted.items() if isinstance(wanted, dict) else sum(last.values()) == wanted):
            yield f"committed {last}, not {wanted}"


def ended_transactions(row: Row, lines: list[Line]) -> Complaints:
    ended = Counter(body(line, "request")["committed"] for line in lines if line["api"] == "EndTxn")
    for key, committed in (("committed_txns", True), ("aborted_txns", False)):
        if key in row.facts and ended[committed] != row.facts[key]:
            yield f"{key}: {ended[committed]}, not {row.facts[key]}"


def correlation_ids(row: Row, lines: list[Line]) -> Complaints:
    wanted = set(row.facts.get("correlation_ids", []))
    absent = sorted(wanted - {line["correlation_id"] for line in lines})
    if absent:
        yield f"correlation ids not seen: {absent}"


def partial_batches(row: Row, lines: list[Line]) -> Complaints:
    """A small fetch size cuts the last message off, which is no problem."""
    if "fetch_max_bytes" in row.facts:
        texts = [str(body(line, "response")) for line in lines if line["api"] == "Fetch"]
        if not any(re.search(r"'partial_bytes': [1-9]", text) for text in texts):
            yield "no batch is cut off"


def offset_for_time(row: Row, lines: list[Line]) -> Complaints:
    for key, wanted in row.facts.items():
        if key.startswith("offset_for_time_"):
            time = int(key.rsplit("_", 1)[1])
            found = [
                partition["offset"]
                for line in lines
                if line["api"] == "ListOffsets" and f"'timestamp': {time}" in str(body(line, "request"))
                for topic in body(line, "response")["topics"]
                for partition in topic["partitions"]
            ]
            if wanted not in found:
                yield f"offset for time {time}: {found}, not {wanted}"


def fetch_errors(row: Row, lines: list[Line]) -> Complaints:
    wanted = row.facts.get("fetch_error")
    if wanted is not None and not any(
        line["api"] == "Fetch" and wanted in line["error_codes"] for line in lines
    ):
        yield f"no Fetch was answered with error {wanted}"


TIMESTAMPS = {"1500000000000+i": 1, "1500000000000+1000*i": 1000}
HEADERS: dict[str, Callable[[int], list[tuple[str, str | None]]]] = {
    "h-<i>: hv-<i>": lambda i: [(f"h-{i}", f"hv-{i}")],
    "seq: <i>": lambda i: [("seq", str(i))],
    'seq=<i>; if i even also dup="a", dup=null': lambda i: (
        [("seq", str(i))] + [("dup", "a"), ("dup", None)] * (i % 2 == 0)
    ),
}


def timestamps_and_headers(row: Row, lines: list[Line]) -> Complaints:
    """Record number i, known by its value, has the timestamp and the headers of its rule."""
    step = TIMESTAMPS.get(row.facts.get("timestamps") or "")
    rule = HEADERS.get(row.facts["headers"]) if isinstance(row.facts.get("headers"), str) else None
    if step is None and rule is None:
        return
    number = {numbered(row.facts["value_pattern"], i): i for i in range(row.facts["records"])}
    for topic, _, batch, record in _stored(lines, "request", "Produce"):
        i = number.get(record["value"])
        if i is None or topic != row.facts["topic"]:
            continue
        if step is not None and batch["magic"] > 0 and record["timestamp_ms"] != 1_500_000_000_000 + step * i:
            yield f"timestamp of {record['value']!r} is {record['timestamp_ms']}"
        headers = [(header["key"], header["value"]) for header in record["headers"]]
        if rule is not None and batch["magic"] > 1 and headers != rule(i):
            yield f"headers of {record['value']!r} are {headers}"


def records_per_produce(row: Row, lines: list[Line]) -> Complaints:
    wanted = row.facts.get("records_per_produce")
    if wanted is not None and "0:0" in row.facts["pairs"].split():
        counts = {line["record_count"] for line in lines if line["api"] == "Produce"}
        if min(counts) != wanted:
            yield f"records in one Produce: {counts}, not {wanted}"


# ---------------------------------------------------------------------- truth


def truth(row: Row, lines: list[Line]) -> Complaints:
    """Kafka's own reading of each request and response; record bytes are left out there."""
    # A request without the client's port has a correlation id of its own in the whole capture.
    by_id = {
        (line["api_key"], line["correlation_id"], port): line
        for line in lines
        for port in (None, line["client"]["port"])
    }
    for told in row.truth or []:
        name = f"{told['name']} v{told['version']} #{told['corr']}"
        line = by_id.get((told["api"], told["corr"], told.get("port")))
        if line is None:
            yield f"{name}: no exchange"
            continue
        if line["client"]["id"] != told["client_id"]:
            yield f"{name}: client id {line['client']['id']}"
        for side, key in (("request", "req"), ("response", "resp")):
            if told[key] is None:
                if body(line, side) is not None:
                    yield f"{name}: {side} not expected"
            else:
                yield from _differences(f"{name} {side}", told[key], body(line, side))


RENAMED = {"generation_id": "generation_id_or_member_epoch"}
"""Fields that Kafka has renamed since; bodies have today's names."""


def snake_case(name: str) -> str:
    """Kafka's lowerCamelCase field name as bodies have it."""
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def _differences(path: str, told: Any, seen: Any) -> Complaints:
    if isinstance(told, dict):
        if not isinstance(seen, dict):
            yield f"{path}: {seen!r}, not {told!r}"
            return
        for key, value in told.items():
            name = snake_case(key)
            if name not in seen:
                name = RENAMED.get(name, name)
            if name not in seen:
                yield f"{path}.{name}: missing"
            elif seen[name] is None and f"{name}_size" in seen:
                continue  # a secret, left out
            else:
                yield from _differences(f"{path}.{name}", value, seen[name])
    elif isinstance(told, list):
        if not isinstance(seen, list) or len(seen) != len(told):
            yield f"{path}: {seen!r}, not {told!r}"
            return
        for index, (one, other) in enumerate(zip(told, seen, strict=True)):
            yield from _differences(f"{path}[{index}]", one, other)
    elif isinstance(seen, dict) and "batches" in seen:
        return
    elif told != seen or type(told) is not type(seen):
        yield f"{path}: {seen!r}, not {told!r}"


# ---------------------------------------------------------------------- what holds for every line


HOLD_RECORDS = {
    "Produce": "request",
    "Fetch": "response",
    "ShareFetch": "response",
    "FetchSnapshot": "response",
}
"""The side that holds records, by API."""


def _records_in(line: Line, batches: list[Line]) -> int | None:
    """The records of a line's batches; None where what holds them, or may, is not all there."""
    if line["api"] is None:
        return 0 if line["kind"] == "sasl_token" else None
    holder = line[HOLD_RECORDS[line["api"]]] if line["api"] in HOLD_RECORDS else None
    if line["api"] in HOLD_RECORDS and (holder is None or not holder["complete"]):
        return None
    return sum(batch["count"] or 0 for batch in batches)


def consistency(row: Row, lines: list[Line]) -> Complaints:
    """Lines agree with themselves."""
    for line in lines:
        batches = [
            batch
            for side in ("request", "response")
            for record_set in record_sets(body(line, side))
            for batch in record_set.batches
        ]
        errors = len((line["response"] or {}).get("errors", []))
        for what, told, counted in (
            ("record_count", line["record_count"], _records_in(line, batches)),
            (
                "records",
                sum(batch["count"] or 0 for batch in batches),
                sum(len(b["records"]) for b in batches),
            ),
            ("problem_count", line["problem_count"], len(line["problems"])),
            ("errors", errors if line["error_count"] is None else min(line["error_count"], 100), errors),
            (
                "crc_ok",
                all(b["crc_ok"] for b in batches),
                all(p["code"] != "crc_mismatch" for p in line["problems"]),
            ),
            ("error names", len(line["error_names"]), len(line["error_codes"])),
        ):
            if told != counted:
                yield f"{_name(line)}: {what} {told}, but {counted}"
        if line["outcome"] == "answered" and (
            line["service_ms"] is not None
            and (line["latency_ms"] is None or line["service_ms"] > line["latency_ms"])
        ):
            yield f"{_name(line)}: latency {line['latency_ms']}, service {line['service_ms']}"


# ---------------------------------------------------------------------- problems and outcomes


def problems(row: Row, lines: list[Line]) -> Complaints:
    for line in lines:
        for problem in line["problems"]:
            if not known.explains_problem(row, line, problem):
                yield f"{_name(line)}: {problem}"


def completeness(row: Row, lines: list[Line]) -> Complaints:
    """Answered exchanges are decoded whole, unless a problem explains it."""
    for line in lines:
        for side in ("request", "response"):
            message = line[side]
            if row.is_cut:
                yield from _cut_short(line, side)
            elif line["outcome"] == "answered" and line["kind"] == "kafka" and not line["problems"]:
                if message["body"] is None or not message["complete"]:
                    yield f"{_name(line)}: {side} is not complete"
                elif message["layout"] is not None:
                    yield f"{_name(line)}: {side} read by the layout {message['layout']}"


def _cut_short(line: Line, side: str) -> Complaints:
    """A message that the snap length cut says so, and how much is missing at its end; another does not."""
    message = line[side]
    missing = [
        problem["offset"] + problem["bytes"]
        for problem in line["problems"]
        if problem["side"] == side and problem["code"] == "truncated_capture"
    ]
    if message is not None and missing != ([] if message["complete"] else [message["size"]]):
        yield f"{_name(line)}: {side} of {message['size']} bytes, complete {message['complete']}, cut to {missing}"


def outcomes(row: Row, lines: list[Line]) -> Complaints:
    for line in lines:
        outcome, reason = line["outcome"], line["outcome_reason"]
        if outcome == "orphan" and known.short_name(row) not in known.ORPHANS:
            yield f"orphan: {line['connection_id']} at {line['timestamp']}"
        elif outcome == "unanswered" and reason not in known.UNANSWERED:
            yield f"{_name(line)}: unanswered, {reason}"
        elif outcome == "no_response" and (line["api"] != "Produce" or body(line, "request")["acks"] != 0):
            yield f"{_name(line)}: no response expected"
    if row.facts.get("produce_requests_without_response", "").startswith("all"):
        answered = [
            _name(line) for line in lines if line["api"] == "Produce" and line["outcome"] != "no_response"
        ]
        if answered:
            yield f"answered with acks=0: {answered}"


def ports(row: Row, lines: list[Line]) -> Complaints:
    """The broker is the listening side."""
    listening = {int(port) for port in re.findall(r"\d+", row.ports)}
    strange = {line["broker"]["port"] for line in lines if line["outcome"] != "orphan"} - listening
    if strange:
        yield f"brokers at {sorted(strange)}, not {sorted(listening)}"


def _name(line: Line) -> str:
    return f"{line['api']} v{line['api_version']} #{line['correlation_id']} of {line['connection_id']}"


CHECKS: tuple[Callable[[Row, list[Line]], Complaints], ...] = (
    topics,
    groups,
    client_ids,
    transactional_ids,
    group_instance_ids,
    apis,
    errors,
    principals,
    requests_per_api,
    records,
    records_in_hex,
    large_values,
    compacted_offsets,
    append_times,
    mentions,
    acks,
    commits,
    ended_transactions,
    correlation_ids,
    partial_batches,
    offset_for_time,
    fetch_errors,
    timestamps_and_headers,
    records_per_produce,
    ledger,
    truth,
    consistency,
    problems,
    completeness,
    outcomes,
    ports,
)


def complaints(row: Row, lines: list[Line]) -> list[str]:
    """Everything that is not as the row says, each with the name of its check."""
    return [f"{check.__name__}: {complaint}" for check in CHECKS for complaint in check(row, lines)]


# ---------------------------------------------------------------------- secrets


def disguises(secret: str) -> set[str]:
    """A secret as it might stand in an output: as it is, in hexadecimal, in base64 at any of the three alignments."""
    plain = secret.encode()
    found = {secret, plain.hex()}
    if re.fullmatch(r"[A-Za-z0-9+/]{40,}={1,2}", secret):
        found.add(b64decode(secret).hex())
    for shift in range(3):
        # Characters that also hold bits of a neighbour are cut off at either end.
        text = b64encode(b"\0" * shift + plain).decode().rstrip("=")
        found.add(text[(shift * 8 + 5) // 6 : len(text) if (shift + len(plain)) % 3 == 0 else -1])
    return found
