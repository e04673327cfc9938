"""Error codes by API and client, expected ones apart, with what they mean and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kinspect.analysis.answer import Answer, ResultContext, Row, Topic, topics_of
from kinspect.analysis.bursts import Bursts
from kinspect.analysis.client import client_key
from kinspect.analysis.expected import (
    EARLIER,
    EXPECTED,
    ErrorFlow,
    Expectation,
    RunEdge,
    Successes,
    flow_of,
    hangs_on_role,
    may_appear,
    may_have_waited,
    may_pass,
    stays_unheard,
    unanswered_reason,
)
from kinspect.analysis.record import Record, TimedRecord
from kinspect.analysis.rowkeys import (
    BY,
    NO_PARTITION,
    PARTITION,
    PLACES,
    keys,
    keys_of,
    named,
    names_of,
    partition_of,
    topic_of,
)
from kinspect.answers.celltexts import (
    DIM,
    ERROR,
    MINUTE,
    TIME_OF_DAY,
    UNKNOWN,
    counted,
    known,
    listed,
    plain,
    where,
)
from kinspect.answers.definition import Definition, Key, OwnOption
from kinspect.kafka.bodysummary import error_counts, succeeded
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.pair import UNANSWERED as NO_ANSWER
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import METADATA
from kinspect.protocol.fieldpaths import along

BY_NAMES = tuple(name for name in BY if name != "api")
"""The names of `--by`: rows are by API and code too."""
UNANSWERED = "UNANSWERED"
"""Name, in place of an error code's, of a request without an answer."""
SUCCESSES_KEPT = 100_000
"""Largest number of clients' APIs, and of topics, of which it is known when they succeeded."""
TOPICS_NOTED = 100
"""Answers to Metadata with more topics do not count as proof that a topic is there."""
UNHEARD = "unheard"
REASONS = {
    **EXPECTED,
    UNHEARD: "it was sent again, and then the capture ends",
    "closed": "the connection was closed",
    "reset": "the connection was reset",
    "idle": "the connection fell silent",
    "cap": "a limit of kinspect was reached",
}
NO_ADVICE = "Nothing is to be done, but to capture longer or with less loss."
ONE_SIDED_ADVICE = "Nothing is to be done, but to capture both directions."
LEFT_ADVICE = "Nothing is to be done if a client or broker was stopped then."
UNHEARD_ADVICE = (
    "What is sent again and again is lost on its way: kinspect connect says what is known of that."
)
CLOSED_ADVICE = (
    "Find who closed or went silent: the broker's log may say why; compare request.timeout.ms of the client."
)

FLOW = len(ErrorFlow._fields)


@dataclass(slots=True)
class _Fault(TimedRecord):
    """One error code, or requests without an answer, of one API, client and broker. `expected`: occurrences by the
    reason why each is part of normal operation; `unknown`: those that cannot be judged; `bursts`: those that are if
    they passed."""

    count: int = 0
    unknown: int = 0
    expected: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    topics: set[Topic] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    principals: set[str] = field(default_factory=set)
    transactional_ids: set[str] = field(default_factory=set)
    bursts: Bursts = field(default_factory=Bursts)


@dataclass(slots=True)
class _Success(Record):
    """When something succeeded."""

    times: Bursts = field(default_factory=Bursts)


