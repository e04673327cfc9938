"""One filter for every output: selects the exchanges that are shown.

Options AND; the values of one option, repeated or separated by commas, OR. A leading `!` negates a value: an exchange
passes an option if it matches one of its positive values (if there are any) and none of the others. A property that is
not known of an exchange matches no positive value, and is counted in `Filter.unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kinspect import seen
from kinspect.errors import KinspectError
from kinspect.kafka.connection.roles import ROLES
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Gap
from kinspect.kafka.fields import envelope
from kinspect.kafka.summary import REQUEST_DATA
from kinspect.kafka.wire.pair import ANSWERED, ORPHAN, TOKEN_NAME, UNANSWERED
from kinspect.kafka.wire.wait import CAUSES
from kinspect.model import NS_PER_DAY, NS_PER_MS, NS_PER_SECOND, NS_PER_US
from kinspect.protocol import schema
from kinspect.protocol.apikeys import ENVELOPE
from kinspect.wording import did_you_mean

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

CAPTURE_END, GAP = "capture_end", "gap"

UNITS = {
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_SECOND,
    "m": 60 * NS_PER_SECOND,
    "h": 3600 * NS_PER_SECOND,
}

# Texts, not patterns: `re` compiles each when it is first used, and most runs use none.
_DURATION = rf"(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)})?"
_EPOCH = r"\d+(?:\.\d+)?"
_RFC3339 = r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))?"
_CLOCK = r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9})\d*)?)?[Zz]?"
_HOST = r"[0-9A-Fa-f.:*?\[\]!-]+"
_PORT = r"[\d*?\[\]!-]+"
_CONNECTION_ID = r"(\[[^]]+\]|[\d.]+):(\d+)-(\[[^]]+\]|[\d.]+):(\d+)@"
_DATE = r"\d{4}-\d\d-\d\d"
_OPTION = r"(?<!\S)--([a-z-]+)"
_GLOB_CHARACTERS = r"[*?\[]"

API_KEYS, PORTS = range(1 << 15), range(1 << 16)
"""Values that the fields of a request's header and of a TCP header can hold."""
ERROR_CODES = range(-(1 << 15), 1 << 15)
DIGITS_MOST = 9
OCTETS, OCTET_MOST = 4, 255

EMPTY_RANGE = "nothing is from then on and before that"

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)

Predicate = Callable[[str], bool]


class TopicId(str):
    """A topic id among names: it matches a value that equals it, and no glob."""

    __slots__ = ()


HostPort = tuple[str, int]
"""Address and port."""
Verdict = bool | None
"""Result of a test; None: the property that the option asks for is not known of this exchange."""


class Patterns:
    """The values of one option."""

    __slots__ = ("_negative", "_positive")

    def __init__(self, values: Iterable[str], predicate: Callable[[str], Predicate]) -> None:
        """`predicate` creates the test of one value without its `!`; it raises `KinspectError` for an invalid one."""
        self._positive: list[Predicate] = []
        self._negative: list[Predicate] = []
        for value in values:
            pieces = value.split(",")
            # An empty value is the empty text (a client id may be empty); between commas it is a mistake.
            if len(pieces) > 1 and not all(pieces):
                raise KinspectError(f"{value!r} has an empty value between its commas")
            for piece in pieces:
                negated = piece.startswith("!")
                (self._negative if negated else self._positive).append(predicate(piece[negated:]))

    def verdict(self, known: Sequence[str], all_known: bool = True) -> Verdict:
        """True if `known` passes; None if a positive value could still match an unknown one."""
        if any(refuses(text) for refuses in self._negative for text in known):
            return False
        if not self._positive or any(accepts(text) for accepts in self._positive for text in known):
            return True
        return False if all_known else None


EPOCH, START, DAY = "epoch", "start", "day"
"""Bases of a time: 1970, the capture's first packet, the midnight (UTC) before that packet."""


class Instant(NamedTuple):
    """A point in time: nanoseconds since `base`."""

    ns: int
    base: str

    def at(self, start: int | None) -> int | None:
        """Nanoseconds since the epoch; None if the capture's start is needed and not known."""
        if self.base == EPOCH:
            return self.ns
        if start is None:
            return None
        return self.ns + (start if self.base == START else start - start % NS_PER_DAY)


