"""Answers as tables: columns, and the rows of an answer as rows of its table.

A column is a key of the answer's rows, see docs/answers.md. Objects with fixed keys are structs, others are maps.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from kinspect.analysis.answer import Row
from kinspect.model import NS_PER_SECOND, NS_PER_US
from kinspect.output.answers import SCHEMA_VERSION
from kinspect.tables.arrowcolumns import COMMENTS, DATE, RUN, ColumnTypes, define_kind, parse_columns
from kinspect.tables.tablenames import answer_table

PLACE = "place"
_NS = "_ns"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

define_kind("api_use", "requests long, versions counts, errors counts, per_second double")
define_kind("storm", "api text, per_second double, threshold double, addresses long, at time")
define_kind(
    "member",
    """member_id text, instance_id text, client_id text, client_ip text, joined time, left time, left_how text,
    left_reason text, partitions texts""",
)
define_kind(
    "rebalance",
    """generation long, started time, ended time, trigger text, by text, reason text, members long, cooperative bool,
    stopped_ms double_map, unowned_ms double_map, assigned texts_map, revoked texts_map""",
)
define_kind(
    "commit",
    """offset long, at time, by text, high_watermark long, lag long, fetched long, fetched_lag long, lag_at_begin long,
    lag_at_end long, progress long""",
)
define_kind("quantiles", "p50 double, p95 double, p99 double, max double")
define_kind(
    "waits", "broker long, long_poll long, group_wait long, queued long, throttled long, retransmitted long"
)
define_kind("controller", "node_id int, at time, known_by text")
define_kind("leader_change", "at time, partition text, from int, to int, epoch int")
define_kind(
    "transaction",
    """began time, ended time, duration_ms double, outcome text, fenced_by text, epoch int, partitions texts,
    records long, bytes long, groups texts""",
)
define_kind("broken_api", "api text, used ints, supported ints, requests long, negotiates bool")
define_kind("conversion", "api text, version int, format int, requests long, release text")

_COLUMNS = {
    "summary": """
        finding text: Name of what was found
        severity text: error, warning or note
        count long: How many there are
        text text: The first few by name, and how many more there are
        command text: The command that shows them
    """,
    "topics": """
        topic text: The name, or the id if no message tells its name
        topic_id text
        direction text: produce, consume or replicate
        client_id text
        client_ip text
        software_name text
        software_version text
        principal text: User name that the client logged in as
        groups texts: Groups that the same client id and address are in
        transactional_ids texts
        partitions long: How many of the topic's partitions it used
        requests long: Requests that named the topic, or stood for it in a fetch session
        batches long: Batches on the wire, refused and repeated ones too
        records long: Records of these batches
        delivered long: Records that a consumer was given
        bytes long: Bytes of these batches
        codecs counts: Batches by compression
        acks counts: Requests by acks, of producers
        errors counts: Error codes of answers for the topic, by name
        first time: When the first request began
        last time: When the last request began
        incomplete long: Requests and answers that could not be read to their end
    """,
    "clients": """
        client_id text
        client_ip text
        connections long: Connections that it sent or received on
        role text: The strongest of its roles
        principal text: User name that the client last logged in as
        sasl_mechanisms texts: Mechanisms that it asked for
        tls bool: Whether a connection was TLS that was decrypted
        software_name text: As the client named itself
        software_version text
        software_inferred text: A guess, of a client that names nothing
        requests long
        bytes_sent long
        bytes_received long
        apis api_use_map: By API: requests, versions, errors, requests a second
        storms storms: APIs that are sent far too often
        resets long: Connections that a reset ended
        first time: When the first request began
        last time: When the last request began
    """,
    "groups": """
        group text
        kind text: classic, consumer, share or streams
        protocol text: Assignor or protocol last chosen
        coordinator text: Address of the broker
        members members: In the order in which they joined
        rebalances rebalances: In their order
        topics texts: Topics that its messages are about
        committed commit_map: Last commits by partition
        errors counts: Error codes of answers about the group, by name
    """,
    "latency": """
        api text
        count long: Exchanges
        service_ms quantiles: Of the answered ones, from the response before where that came later
        latency_ms quantiles: Of the answered ones, from last byte of the request to first byte of the response
        waits waits: Answered ones by the cause of their wait
        slow long: Answered ones that took a second or longer, but for long polls and waits for members
        slowest frames: The request with the greatest service_ms
    """,
    "errors": """
        api text
        error text: Name of the code, or UNANSWERED
        code int
        retriable bool: Whether clients of today retry
        expected bool: Whether every occurrence is part of normal operation here; null if it may pass yet
        expected_reasons counts: Expected occurrences by the reason
        client_id text
        client_ip text
        count long: How often the code occurs
        first time: When the first exchange with it began
        last time: When the last exchange with it began
        topics texts
        groups texts
        principals texts: Users as which the client had logged in
        transactional_ids texts
        meaning text
        advice text: What to do
    """,
    "brokers": """
        node_id int
        address text: IP address and port
        advertised text: Host and port as answers name them
        rack text
        cluster_id text
        mode text: kraft or zookeeper
        releases texts: Releases that its ApiVersions answer fits
        controller controller: Controller of its cluster, and how it is known
        leads texts: Partitions that it leads
        leader_changes leader_changes: Of partitions that it won or lost
        requests long
        errors counts: Error codes of its answers, by name
    """,
    "auth": """
        client_id text
        client_ip text
        principal text: User name that its tokens show
        mechanism text: Mechanism that it asked for
        succeeded long: Logins
        failed long: Logins that the broker refused
        probably_failed long: Raw tokens on which the broker closed the connection
        reasons counts: Reasons of those that failed
        tls bool: Whether the connection was TLS that was decrypted
        first time: When the first of its tokens began
        last time: When the last of its tokens began
    """,
    "transactions": """
        transactional_id text
        client_id text
        producer_id long
        epochs ints: Producer epochs
        transactions transactions: In the order of their beginnings
        errors counts: Error codes of answers about the id, by name
    """,
    "upgrade": """
        client_id text
        client_ip text
        software_name text
        software_version text
        to text: The release
        verdict text: breaks, unknown or ok
        breaks broken_apis: APIs and versions that the release does not have
        down_conversion conversions: Record formats that the release converts or refuses
        requests long
    """,
}
"""Columns of each answer's table: name, kind, and a comment if the name does not say it all."""


