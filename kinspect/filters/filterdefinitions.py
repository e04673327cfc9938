"""The filters, as a table: `FILTERS`. A row is all that there is of a filter."""

# Annotations are values here: the rows stand in those of `Filters`.
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import ge, lt
from typing import Annotated, Any, ClassVar, NamedTuple, TypedDict, TypeVar, dataclass_transform

from kinspect.facts import Facts
from kinspect.filteredvalues import LARGEST, LONGEST
from kinspect.filters.values import (
    Instant,
    Patterns,
    Predicate,
    TopicId,
    Verdict,
    api_predicate,
    error_predicate,
    glob,
    host_predicate,
    milliseconds,
    parse_moment,
    parse_size,
    port_predicate,
    topic_predicate,
    word_predicate,
)
from kinspect.kafka.connection.roles import ROLES
from kinspect.kafka.wire.pair import ANSWERED, NO_RESPONSE, ORPHAN, UNANSWERED
from kinspect.kafka.wire.wait import CAUSES
from kinspect.protocol import schema
from kinspect.protocol.apikeys import ENVELOPE
from kinspect.wording import NAMELESS

PACKETS, SEGMENTS, HEADS, BODIES, WAITS = "packets", "segments", "heads", "bodies", "waits"
"""What a filter needs: times of packets, both ends of segments, the heads of messages, decoded bodies, or the causes of
waits, which bodies show."""
EXCHANGES, CONNECTIONS, CLIENTS, START, END = "exchanges", "connections", "clients", "start", "end"
"""What a filter cuts away: exchanges between others, whole connections, all of a client id or of a client's address, or
what is before or behind a time."""
TIMES = (START, END)
CAPTURE_END, GAP = "capture_end", "gap"

Names = Callable[[Facts], Iterable[str | None]]
"""Function that gives names of an exchange."""
End = tuple[str, int, str | None]
"""Address, port, and name if one is known."""
Kind = TypeVar("Kind", bound="FilterDefinition")
OfEnds = Callable[[End, End], Sequence[str]]
"""Function that gives addresses or ports of a client and a broker."""


class FilterTest(NamedTuple):
    """A filter with its values. `patterns`: those; `ends`: the same test of a client and a broker, where the filter
    looks at nothing else; `moment`: the time that is asked for; `translations`: what it leaves out as seen before, by
    the addresses that were translated."""

    verdict: Callable[[Facts], Verdict]
    patterns: Patterns | None = None
    ends: Callable[[End, End], bool] | None = None
    moment: Instant | None = None
    translations: dict[str, int] | None = None


def _nothing(_: Facts) -> Iterable[str | None]:
    return ()


@dataclass_transform(kw_only_default=True, eq_default=False)
def row(kind: type[Kind]) -> type[Kind]:
    """A kind of rows, checked as a dataclass: generating the methods of one costs a start a millisecond."""
    return kind


@row
class FilterDefinition(ABC):
    """A filter. `help`: its line in `--help`; `metavar`: what stands for its value there, None: it has none; `turn`: of
    several filters those with smaller numbers are asked first, so that bodies are decoded for few exchanges; `needs`:
    what must be read for it; `cuts`: what it cuts away; `kind`: what exchanges must name one of, or it leaves them out.

    `words`: the values that there are, for completion; `offered`: names of an exchange that its values may be, for
    completion in the explorer, which offers `words` too if `all_offered`. `left_out`: values to be told of the
    exchanges that it leaves out, by what they are called (`seen.is_greatest` says which of these are numbers).
    """

    many: ClassVar = False
    """True if it may have several values."""
    timed: ClassVar = False
    """True if nearly each exchange is another case: the explorer keeps no verdicts of it."""
    of_passing: ClassVar = False
    """True if it is asked of what passes all others alone; its `turn` is the last."""

    help: str
    metavar: str | None = "TIME"
    turn: int
    needs: str = HEADS
    cuts: str = EXCHANGES
    kind: str | None = None
    words: Callable[[], Iterable[str]] | None = None
    all_offered: bool = True
    offered: Names = staticmethod(_nothing)
    left_out: Mapping[str, Callable[[Facts], Iterable[str] | int | None]] = {}

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)
        self.__post_init__()

    def __post_init__(self) -> None:  # noqa: B027 - few kinds have values that others decide
        """Set these."""

    @abstractmethod
    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        """The test of `given`; `start` gives the time of the capture's first packet. Raises KinspectError."""