REPEATED = """
    api topic group client_id principal software role host client_host broker_host port error wait
""".split()
"""Options of `Filter` that take several values."""
FILTER_NAMES = *REPEATED, "errors_only", "min_latency", "min_service", "since", "until"


class Filter:
    """Selects the exchanges that pass every option given.

    `needs_body`: bodies must be decoded to decide; `needs_wait`: `Exchange.wait` is asked for. `unknown` counts, by
    option, the exchanges left out because a property that the option asks for is not known of them; `seen` counts,
    until one passes, the values of the exchanges that an option left out; `start` is the time of the capture's first
    packet, which relative times need.
    """

    def __init__(
        self,
        *,
        api: Sequence[str] = (),
        topic: Sequence[str] = (),
        group: Sequence[str] = (),
        client_id: Sequence[str] = (),
        principal: Sequence[str] = (),
        software: Sequence[str] = (),
        role: Sequence[str] = (),
        host: Sequence[str] = (),
        client_host: Sequence[str] = (),
        broker_host: Sequence[str] = (),
        port: Sequence[str] = (),
        error: Sequence[str] = (),
        wait: Sequence[str] = (),
        errors_only: bool = False,
        min_latency: str | float | None = None,
        min_service: str | float | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> None:
        self.start: int | None = None
        self.unknown: dict[str, int] = {}
        self.seen: seen.SeenValues = {}
        self.let: list[str] = []
        """The options that the exchange that passed last passes as `let_pass` let its API alone."""
        self._any_passed = False
        self.needs_wait = bool(wait)
        self.needs_body = bool(topic or group or error or errors_only or wait)
        # In this order: expensive tests, which decode bodies, come last.
        self._tests: list[tuple[str, Callable[[Exchange], Verdict]]] = []
        self._patterns: dict[str, Patterns] = {}
        self._serving: Mapping[str, Collection[int]] = {}
        self._add_patterns("--api", api, _api_predicate, _api)
        self._add_patterns("--client-id", client_id, glob, _client_id)
        self._add_patterns("--role", role, _word_predicate("role", ROLES), _role)
        self._add_patterns("--principal", principal, glob, _principal)
        self._add_patterns("--software", software, glob, _software)
        self._end_tests: list[Callable[[HostPort, HostPort], bool]] = []
        self._add_ends("--port", port, _port_predicate)
        self._add_ends("--host", host, _host_predicate)
        self._add_ends("--client-host", client_host, _host_predicate)
        self._add_ends("--broker-host", broker_host, _host_predicate)
        self._until: Instant | None = None
        if since is not None:
            self._since = parse_moment(since, "--since")
            self._tests.append(("--since", self._is_since))
        if until is not None:
            self._until = parse_moment(until, "--until")
            self._tests.append(("--until", self._is_until))
        if since is not None and self._until is not None:
            _check_order(self._since, self._until)
        self._add_least("--min-latency", min_latency)
        self._add_least("--min-service", min_service)
        self._add_patterns("--wait", wait, _word_predicate("cause", CAUSES), _wait)
        self._add_patterns("--group", group, glob, _groups)
        self._add_patterns("--topic", topic, _topic_predicate, _topics)
        self._add_patterns("--error", error, _error_predicate, _errors)
        if errors_only:
            self._tests.append(("--errors-only", _has_error))

    @property
    def active(self) -> bool:
        """True if any option was given."""
        return bool(self._tests)

    @property
    def end(self) -> int | None:
        """The moment of `--until`, in nanoseconds since the epoch; None without it."""
        return self._until.at(self.start) if self._until is not None else None

    @property
    def options(self) -> list[str]:
        """Options that were given, in the order in which they are tested."""
        return [option for option, _ in self._tests]

    def let_pass(self, serving: Mapping[str, Collection[int]]) -> None:
        """Let exchanges of some APIs, by their keys, pass an option."""
        self._serving = serving

    def chooses(self, option: str, names: Sequence[str]) -> bool:
        """True if an option that takes patterns would let these names pass, or was not given."""
        patterns = self._patterns.get(option)
        return patterns is None or bool(patterns.verdict(names))

    def matches(self, exchange: Exchange) -> bool:
        """True if `exchange` passes; counts it in `unknown` if that could not be determined."""
        self.let = []
        for option, test in self._tests:
            verdict = test(exchange)
            if verdict:
                continue
            if not self._any_passed:
                self._see(option, exchange)
            serving = self._serving.get(option)
            if serving is not None and exchange.api_key in serving:
                self.let.append(option)
                continue
            if verdict is None:
                self.unknown[option] = self.unknown.get(option, 0) + 1
            return False
        self._any_passed = self._any_passed or not self.let
        return True

    def passes(self, exchange: Exchange) -> bool:
        """True if an exchange passes whose connection was not seen, as what an Envelope holds; nothing is counted."""
        return not self._end_tests and all(
            test(exchange) or exchange.api_key in self._serving.get(option, ())
            for option, test in self._tests
        )

    def _see(self, option: str, exchange: Exchange) -> None:
        kinds = self.seen.setdefault(option, {})
        for kind, values in _LEFT_OUT_VALUES.get(option, {}).items():
            seen.count_values(kinds.setdefault(kind, {}), values(exchange))
        if option in _TIMES and (took := _took(exchange, option)) is not None:
            seen.longest(kinds, _TIMES[option][1], took)

    def matches_line(self, line: ConnectionLine | Gap) -> bool:
        """True if a line of another type passes: only the options on addresses and ports apply to it."""
        if isinstance(line, ConnectionLine):
            return self.matches_ends(line.client, line.broker)
        return not self._end_tests or self.matches_ends(*connection_ends(line.connection_id))

    def matches_ends(self, client: HostPort, broker: HostPort) -> bool:
        """True if a connection between these two ends passes the options on addresses and ports."""
        return all(test(client, broker) for test in self._end_tests)

    def _add_patterns(
        self,
        option: str,
        values: Sequence[str],
        predicate: Callable[[str], Predicate],
        known: Callable[[Exchange], tuple[Sequence[str], bool]],
    ) -> None:
        if values:
            patterns = self._patterns[option] = _patterns(option, values, predicate)
            self._tests.append((option, lambda exchange: patterns.verdict(*known(exchange))))

    def _add_ends(self, option: str, values: Sequence[str], predicate: Callable[[str], Predicate]) -> None:
        if values:
            patterns, known = _patterns(option, values, predicate), _ENDS[option]

            def test(client: HostPort, broker: HostPort) -> bool:
                return bool(patterns.verdict(known(client, broker)))

            self._end_tests.append(test)
            self._tests.append((option, lambda exchange: test(*_ends(exchange))))

    def _is_since(self, exchange: Exchange) -> Verdict:
        time, since = exchange.timestamp, self._since.at(self.start)
        return None if time is None or since is None else time >= since

    def _is_until(self, exchange: Exchange) -> Verdict:
        time, until = exchange.timestamp, self.end
        return None if time is None or until is None else time < until

    def _add_least(self, option: str, value: str | float | None) -> None:
        if value is None:
            return
        least = _milliseconds(option, value)

        def test(exchange: Exchange) -> Verdict:
            if exchange.outcome not in (ANSWERED, UNANSWERED):
                # Nothing was due, or the request was not captured.
                return False if exchange.request is not None else None
            took = _took(exchange, option)
            return None if took is None else took >= least

        self._tests.append((option, test))


def filter_from(options: Mapping[str, Any]) -> Filter:
    """The filter with these options, by the names in `FILTER_NAMES`. A single value stands for a list of one, a number
    for its text; an option that is None is not given. Raises KinspectError."""
    if unknown := sorted(map(str, options.keys() - FILTER_NAMES)):
        raise KinspectError(f"there is no filter {', '.join(unknown)}; there are {', '.join(FILTER_NAMES)}")
    given = {name: _given(name, value) for name, value in options.items() if value is not None}
    try:
        return Filter(**given)
    except KinspectError as error:
        raise KinspectError(
            re.sub(_OPTION, lambda option: _named(option[1]), str(error), flags=re.ASCII)
        ) from None


def _named(name: str) -> str:
    """A filter as messages for programs name it."""
    return f"filter {name.replace('-', '_')}"


def _given(name: str, value: Any) -> Any:
    option = _named(name)
    if name == "errors_only":
        if not isinstance(value, bool):
            raise KinspectError(f"{option}: {value!r} is neither True nor False")
        return value
    if name in REPEATED and isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_text(option, each) for each in value]
    text = _text(option, value)
    return [text] if name in REPEATED else text