_COMMENTS = {
    PLACE: "Sorts rows in the order of the answer",
    DATE: "Date (UTC) of the run's first packet",
    "schema_version": "Version of the answer's object",
}


class AnswerTable(NamedTuple):
    """Table of an answer: its name, its columns, and comments by column."""

    name: str
    schema: pa.Schema
    comments: dict[str, str]

    def rows(self, rows: list[Row], run_id: str, capture_point: str | None, day: date | None) -> pa.Table:
        """The answer's rows as rows of the table, with the date `day`."""
        run = {"run_id": run_id, "capture_point": capture_point, "schema_version": SCHEMA_VERSION, DATE: day}
        made = [_struct({**row, PLACE: place, **run}, self.schema) for place, row in enumerate(rows)]
        return pa.Table.from_pylist(made, self.schema)


def table_of(answer: str) -> AnswerTable:
    """The table of an answer, by the answer's name."""
    columns: ColumnTypes = []
    comments = {**COMMENTS, **_COMMENTS}
    for line in _COLUMNS[answer].strip().splitlines():
        column, _, comment = line.partition(": ")
        for name, kind in parse_columns(column):
            columns.append((name, kind))
            if pa.types.is_timestamp(kind):
                comments[name] = f"{name}_ns in microseconds"
            elif comment:
                comments[name] = f"{comment}, nanoseconds since the epoch" if name.endswith(_NS) else comment
    return AnswerTable(answer_table(answer), pa.schema([*columns, (PLACE, pa.int32()), *RUN[:-1]]), comments)


def _struct(row: Row, fields: Iterable[pa.Field]) -> Row:
    return {field.name: _value(row[field.name.removesuffix(_NS)], field) for field in fields}


def _value(value: Any, field: pa.Field) -> Any:
    """A value of a row as the column's type has it."""
    kind = field.type
    if value is None:
        return None
    if field.name.endswith(_NS):
        return _nanoseconds(value)
    if pa.types.is_timestamp(kind):
        return _nanoseconds(value) // NS_PER_US
    if pa.types.is_struct(kind):
        return _struct(value, kind)
    if pa.types.is_list(kind):
        return [_value(each, kind.value_field) for each in value]
    if pa.types.is_map(kind):
        return [(key, _value(each, kind.item_field)) for key, each in value.items()]
    return value


def _nanoseconds(time: str) -> int:
    """Nanoseconds since the epoch of a time that `iso_time` wrote."""
    seconds, fraction = time.removesuffix("Z").split(".")
    return (datetime.fromisoformat(f"{seconds}Z") - _EPOCH) // timedelta(seconds=1) * NS_PER_SECOND + int(
        fraction
    )