@row
class Matching(FilterDefinition):
    """Patterns. `known`: the texts of an exchange that they match, and whether these are all; `check`: see
    `Patterns`; `called`: what these texts are called where they are told of exchanges that it leaves out."""

    metavar: str | None = "PATTERN"
    many = True

    check: Callable[[str], Predicate] = staticmethod(glob)
    known: Callable[[Facts], tuple[Sequence[str], bool]]
    called: str = ""

    def __post_init__(self) -> None:
        if self.called:
            self.left_out = {self.called: lambda facts: self.known(facts)[0]}

    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        patterns, known = Patterns(given, self.check), self.known
        return FilterTest(lambda facts: patterns.verdict(*known(facts)), patterns)


@row
class MatchingEnds(FilterDefinition):
    """Patterns of addresses or ports, which lines of all types have. `known`: those that they match; `called`: what
    they are called."""

    metavar: str | None = "PATTERN"
    many = True
    cuts: str = CONNECTIONS

    check: Callable[[str], Predicate]
    known: OfEnds
    called: str

    def __post_init__(self) -> None:
        found = self._found
        self.left_out = {self.called: found}
        if self.offered is _nothing:
            self.offered = found

    def _found(self, facts: Facts) -> set[str]:
        """Those of an exchange; what both sides share is given once."""
        return set(self.known(*_ends(facts)))

    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        patterns, known = Patterns(given, self.check), self.known

        def test(client: End, broker: End) -> bool:
            return bool(patterns.verdict(known(client, broker)))

        return FilterTest(lambda facts: test(*_ends(facts)), ends=test)


@row
class AtLeast(FilterDefinition):
    """A number, which that of the exchange (`amount`) is to reach. `read`: reads the one that is asked for."""

    timed = True

    amount: Callable[[Facts], int | None]
    read: Callable[[str], int] = staticmethod(milliseconds)

    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        least, amount_of = self.read(str(given)), self.amount

        def test(facts: Facts) -> Verdict:
            amount, outcome = amount_of(facts), facts.outcome
            if amount is not None and amount >= least:
                return True
            # An orphan's request was not captured; a response that is not due has no time.
            return None if outcome == ORPHAN or (amount is None and outcome != NO_RESPONSE) else False

        return FilterTest(test)


@row
class InTime(FilterDefinition):
    """A time, with which that of the exchange is compared (`passes`)."""

    timed = True
    needs: str = PACKETS

    passes: Callable[[int, int], bool]

    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        moment, passes = parse_moment(given), self.passes

        def test(facts: Facts) -> Verdict:
            time, asked = facts.timestamp, moment.at(start())
            return None if time is None or asked is None else passes(time, asked)

        return FilterTest(test, moment=moment)


@row
class Switch(FilterDefinition):
    """No value. `holds`: what it asks."""

    metavar: str | None = None

    holds: Callable[[Facts], Verdict]

    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        return FilterTest(self.holds)


@row
class FirstSeen(FilterDefinition):
    """No value. Passes what was not seen before, at other addresses."""

    timed = True
    of_passing = True
    metavar: str | None = None

    def test(self, given: Any, start: Callable[[], int | None]) -> FilterTest:
        from kinspect.filters.natcopies import NatCopies  # few runs ask for it

        copies = NatCopies()

        def test(facts: Facts) -> Verdict:
            if not copies.seen(facts):
                return True
            copies.count(facts)
            return False

        return FilterTest(test, translations=copies.translations)