class Errors(Answer):
    """Accumulator of the rows. `by`: names of `--by`, separated by commas. Raises KinspectError."""

    # What succeeds shows which codes passed, and the options on errors leave it out.
    exempt_apis: ClassVar[Mapping[str, frozenset[int]]] = dict.fromkeys(
        ("--errors-only", "--error"), frozenset(schema.api_names())
    )
    row_keys: ClassVar[Mapping[str, tuple[str, ...]]] = {"--error": ("error", "code")}

    def __init__(self, by: str | None = None) -> None:
        super().__init__()
        self._by = names_of(by, "client", BY_NAMES)
        self._faults = self.records(_Fault)
        self._flows = self.records(_Success, SUCCESSES_KEPT)
        self._topics = self.records(_Success, SUCCESSES_KEPT)
        self._expectation = Expectation()

    def names(self, row: Row, option: str) -> list[str]:
        # A pattern of codes takes in no request without an answer.
        return [] if row["code"] is None else super().names(row, option)

    def add(self, exchange: Exchange) -> None:
        self._expectation.note(exchange)
        if exchange.outcome == NO_ANSWER:
            self._add_unanswered(exchange)
            return
        if exchange.is_uncertain:
            # What it says may be the answer to another API.
            return
        codes = error_counts(exchange)
        if codes:
            for code, times in codes.items():
                self._add_code(exchange, code, times)
        elif succeeded(exchange):
            self._note(self._flows.of(exchange.api_key, client_key(exchange)), exchange.timestamp)
        if exchange.api_key == METADATA:
            self._note_topics(exchange)

    def _add_unanswered(self, exchange: Exchange) -> None:
        expected, unheard = unanswered_reason(exchange), stays_unheard(exchange)
        for fault in self._faults_of(exchange, None, 1):
            self.count(fault.reasons, UNHEARD if unheard else exchange.outcome_reason or "")
            if expected is not None:
                self.count(fault.expected, expected)
            elif unheard or may_have_waited(exchange):
                fault.unknown += 1

    def _add_code(self, exchange: Exchange, code: int, times: int) -> None:
        expected = self._expectation.reason(exchange, code)
        passes = not expected and may_pass(exchange, code)
        appears = passes and may_appear(exchange.api_key, code)
        for topic, partition, count in self._places(exchange, code, times, appears):
            for fault in self._faults_of(exchange, code, count, topic, partition, appears):
                if isinstance(expected, str):
                    self.count(fault.expected, expected, count)
                elif passes:
                    self._burst(fault.bursts, exchange.timestamp, count)
                elif expected is None or hangs_on_role(exchange, code):
                    fault.unknown += count

    def _places(
        self, exchange: Exchange, code: int, times: int, by_topic: bool
    ) -> Iterable[tuple[str | None, str | None, int]]:
        """The topics and partitions in whose part of the answer a code stands, as far as rows need them, each with the
        number of times."""
        summary = exchange.summary
        topics: dict[str, int] = {}
        if by_topic or not PLACES.isdisjoint(self._by):
            topics = {**summary.error_topics.get(code, {})}
        for partition, count in (
            summary.error_partitions.get(code, {}).items() if PARTITION in self._by else ()
        ):
            topic = partition.rpartition("-")[0]
            topics[topic] -= count
            times -= count
            yield topic, partition, count
        for topic, count in topics.items():
            if count:
                times -= count
                yield topic, None, count
        if times:
            yield None, None, times

    def _faults_of(
        self,
        exchange: Exchange,
        code: int | None,
        times: int,
        topic: str | None = None,
        partition: str | None = None,
        appears: bool = False,
    ) -> Iterable[_Fault]:
        """The records of so many occurrences, counted there. `appears`: the topic may be there later."""
        summary = exchange.summary
        nameless = summary.unresolved_topic_ids
        place = None
        named = [topic] if topic is not None else summary.error_topics.get(code or 0)
        topics = [topic_of(name, nameless) for name in named] if named else topics_of(exchange)
        if topic is not None:
            place = topics[0], partition_of(partition, nameless) if partition else NO_PARTITION
        flow = flow_of(exchange, code, topic if appears else None)
        groups = summary.groups if code is None else _groups(exchange, code)
        for key in keys_of(self._by, exchange, place):
            fault = self._faults.of(exchange.api, *flow, *key)
            if fault is None:
                continue
            fault.count += times
            fault.note_time(exchange.timestamp)
            for each in topics:
                self.keep(fault.topics, each)
            for name in groups:
                self.keep(fault.groups, name)
            for name in summary.transactional_ids:
                self.keep(fault.transactional_ids, name)
            self.keep(fault.principals, exchange.principal)
            yield fault

    def _note_topics(self, exchange: Exchange) -> None:
        """Note the topics that a Metadata answer knows."""
        summary = exchange.summary
        if len(summary.topics) <= TOPICS_NOTED:
            wrong = {topic for topics in summary.error_topics.values() for topic in topics}
            for topic in summary.topics:
                if topic not in wrong:
                    self._note(self._topics.of(topic), exchange.timestamp)

    def _note(self, success: _Success | None, time: int | None) -> None:
        if success is not None:
            self._burst(success.times, time, 1)

    def _burst(self, bursts: Bursts, time: int | None, count: int) -> None:
        """Count a moment, if there is room for a burst of its own."""
        if time is not None and (bursts.joins(time) or self._has_room()):
            bursts.add(time, count)

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        successes = Successes(
            {key: success.times for key, success in self._flows.items()},
            {topic: success.times for (topic,), success in self._topics.items()},
            RunEdge(context.begin, "--since" in context.options),
            RunEdge(context.end, "--until" in context.options),
            not (context.lossy or context.chosen),
        )
        faults = [
            (api, ErrorFlow(*values[:FLOW]), named(self._by, values[FLOW:], context), fault)
            for (api, *values), fault in self._faults.items()
        ]
        flows: dict[ErrorFlow, Bursts] = {}
        for _, flow, _, fault in faults:
            flows.setdefault(flow, Bursts()).merge(fault.bursts)
        rows: dict[tuple[Any, ...], tuple[_Fault, Counter[str | bool | None]]] = {}
        for api, flow, key, fault in faults:
            row, verdicts = rows.setdefault((api, flow.api_key, flow.code, key), (_Fault(), Counter()))
            row.merge(fault)
            if context.begun:
                # A Fetch may have succeeded before.
                row.unknown += row.expected.pop(EARLIER, 0)
            for burst in fault.bursts:
                verdicts[successes.passed(flow, flows[flow].around(burst))] += burst.times
        found = [
            _row(api, api_key, code, keys(self._by, key), fault, verdicts, context)
            for (api, api_key, code, key), (fault, verdicts) in rows.items()
        ]
        return sorted(found, key=_place)