def _text(option: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime):
        raise KinspectError(f"{option}: {value!r} is not a text")
    return str(value)


def _patterns(option: str, values: Sequence[str], predicate: Callable[[str], Predicate]) -> Patterns:
    try:
        return Patterns(values, predicate)
    except KinspectError as error:
        raise KinspectError(f"{option}: {error}") from None


def connection_ends(connection_id: str) -> tuple[HostPort, HostPort]:
    """Client and broker named by a connection id. Raises ValueError for text that is no connection id."""
    match = re.match(_CONNECTION_ID, connection_id, re.ASCII)
    if match is None:
        raise ValueError(connection_id)
    client_ip, client_port, broker_ip, broker_port = match.groups()
    return (client_ip.strip("[]"), int(client_port)), (broker_ip.strip("[]"), int(broker_port))


def glob(pattern: str) -> Predicate:
    """Test for a case-sensitive shell pattern."""
    from fnmatch import translate

    match = re.compile(translate(pattern)).match
    return lambda text: match(text) is not None


def parse_duration(text: str, unit: str = "s") -> int:
    """Nanoseconds of `90s`, `500ms`, `20us`, `10m`, `1.5h`, or a number of `unit`."""
    match = re.fullmatch(_DURATION, text.strip(), re.ASCII)
    if match is None:
        raise KinspectError(
            f"{text!r} is not a duration: give a number and a unit of us, ms, s, m or h, as 90s"
        )
    return _times(match[1], UNITS[match[2] or unit])