def apis() -> Iterable[str]:
    """Names of APIs."""
    return sorted(schema.api_names().values())


def errors() -> Iterable[str]:
    """Names of error codes."""
    return [error.name for error in schema.error_meanings()]


def _one(text: str | None) -> tuple[Sequence[str], bool]:
    return ((), False) if text is None else ((text,), True)


def _api(facts: Facts) -> tuple[Sequence[str], bool]:
    name, key = facts.api, facts.api_key
    known = [text for text in (name and name.lower(), None if key is None else str(key)) if text is not None]
    if key != ENVELOPE:
        return known, name is not None
    inside = facts.inner_api_key
    if inside is None:
        return known, False
    return [*known, (schema.api_name(inside) or "").lower(), str(inside)], True


def _principal(facts: Facts) -> tuple[Sequence[str], bool]:
    if facts.api_key != ENVELOPE:
        return _one(facts.principal)
    own, forwarded = _one(facts.principal)[0], facts.inner_principal
    return (own, False) if forwarded is None else ([*own, forwarded], True)


def _software(facts: Facts) -> Sequence[str]:
    """The name, and with its version `name/version`; none if it is not known."""
    name, version = facts.software_name, facts.software_version
    if name is None:
        return ()
    return (name,) if version is None else (name, f"{name}/{version}")


def _wait(facts: Facts) -> tuple[Sequence[str], bool]:
    # A request without an answer, or whose answer is not due, has no cause.
    return _one(facts.wait) if facts.outcome in (ANSWERED, ORPHAN) else ((), True)


def _error_names(facts: Facts) -> list[str]:
    return [schema.error_name(code, facts.api_key) for code in facts.summary.error_codes]


def _errors(facts: Facts) -> tuple[Sequence[str], bool]:
    return [*_error_names(facts), *map(str, facts.summary.error_codes)], facts.response_read is not False


def _ends(facts: Facts) -> tuple[End, End]:
    connection = facts.connection
    return (
        (connection.client_ip, connection.client_port, facts.client_name),
        (connection.broker_ip, connection.broker_port, facts.broker_name),
    )


def _hosts(*ends: End) -> Sequence[str]:
    """Addresses and names."""
    return [text for ip, _, name in ends for text in (ip, name) if text is not None]


def _process(facts: Facts) -> Sequence[str]:
    """The command, and with its id `java[4242]`; none if it is not known."""
    process = facts.client_process
    return () if process is None else (process.rpartition("[")[0], process)


def _bodies_known(facts: Facts) -> bool:
    """True if every message that was sent could be read to its end, as far as known."""
    return bool(facts.request_read) and facts.response_read is not False


def _topics(facts: Facts) -> tuple[Sequence[str], bool]:
    summary, session, fetched = facts.summary, facts.session_topics, facts.fetched
    known = not summary.unresolved_topic_ids and _bodies_known(facts)
    ids = [*summary.topic_ids, *(topic_id for _, topic_id in session if topic_id is not None)]
    whole = fetched is None or (fetched.whole and all(name is not None for name, _ in session))
    return [*_named_topics(facts), *map(TopicId, ids)], known and whole


def _named_topics(facts: Facts) -> Iterable[str]:
    """Names of topics in both bodies, and of those that a fetch session stands for."""
    unresolved, topics = facts.summary.unresolved_topic_ids, facts.summary.topics
    named = [topic for topic in topics if topic not in unresolved] if unresolved else topics
    session = [name for name, _ in facts.session_topics if name is not None]
    return {*named, *session} if session else named


def _has_error(facts: Facts) -> Verdict:
    outcome, reason = facts.outcome, facts.outcome_reason
    if (outcome == UNANSWERED and reason != CAPTURE_END) or (outcome == ORPHAN and reason == GAP):
        return True
    if facts.failed:
        return True
    return None if facts.response_read is False else False


def _latency(facts: Facts) -> int | None:
    return facts.latency_ns if facts.outcome == ANSWERED else facts.waited_ns