def _groups(exchange: Exchange, code: int) -> Iterable[str]:
    """The groups that an error code is about: of several those in whose part of the response it stands."""
    groups = exchange.summary.groups
    if len(groups) <= 1 or exchange.response is None:
        return groups
    body = exchange.response.facts().body or {}
    paths = [error["path"] for error in exchange.summary.errors if error["code"] == code]
    structs = [struct for path in paths for struct in along(body, path) if isinstance(struct, dict)]
    named = [struct.get(name) for struct in structs for name in ("group_id", "key")]
    return [group for group in groups if group in named] or groups


def _row(
    api: str | None,
    api_key: int | None,
    code: int | None,
    own: Row,
    fault: _Fault,
    verdicts: Mapping[str | bool | None, int],
    context: ResultContext,
) -> Row:
    """`own`: the keys that rows are apart by.
    `verdicts`: occurrences by the reason why they are expected as they passed; None: unknown."""
    passed = {reason: count for reason, count in verdicts.items() if isinstance(reason, str)}
    reasons = {**fault.expected, **passed}
    expected = sum(reasons.values())
    meaning, advice = _unanswered(fault, reasons) if code is None else schema.advice_for(code, api_key)[:2]
    return {
        "api": api,
        "error": UNANSWERED if code is None else schema.error_name(code, api_key),
        "code": code,
        "retriable": None if code is None else schema.error_retriable(code, api_key),
        "expected": _is_expected(fault.count, expected, fault.unknown + verdicts.get(None, 0)),
        "expected_reasons": dict(sorted(reasons.items())),
        **own,
        "count": fault.count,
        **fault.times,
        "topics": sorted({context.topic_name(topic) or "" for topic in fault.topics}),
        "groups": sorted(fault.groups),
        "principals": sorted(fault.principals),
        "transactional_ids": sorted(fault.transactional_ids),
        "meaning": meaning,
        "advice": advice,
    }


def _is_expected(count: int, expected: int, open_ones: int) -> bool | None:
    """`open_ones`: occurrences that cannot be judged."""
    if expected >= count:
        return True
    return None if expected + open_ones >= count else False


