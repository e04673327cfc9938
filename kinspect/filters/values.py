"""Values of filters as they are written: their check, and what matches them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kinspect.errors import KinspectError
from kinspect.kafka.wire.pair import TOKEN_NAME
from kinspect.model import NS_PER_DAY, NS_PER_MS, NS_PER_SECOND, NS_PER_US
from kinspect.protocol import schema
from kinspect.wording import did_you_mean

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

UNITS = {
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_SECOND,
    "m": 60 * NS_PER_SECOND,
    "h": 3600 * NS_PER_SECOND,
}

# Texts, not patterns: `re` compiles each when it is first used, and most runs use none.
_DURATION = rf"(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)})?"
_SIZE = r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?"
_EPOCH = r"\d+(?:\.\d+)?"
_RFC3339 = r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))?"
_CLOCK = r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9})\d*)?)?[Zz]?"
# What may be an address, or a pattern of one; anything else is a name, or a pattern of one.
_HOST = r"[0-9.*?\[\]!-]+|[0-9A-Fa-f.:*?\[\]!-]*:[0-9A-Fa-f.:*?\[\]!-]*"
_NETWORK = r"[0-9.]+/[0-9.]*|[0-9]*\.[0-9.]*/.*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*/.*"
_PORT = r"[\d*?\[\]!-]+"
_YEAR = r"(?:19|20)\d\d"
_DATE = r"\d{4}-\d\d-\d\d"
_GLOB_CHARACTERS = r"[*?\[]"

API_KEYS, PORTS = range(1 << 15), range(1 << 16)
"""Values that the fields of a request's header and of a TCP header can hold."""
ERROR_CODES = range(-(1 << 15), 1 << 15)
DIGITS_MOST = 9
OCTETS, OCTET_MOST = 4, 255
PRODUCED, CONSUMED, REPLICATED = DIRECTIONS = ("produce", "consume", "replicate")
"""How records go."""

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)

Predicate = Callable[[str], bool]


class TopicId(str):
    """A topic id among names: it matches a value that equals it, and no glob."""

    __slots__ = ()


Verdict = bool | None
"""Result of a test; None: the property that the option asks for is not known of this exchange."""


class Patterns:
    """The values of one option. `wanted`: those without `!`."""

    __slots__ = ("_negative", "_positive", "wanted")

    def __init__(
        self, values: Iterable[str], predicate: Callable[[str], Predicate], commas: bool = True
    ) -> None:
        """`predicate` creates the test of one value without its `!`; it raises `KinspectError` for an invalid one.
        `commas`: they stand between values, not in them."""
        self._positive: list[Predicate] = []
        self._negative: list[Predicate] = []
        self.wanted: list[str] = []
        for value in values:
            pieces = value.split(",") if commas else [value]
            # An empty value is the empty text (a client id may be empty); between commas it is a mistake.
            if len(pieces) > 1 and not all(pieces):
                raise KinspectError(f"{value!r} has an empty value between its commas")
            for piece in pieces:
                negated = piece.startswith("!")
                (self._negative if negated else self._positive).append(predicate(piece[negated:]))
                self.wanted += [] if negated else [piece]

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


@contextmanager
def errors_about(what: str) -> Iterator[None]:
    """Context in which a KinspectError begins with what it is about."""
    try:
        yield
    except KinspectError as error:
        raise KinspectError(f"{what}: {error}") from None


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


def parse_size(text: str) -> int:
    """Bytes of `65536`, `64KiB`, `64k`, `1.5GB`, in any case."""
    match = re.fullmatch(_SIZE, text.strip().lower(), re.ASCII)
    if match is None:
        raise KinspectError(f"{text!r} is not a size: give bytes, or a number and a unit, as 64MiB")
    number, prefix, binary = match.groups()
    return _times(number, (1024 if binary else 1000) ** " kmgt".index(prefix or " "))


def _times(number: str, unit: int) -> int:
    """So many units: exact, as no float would be."""
    from decimal import Decimal

    return int(Decimal(number) * unit)


def parse_moment(text: str) -> Instant:
    """Parse RFC 3339 (UTC if no zone), epoch seconds, a time of day, or `+` and a duration from the capture's start."""
    try:
        if text.startswith("+"):
            return Instant(parse_duration(text[1:]), START)
        if re.fullmatch(_YEAR, text, re.ASCII):
            raise ValueError(text)
        if re.fullmatch(_EPOCH, text, re.ASCII):
            return Instant(_times(text, NS_PER_SECOND), EPOCH)
        if (match := re.fullmatch(_CLOCK, text, re.ASCII)) is not None:
            return Instant(_time_of_day(*match.groups()), DAY)
        return Instant(_rfc3339(text), EPOCH)
    except (KinspectError, ValueError, OverflowError):
        if re.fullmatch(_DATE, text, re.ASCII):
            raise KinspectError(f"a date needs a time too, as {text}T00:00:00Z") from None
        if re.fullmatch(_YEAR, text, re.ASCII):
            raise KinspectError(f"a year needs a date and a time too, as {text}-01-01T00:00:00Z") from None
        raise KinspectError(
            f"{text!r} is not a time: give RFC 3339 (2026-11-21T06:43:01Z),"
            " a time of the capture's first day in UTC (06:43:01), epoch seconds, or +90s from the start of the capture"
        ) from None


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


def milliseconds(text: str) -> int:
    """Nanoseconds of a duration; a number alone is milliseconds."""
    try:
        return parse_duration(text, "ms")
    except KinspectError as error:
        raise KinspectError(f"{error}; a number alone is milliseconds") from None


def api_predicate(value: str) -> Predicate:
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


def word_predicate(kind: str, words: Sequence[str]) -> Callable[[str], Predicate]:
    """Maker of the test of a value that can only be one of some words."""

    def predicate(value: str) -> Predicate:
        matches = glob(value)
        if not any(map(matches, words)):
            raise KinspectError(f"there is no {kind} {value!r}; there are {', '.join(words)}")
        return matches

    return predicate


def error_predicate(value: str) -> Predicate:
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


def port_predicate(value: str) -> Predicate:
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


def topic_predicate(value: str) -> Predicate:
    if not value:
        raise KinspectError("no topic has an empty name: give a name or a glob (orders-*)")
    matches = glob(value)
    return lambda text: text == value if isinstance(text, TopicId) else matches(text)


def host_predicate(value: str) -> Predicate:
    if re.fullmatch(_NETWORK, value, re.ASCII):
        from ipaddress import ip_network

        try:
            network = ip_network(value, strict=False)
        except ValueError:
            raise KinspectError(f"{value!r} is not a network, as 10.0.0.0/8 is") from None
        return lambda text: (found := _address_or_none(text)) is not None and found in network
    if not value:
        raise KinspectError("no host has an empty name: give an IP address, a network (10.0.0.0/8) or a name")
    if not re.fullmatch(_HOST, value, re.ASCII):
        return glob(value)
    wrong = KinspectError(f"{value!r} is not an IP address, a glob of one (10.0.*) or a network (10.0.0.0/8)")
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


def _address_or_none(text: str) -> IPv4Address | IPv6Address | None:
    """The address; None for a name."""
    try:
        return _address(text)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _address(text: str) -> IPv4Address | IPv6Address:
    from ipaddress import ip_address

    return ip_address(text)