def _service(facts: Facts) -> int | None:
    return facts.service_ns if facts.outcome == ANSWERED else facts.waited_ns


API = Matching(
    help="APIs, by name in any case or by key.",
    turn=0,
    check=api_predicate,
    known=_api,
    words=apis,
    offered=lambda facts: (facts.api,),
    left_out={"APIs": lambda facts: (facts.api or f"key {facts.api_key}",)},
)
TOPIC = Matching(
    help="Topics, by name or whole id, in the request, the response or the fetch session.",
    turn=6,
    needs=BODIES,
    kind="topic",
    check=topic_predicate,
    known=_topics,
    offered=lambda facts: facts.summary.topics,
    left_out={
        "topics": _named_topics,
        f"topic ids {NAMELESS}": lambda facts: facts.summary.unresolved_topic_ids,
    },
)
GROUP = Matching(
    help="Groups, in the request or the response.",
    turn=5,
    needs=BODIES,
    kind="group",
    known=lambda facts: (facts.summary.groups, _bodies_known(facts)),
    offered=lambda facts: facts.summary.groups,
    called="groups",
)
CLIENT_ID = Matching(
    help="Client ids.",
    turn=0,
    cuts=CLIENTS,
    known=lambda facts: _one(facts.client_id),
    offered=lambda facts: (facts.client_id,),
    called="client ids",
)
PRINCIPAL = Matching(
    help="Users that SASL named, or of requests in Envelopes.",
    turn=1,
    known=_principal,
    offered=lambda facts: (facts.principal,),
    called="principals",
)
SOFTWARE = Matching(
    help="Clients' software as ApiVersions names it, by name or name/version (apache-kafka-java/4.*).",
    turn=1,
    known=lambda facts: (_software(facts), facts.software_name is not None),
    offered=_software,
    left_out={"names of software": lambda facts: _software(facts)[-1:]},
)
ROLE = Matching(
    help=f"Clients' roles: {', '.join(ROLES)}.",
    turn=0,
    check=word_predicate("role", ROLES),
    known=lambda facts: _one(facts.role),
    words=lambda: ROLES,
    called="roles",
)
PROCESS = Matching(
    help="Clients' processes as captures name them (ptcpdump), by command or command[id].",
    turn=1,
    known=lambda facts: (_process(facts), facts.client_process is not None),
    offered=_process,
    left_out={"processes": lambda facts: _process(facts)[-1:]},
)
HOST = MatchingEnds(
    help="Addresses, networks (10.0.0.0/8) or names of either side.",
    turn=2,
    needs=SEGMENTS,
    check=host_predicate,
    known=_hosts,
    called="addresses",
)
CLIENT_HOST = MatchingEnds(
    help="Addresses, networks or names of the client.",
    turn=2,
    cuts=CLIENTS,
    check=host_predicate,
    known=lambda client, broker: _hosts(client),
    called="clients' addresses",
)
BROKER_HOST = MatchingEnds(
    help="Addresses, networks or names of the broker.",
    turn=2,
    check=host_predicate,
    known=lambda client, broker: _hosts(broker),
    called="brokers' addresses",
)
PORT = MatchingEnds(
    help="Ports of either side.",
    turn=1,
    needs=SEGMENTS,
    check=port_predicate,
    known=lambda client, broker: (str(client[1]), str(broker[1])),
    offered=lambda facts: (str(facts.connection.broker_port),),
    called="ports",
)
ERROR = Matching(
    help="Error codes in the response, by name in any case or by code.",
    turn=6,
    needs=BODIES,
    check=error_predicate,
    known=_errors,
    words=errors,
    all_offered=False,
    offered=_error_names,
    left_out={"errors": _error_names},
)
WAIT = Matching(
    help=f"Causes of the wait for the answer: {', '.join(CAUSES)}.",
    turn=4,
    needs=WAITS,
    check=word_predicate("cause", CAUSES),
    known=_wait,
    words=lambda: CAUSES,
    called="causes",
)
ERRORS_ONLY = Switch(
    help="Only exchanges with an error code or a problem, refused logins, requests unanswered before the capture's end,"
    " and answers to requests that the capture lost.",
    turn=6,
    needs=BODIES,
    holds=_has_error,
)
MIN_LATENCY = AtLeast(
    help="Only exchanges that took or waited at least this long: 100 or 100ms, 500us, 1.5s.",
    turn=3,
    amount=_latency,
    left_out={f"{LONGEST}latency (or wait)": _latency},
)
MIN_SERVICE = AtLeast(
    help="The same by service_ms: without the time behind other requests of the connection.",
    turn=3,
    amount=_service,
    left_out={f"{LONGEST}service time (or wait)": _service},
)
MIN_SIZE = AtLeast(
    help="Only exchanges with a request or response of at least this size: 65536, 64kB, 1.5MiB.",
    metavar="SIZE",
    turn=3,
    read=parse_size,
    amount=lambda facts: facts.largest_message,
    left_out={f"{LARGEST}request or response": lambda facts: facts.largest_message},
)
SINCE = InTime(
    help="From this time on: RFC 3339 (without a zone: UTC), epoch seconds, 07:29:15 (UTC, on the date of the first"
    " packet), or +90s from the start.",
    turn=2,
    cuts=START,
    passes=ge,
)
UNTIL = InTime(help="Before this time.", turn=2, cuts=END, passes=lt)
NO_TWINS = FirstSeen(
    help="Only exchanges that were not seen before, at the addresses before or behind NAT. Answers count these once"
    " anyway.",
    turn=7,
)