def _times(number: str, unit: int) -> int:
    """So many units: exact, as no float would be."""
    from decimal import Decimal

    return int(Decimal(number) * unit)


def parse_moment(text: str, option: str) -> Instant:
    """Parse RFC 3339 (UTC if no zone), epoch seconds, a time of day, or `+` and a duration from the capture's start."""
    try:
        if text.startswith("+"):
            return Instant(parse_duration(text[1:]), START)
        if re.fullmatch(_EPOCH, text, re.ASCII):
            return Instant(_times(text, NS_PER_SECOND), EPOCH)
        if (match := re.fullmatch(_CLOCK, text, re.ASCII)) is not None:
            return Instant(_time_of_day(*match.groups()), DAY)
        return Instant(_rfc3339(text), EPOCH)
    except (KinspectError, ValueError, OverflowError):
        if re.fullmatch(_DATE, text, re.ASCII):
            raise KinspectError(f"{option}: a date needs a time too, as {text}T00:00:00Z") from None
        raise KinspectError(
            f"{option}: {text!r} is not a time: give RFC 3339 (2026-11-21T06:43:01Z),"
            " a time of the capture's first day in UTC (06:43:01), epoch seconds, or +90s from the start of the capture"
        ) from None


def _check_order(since: Instant, until: Instant) -> None:
    # An absolute time and one relative to the capture's start can be compared only when the start is known.
    if since.base == until.base and since.ns >= until.ns:
        why = "times without a date are of the capture's first day" if since.base == DAY else EMPTY_RANGE
        raise KinspectError(f"--since is not before --until: {why}")


def _time_of_day(hours: str, minutes: str, seconds: str | None, fraction: str | None) -> int:
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
    return whole * NS_PER_SECOND + _nanoseconds(fraction)


def _nanoseconds(fraction: str | None) -> int:
    """Nanoseconds of the digits after a second's decimal point."""
    return int((fraction or "").ljust(9, "0"))