def _unanswered(fault: _Fault, expected: dict[str, int]) -> tuple[str, str]:
    """Meaning and advice of requests without an answer. `expected`: those that are, by the reason."""
    if sum(expected.values()) >= fault.count:
        reasons, advice = expected, NO_ADVICE if fault.reasons.keys() <= EXPECTED.keys() else LEFT_ADVICE
        if fault.reasons.keys() == {"one_sided"}:
            advice = ONE_SIDED_ADVICE
    else:
        reasons, advice = (
            {REASONS.get(reason, reason): count for reason, count in fault.reasons.items()},
            UNHEARD_ADVICE if fault.reasons.keys() == {UNHEARD} else CLOSED_ADVICE,
        )
    names = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
    return f"No answer was seen: {', '.join(names)}.", advice


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: minutes in theirs; then unexpected ones first, and the most frequent."""
    own = [str(row[key] or "") for name in BY for key in BY[name].keys if key in row]
    return row.get("minute") or "", bool(row["expected"]), -row["count"], row["error"], *own


NAMES, WORDS = 28, 12
"""Widths to which names of errors, and those of APIs and clients, are not cut."""
LISTS = "topics", "groups", "principals", "transactional_ids"


def _gathered(rows: list[Row]) -> list[Row]:
    """Of expected errors one row for each API and error, whoever got them."""
    found: dict[Any, list[Row]] = {}
    for number, row in enumerate(rows):
        alike = (
            row["expected"]
            and "client_id" in row
            and (row["api"], row["error"], row["meaning"], row.get("minute"))
        )
        found.setdefault(alike or number, []).append(row)
    return sorted(
        [alike[0] if len(alike) == 1 else _one(alike) for alike in found.values()], key=_shown_place
    )


def _shown_place(row: Row) -> tuple[Any, ...]:
    return row.get("minute") or "", bool(row["expected"]), -row["count"]


def _one(rows: list[Row]) -> Row:
    texts = {key: sorted({text for row in rows for text in row[key]}) for key in LISTS}
    return {
        **rows[0],
        **texts,
        "clients": len({(row["client_id"], row["client_ip"]) for row in rows}),
        "count": sum(row["count"] for row in rows),
        "first": min((row["first"] for row in rows if row["first"]), default=None),
        "last": max((row["last"] for row in rows if row["last"]), default=None),
        "client_id": None,
        "client_ip": None,
    }


def _client(row: Row) -> str:
    return counted(row["clients"], "client") if "clients" in row else where("client_id")(row)


def _notes(rows: list[Row], capture: Row) -> list[str]:
    """A line for each error, in the order of the table; where one means several things, of which rows each is."""
    notes: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        notes.setdefault((row["error"], f"{row['meaning']} {row['advice']}"), []).append(row)
    meanings = Counter(error for error, _ in notes)
    return [
        f"{error}{f' ({_places(found)})' if meanings[error] > 1 else ''}: {text}"
        for (error, text), found in notes.items()
    ]


def _places(rows: list[Row]) -> str:
    """APIs and clients of rows."""
    return listed(
        [*dict.fromkeys(" of ".join(filter(None, (known(row["api"]), _client(row)))) for row in rows)]
    )


def _more(file: str, rows: list[Row]) -> str:
    api = rows[0]["api"]
    # What the capture left open is no error to the filter.
    is_open = rows[0]["advice"] in (NO_ADVICE, ONE_SIDED_ADVICE, UNHEARD_ADVICE)
    return f"kinspect read {file}{'' if is_open else ' --errors-only'}" + (f" --api {api}" if api else "")


def _unless(names: set[str], key: str) -> Callable[[Row], str]:
    """Cells of a list, in rows that are not apart by what it lists."""
    return lambda row: "" if names & row.keys() else listed(row[key])


ANSWER = Definition(
    Errors,
    help="Error codes by API and client, with their meaning and what to do.",
    page="6",
    page_help="error codes: meaning, and what to do",
    columns=(
        Key("api", "text", "", "API", least=WORDS, opens="api"),
        Key(
            "error",
            "text",
            "Name of the code, or UNANSWERED",
            "ERROR",
            plain,
            style=lambda row: DIM if row["expected"] else ERROR,
            least=NAMES,
            opens=lambda row: [("errors-only", None) if row["code"] is None else ("error", row["error"])],
        ),
        Key("code", "int"),
        Key("retriable", "bool", "Whether today's clients retry"),
        Key(
            "expected",
            "bool",
            "Whether every occurrence is part of normal operation here; null if it may pass yet",
            "EXPECTED",
            lambda expected: UNKNOWN if expected is None else "yes" if expected else "no",
        ),
        Key("expected_reasons", "counts", "Expected occurrences by reason"),
        Key("client_id", "text", "", "CLIENT ID", cell=_client, least=WORDS, opens="client-id"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=3, opens="client-host"),
        Column("MINUTE", where("minute"), least=16, time=MINUTE),
        Column("PRINCIPAL", where("principal")),
        Column("TRANSACTIONAL ID", where("transactional_id")),
        Column("BROKER", where("broker")),
        Column("TOPIC", where("topic")),
        Column("PARTITION", where("partition")),
        Key("count", "long", "How often the code occurs", "COUNT"),
        Key("first", "time", "When the first exchange with it began", "FIRST", rank=5, time=TIME_OF_DAY),
        Key("last", "time", "When the last exchange with it began", "LAST", rank=4, time=TIME_OF_DAY),
        Key("topics", "texts", "", "TOPICS", cell=_unless({"topic", "partition"}, "topics"), rank=1),
        Key("groups", "texts", "", "GROUPS", listed, rank=2),
        Key(
            "principals",
            "texts",
            "Users as which the client had logged in",
            "PRINCIPALS",
            cell=_unless({"principal"}, "principals"),
            rank=1,
        ),
        Key(
            "transactional_ids",
            "texts",
            "",
            "TXN IDS",
            cell=_unless({"transactional_id"}, "transactional_ids"),
            rank=2,
        ),
        Key("meaning", "text"),
        Key("advice", "text", "What to do"),
    ),
    order="MINUTE, ERROR, COUNT, EXPECTED, API, CLIENT ID, ADDRESS, PRINCIPAL, TRANSACTIONAL ID, BROKER, TOPIC, "
    "PARTITION, TOPICS, GROUPS, PRINCIPALS, TXN IDS, FIRST, LAST",
    options={
        "by": OwnOption(
            "A row for each API, code and client, broker, principal, transactional_id, topic, partition or minute,"
            " or several of them: client,minute.  [default: client]",
            "KEYS",
            lambda: BY_NAMES,
        )
    },
    identity="api error client_id",
    addresses="client_ip",
    compared="count",
    usual=lambda row: row["expected"] is True,
    troubles=True,
    nothing="no error code, and every request was answered",
    more=_more,
    notes=_notes,
    gathered=_gathered,
)