Text = str | int | float | datetime
"""A value in Python; a number or a time stands for its text."""
Texts = Text | Iterable[Text]


class Filters(TypedDict, total=False):
    """Filters by name, with their values: `{"topic": ["orders-*", "payments"], "errors_only": True}`."""

    api: Annotated[Texts | None, API]
    topic: Annotated[Texts | None, TOPIC]
    group: Annotated[Texts | None, GROUP]
    client_id: Annotated[Texts | None, CLIENT_ID]
    principal: Annotated[Texts | None, PRINCIPAL]
    software: Annotated[Texts | None, SOFTWARE]
    role: Annotated[Texts | None, ROLE]
    process: Annotated[Texts | None, PROCESS]
    host: Annotated[Texts | None, HOST]
    client_host: Annotated[Texts | None, CLIENT_HOST]
    broker_host: Annotated[Texts | None, BROKER_HOST]
    port: Annotated[Texts | None, PORT]
    error: Annotated[Texts | None, ERROR]
    wait: Annotated[Texts | None, WAIT]
    errors_only: Annotated[bool | None, ERRORS_ONLY]
    min_latency: Annotated[Text | None, MIN_LATENCY]
    min_service: Annotated[Text | None, MIN_SERVICE]
    min_size: Annotated[Text | None, MIN_SIZE]
    since: Annotated[Text | None, SINCE]
    until: Annotated[Text | None, UNTIL]
    no_twins: Annotated[bool | None, NO_TWINS]


FILTERS: dict[str, FilterDefinition] = {
    name: kind.__metadata__[0] for name, kind in Filters.__annotations__.items()
}
"""All filters by name, in the order in which they are listed."""


def option_of(name: str) -> str:
    """A filter's option: `--errors-only` for `errors_only`."""
    return f"--{name.replace('_', '-')}"


def definition_of(option: str) -> FilterDefinition:
    """The filter of an option."""
    return FILTERS[option.removeprefix("--").replace("-", "_")]


def kinds() -> dict[str, str]:
    """Options of the filters that leave out all exchanges that name nothing of a kind, and the kind."""
    return {option_of(name): row.kind for name, row in FILTERS.items() if row.kind is not None}


def cutting_more(options: Iterable[str], *cuts: str) -> bool:
    """True if one of the options cuts away anything else."""
    return any(definition_of(option).cuts not in cuts for option in options)