def _rfc3339(text: str) -> int:
    match = re.fullmatch(_RFC3339, text, re.ASCII)
    if match is None:
        raise ValueError(text)
    *fields, fraction, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    zone = timezone(-offset if sign == "-" else offset)
    year, month, day, hour, minute, second = map(int, fields)
    elapsed = datetime(year, month, day, hour, minute, second, tzinfo=zone) - _EPOCH_START
    # Datetimes hold microseconds only, so the fraction never enters one.
    return (elapsed // timedelta(seconds=1)) * NS_PER_SECOND + _nanoseconds(fraction)


def _milliseconds(option: str, value: str | float) -> int:
    """Nanoseconds of a duration; a number alone is milliseconds."""
    try:
        return parse_duration(str(value), "ms")
    except KinspectError as error:
        raise KinspectError(f"{option}: {error}; a number alone is milliseconds") from None


def _api_predicate(value: str) -> Predicate:
    # Any key: a capture may hold an API that kinspect does not know, which then has only its key.
    if value.isdecimal():
        return glob(_number(value, API_KEYS, "an API key"))
    names = (*schema.api_names().values(), TOKEN_NAME)
    if re.search(_GLOB_CHARACTERS, value):
        predicate = glob(value.lower())
        if not (any(map(predicate, map(str.lower, names))) or any(map(predicate, map(str, API_KEYS)))):
            raise KinspectError(f"{value!r} matches no API: see `kinspect schema`")
        return predicate
    if value.lower() == TOKEN_NAME.lower():
        return lambda text: text == value.lower()
    api = schema.api(value)
    if api is None:
        raise unknown_api(value, names)
    key = str(api.key)
    return lambda text: text == key


def unknown_api(value: str, names: Iterable[str]) -> KinspectError:
    """The error for a name that is none of the APIs' `names`, with those that may be meant."""
    hint = did_you_mean(value.lower(), ((name.lower(), name) for name in names))
    return KinspectError(f"there is no API {value!r}: {hint or 'see `kinspect schema`'}")


def _word_predicate(kind: str, words: Sequence[str]) -> Callable[[str], Predicate]:
    """Maker of the test of a value that can only be one of some words."""

    def predicate(value: str) -> Predicate:
        matches = glob(value)
        if not any(map(matches, words)):
            raise KinspectError(f"there is no {kind} {value!r}; there are {', '.join(words)}")
        return matches

    return predicate


def _error_predicate(value: str) -> Predicate:
    matches, errors = glob(value.upper()), schema.error_meanings()
    if any(matches(error.name) for error in errors) or any(
        matches(text) for code in ERROR_CODES for text in (schema.error_name(code, None), str(code))
    ):
        return matches
    known = (
        (name.lower(), error.name)
        for error in errors
        for name in (error.name, *error.old_names, *error.scala_names)
    )
    hint = did_you_mean(value.lower(), known) or "see `kinspect schema errors`"
    raise KinspectError(f"there is no error {value!r}: {hint}")


def _port_predicate(value: str) -> Predicate:
    if value.isdecimal():
        return glob(_number(value, PORTS, "a port"))
    predicate = glob(value)
    if not re.fullmatch(_PORT, value, re.ASCII) or not any(map(predicate, map(str, PORTS))):
        raise KinspectError(f"{value!r} is not a port: give {_span(PORTS)}, or a glob (90*)")
    return predicate


def _number(value: str, known: range, what: str) -> str:
    """Check a number and return it as it is compared: without leading zeros."""
    # Python refuses to convert thousands of digits to a number.
    if len(value) > DIGITS_MOST or int(value) not in known:
        raise KinspectError(f"{value!r} is not {what}: give {_span(known)}")
    return str(int(value))


def _span(numbers: range) -> str:
    return f"{numbers[0]} to {numbers[-1]}"


def _topic_predicate(value: str) -> Predicate:
    if not value:
        raise KinspectError("no topic has an empty name: give a name or a glob (orders-*)")
    matches = glob(value)
    return lambda text: text == value if isinstance(text, TopicId) else matches(text)


def _host_predicate(value: str) -> Predicate:
    if "/" in value:
        from ipaddress import ip_network

        try:
            network = ip_network(value, strict=False)
        except ValueError:
            raise KinspectError(f"{value!r} is not a network, as 10.0.0.0/8 is") from None
        return lambda text: _address(text) in network
    # Captures hold addresses; a host name would silently match nothing.
    wrong = KinspectError(f"{value!r} is not an IP address, a glob of one (10.0.*) or a network (10.0.0.0/8)")
    if not re.fullmatch(_HOST, value, re.ASCII):
        raise wrong
    if value.startswith("[") and value.endswith("]") and ":" in value:
        value = value[1:-1]  # As beside a port.
    try:
        return glob(str(_address(value)))
    except ValueError:
        if not re.search(_GLOB_CHARACTERS, value) or not _may_be_address(value):
            raise wrong from None
    return glob(value.lower())


def _may_be_address(pattern: str) -> bool:
    """True if a glob could match an IP address: numeric octets are checked for IPv4; `:` or `[` always passes."""
    if ":" in pattern or "[" in pattern:
        return True
    octets = pattern.split(".")
    return len(octets) <= OCTETS and all(int(o) <= OCTET_MOST for o in octets if o.isdecimal())


@lru_cache(maxsize=4096)
def _address(text: str) -> IPv4Address | IPv6Address:
    from ipaddress import ip_address

    return ip_address(text)


def _api(exchange: Exchange) -> tuple[Sequence[str], bool]:
    name, key = exchange.api, exchange.api_key
    known = [text for text in (name and name.lower(), None if key is None else str(key)) if text is not None]
    if key != ENVELOPE:
        return known, name is not None
    inner = exchange.summary.inner(REQUEST_DATA)
    if inner is None:
        return known, False
    inside = inner.header.api_key
    return [*known, (schema.api_name(inside) or "").lower(), str(inside)], True


def _client_id(exchange: Exchange) -> tuple[Sequence[str], bool]:
    return _one(exchange.client_id)


def _one(text: str | None) -> tuple[Sequence[str], bool]:
    return ((), False) if text is None else ((text,), True)


def _role(exchange: Exchange) -> tuple[Sequence[str], bool]:
    return _one(exchange.role)


def _principal(exchange: Exchange) -> tuple[Sequence[str], bool]:
    if exchange.api_key != ENVELOPE:
        return _one(exchange.principal)
    body = exchange.request.body if exchange.request is not None else None
    forwarded = envelope.principal((body or {}).get("request_principal"))
    own = _one(exchange.principal)[0]
    return (own, False) if forwarded is None else ([*own, str(forwarded["name"])], True)


def _software(exchange: Exchange) -> tuple[Sequence[str], bool]:
    names = software_names(exchange)
    return names, bool(names)


def software_names(exchange: Exchange) -> list[str]:
    """Texts that `--software` compares: the name, and with its version `name/version`; none if it is not known."""
    name, version = exchange.software_name, exchange.software_version
    if name is None:
        return []
    return [name] if version is None else [name, f"{name}/{version}"]


def _wait(exchange: Exchange) -> tuple[Sequence[str], bool]:
    cause = exchange.wait
    # A request without an answer, or whose answer is not due, has no cause.
    return _one(cause) if exchange.outcome in (ANSWERED, ORPHAN) else ((), True)


def _error_names(exchange: Exchange) -> list[str]:
    return [schema.error_name(code, exchange.api_key) for code in exchange.summary.error_codes]


def _errors(exchange: Exchange) -> tuple[Sequence[str], bool]:
    answer = exchange.response
    known = [*_error_names(exchange), *map(str, exchange.summary.error_codes)]
    return known, answer is None or answer.decode().complete


def _ends(exchange: Exchange) -> tuple[HostPort, HostPort]:
    connection = exchange.connection
    return (connection.client_ip, connection.client_port), (connection.broker_ip, connection.broker_port)


def _groups(exchange: Exchange) -> tuple[Sequence[str], bool]:
    return exchange.summary.groups, _bodies_known(exchange)


def _topics(exchange: Exchange) -> tuple[Sequence[str], bool]:
    summary, session = exchange.summary, exchange.session_topics
    known = not summary.unresolved_topic_ids and _bodies_known(exchange)
    ids = [*summary.topic_ids, *(topic_id for _, topic_id in session if topic_id is not None)]
    whole = exchange.fetched is None or (
        exchange.fetched.whole and all(name is not None for name, _ in session)
    )
    return [*_named_topics(exchange), *map(TopicId, ids)], known and whole


def _named_topics(exchange: Exchange) -> Iterable[str]:
    """Names of topics in both bodies, and of those that a fetch session stands for."""
    unresolved = exchange.summary.unresolved_topic_ids
    topics = exchange.summary.topics
    named = [topic for topic in topics if topic not in unresolved] if unresolved else topics
    session = [name for name, _ in exchange.session_topics if name is not None]
    return {*named, *session} if session else named


_ENDS: dict[str, Callable[[HostPort, HostPort], Sequence[str]]] = {
    "--port": lambda client, broker: (str(client[1]), str(broker[1])),
    "--host": lambda client, broker: (client[0], broker[0]),
    "--client-host": lambda client, broker: (client[0],),
    "--broker-host": lambda client, broker: (broker[0],),
}
"""Addresses or ports of a connection that each option tests."""


def _ends_of(option: str) -> Callable[[Exchange], Iterable[str]]:
    """Values that an option tests; an address or port that both sides share is given once."""
    return lambda exchange: set(_ENDS[option](*_ends(exchange)))


_LEFT_OUT_VALUES: dict[str, dict[str, Callable[[Exchange], Iterable[str]]]] = {
    "--api": {"APIs": lambda exchange: (exchange.api or f"key {exchange.api_key}",)},
    "--client-id": {"client ids": lambda exchange: _client_id(exchange)[0]},
    "--role": {"roles": lambda exchange: _role(exchange)[0]},
    "--principal": {"principals": lambda exchange: _principal(exchange)[0]},
    "--software": {"names of software": lambda exchange: software_names(exchange)[-1:]},
    "--wait": {"causes": lambda exchange: _wait(exchange)[0]},
    "--error": {"errors": _error_names},
    "--port": {"ports": _ends_of("--port")},
    "--host": {"addresses": _ends_of("--host")},
    "--client-host": {"clients' addresses": _ends_of("--client-host")},
    "--broker-host": {"brokers' addresses": _ends_of("--broker-host")},
    "--group": {"groups": lambda exchange: exchange.summary.groups},
    "--topic": {
        "topics": _named_topics,
        "topic ids without a name (--topic-names takes them)": lambda exchange: (
            exchange.summary.unresolved_topic_ids
        ),
    },
}
"""Values to count of the exchanges that an option leaves out: by option and kind, a function that gives them."""


def _bodies_known(exchange: Exchange) -> bool:
    """True if every message that was sent could be read to its end, as far as known."""
    if exchange.request is None:
        return False
    return all(m.decode().complete for m in (exchange.request, exchange.response) if m is not None)


def _has_error(exchange: Exchange) -> Verdict:
    reason = exchange.outcome_reason
    if exchange.outcome == UNANSWERED and reason != CAPTURE_END:
        return True
    if exchange.outcome == ORPHAN and reason == GAP:
        return True
    if exchange.problems or exchange.summary.error_codes or exchange.summary.refusal:
        return True
    return None if exchange.response is not None and not exchange.response.decode().complete else False


_TIMES: dict[str, tuple[Callable[[Exchange], int | None], str]] = {
    "--min-latency": (lambda exchange: exchange.latency_ns, seen.LONGEST),
    "--min-service": (lambda exchange: exchange.service_ns, seen.LONGEST_SERVICE),
}
"""Time of an answered exchange that each option tests, and the kind of its greatest value."""


def _took(exchange: Exchange, option: str) -> int | None:
    """Nanoseconds of the time that an option tests, or of waiting for an answer; None if none was due, or the time is
    not known."""
    if exchange.outcome == ANSWERED:
        return _TIMES[option][0](exchange)
    sent = exchange.request.last_time if exchange.request is not None else None
    if exchange.outcome != UNANSWERED or sent is None or exchange.completed_at is None:
        return None
    return exchange.completed_at - sent
