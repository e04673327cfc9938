"""Metrics that clients push to brokers (KIP-714): OTLP's `MetricsData`, in PushTelemetry.

Read field by field, so that nothing is held but one point: a megabyte can say that a million of them follow. Fields
that protobuf would merge, as no writer sends them, are the last of them.

Sources: KIP-714; OpenTelemetry's metrics.proto, common.proto and resource.proto (v1); protobuf's encoding guide.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from typing import Any, Final

from kinspect.jsontext import float_value, json_text
from kinspect.records.compression import CompressionError, decompress

Struct = dict[str, Any]
Numbered = dict[int, Any]
"""Fields by their numbers, the last of each."""

MOST_BYTES: Final = 8 << 20
"""Bytes that a push may expand to; brokers take a MiB of compressed ones unless told otherwise."""
MOST_POINTS: Final = 10_000
"""Points of a push: a row each."""
MOST_FIELDS: Final = 300_000
"""Fields of a push that are looked at, some of them several times, and values of packed ones."""
MOST_REPEATED: Final = 8 << 20
"""Characters of what points have in common with others, as each of them has it: an empty point needs two bytes."""
MOST_SET: Final = 8192
"""Bytes of a name, and of a set of attributes: each stands in many rows."""
MOST_NESTED: Final = 8
"""Lists within lists of an attribute's value."""
NO_VALUE: Final = 1
"""Flag of a point: nothing was recorded."""
_AROUND: Final = ("resource", "scope")
_OF_METRIC: Final = ("metric", "type", "temporality", "monotonic", "unit")
_REPEATED: Final = (*_AROUND, *_OF_METRIC)
TEMPORALITIES: Final = {1: "delta", 2: "cumulative"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT: Final = 10
_U64: Final = (1 << 64) - 1
_NOTHING: Final = memoryview(b"")
_WRONG_TYPE: Final = "is no metrics of OTLP: a field of the wrong wire type or size"


class PushError(Exception):
    """Metrics that cannot be read, or not all of them; the text is for people."""


GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = "gauge", "sum", "histogram", "exponential_histogram", "summary"


def read_push(codec: int, data: bytes) -> Iterator[Struct]:
    """The points of a push, each with what is said of its metric. Raises PushError behind those before the fault."""
    try:
        expanded = decompress(codec, data, MOST_BYTES)
    except CompressionError as error:
        raise PushError(str(error)) from None
    if len(expanded) > MOST_BYTES:
        raise PushError(f"has more than {MOST_BYTES} bytes")
    room = MOST_REPEATED
    for number, point in enumerate(_PushReader().points(memoryview(expanded))):
        if number == MOST_POINTS:
            raise PushError(f"has more than {MOST_POINTS} points: the others are left out")
        room -= len(json_text([point[name] for name in _REPEATED]))
        if room < 0:
            raise PushError(
                f"repeats names and attributes beyond {MOST_REPEATED} bytes: other points are left out"
            )
        yield point


def decode_push(codec: int, data: bytes) -> list[Struct] | None:
    """The metrics of a push, each with its points, below what they are of; None if not all can be read."""
    found: list[Struct] = []
    try:
        for point in read_push(codec, data):
            of, metric = ({name: point.pop(name) for name in names} for names in (_AROUND, _OF_METRIC))
            metrics = _below(found, of, "metrics")
            _below(metrics, metric, "points").append(point)
    except PushError:
        return None
    return found


def _below(found: list[Struct], one: Struct, name: str) -> list[Struct]:
    """The list `name` of the last one that was found, or of this one, if it is another."""
    if not found or any(found[-1][key] != value for key, value in one.items()):
        found.append({**one, name: []})
    below: list[Struct] = found[-1][name]
    return below


class _PushReader:
    """Reads one push."""

    def __init__(self) -> None:
        self._left = MOST_FIELDS

    def points(self, data: memoryview) -> Iterator[Struct]:
        for resource_metrics in self._each(data, 1):
            resource = self._set(self._last(resource_metrics, 1), 1)
            for scope_metrics in self._each(resource_metrics, 2):
                scope = _text(self._last(self._last(scope_metrics, 1), 1))
                for metric in self._each(scope_metrics, 2):
                    for point in self._points(metric):
                        yield {"resource": resource, "scope": scope or None, **point}

    def _points(self, metric: memoryview) -> Iterator[Struct]:
        name, unit = _text(self._last(metric, 1)), _text(self._last(metric, 3))
        for number, value in self._fields(metric):
            if number in _KINDS:
                kind, read = _KINDS[number]
                told = dict(self._fields(_sized(value)))
                temporality = TEMPORALITIES.get(_int(told.get(2, 0))) if kind in _OVER_TIME else None
                monotonic = bool(_int(told.get(3, 0))) if kind == SUM else None
                del told
                for point in self._each(value, 1):
                    yield {
                        "metric": name,
                        "type": kind,
                        "temporality": temporality,
                        "monotonic": monotonic,
                        "unit": unit or None,
                        **read(self, point),
                    }

    # ---------------------------------------------------------------------- points

    def _around(self, found: Numbered, point: memoryview, attributes: int) -> Struct:
        return {
            "attributes": self._set(point, attributes),
            "start_time_ns": _fixed(found.get(2)) or None,
            "time_ns": _fixed(found.get(3)) or None,
        }

    def _number(self, point: memoryview) -> Struct:
        found = dict(self._fields(point))
        value: Any = None
        if not _int(found.get(8, 0)) & NO_VALUE:
            value = _signed(_fixed(found[6])) if 6 in found else _double(found.get(4))
        return {**self._around(found, point, 7), "value": value, "histogram": None}

    def _histogram(self, point: memoryview) -> Struct:
        found = dict(self._fields(point))
        return {
            **self._around(found, point, 9),
            "value": None,
            "histogram": {
                **self._sums(found, 11),
                "bounds": [_double(each) for each in self._packed(point, 7)],
                "counts": [_fixed(each) for each in self._packed(point, 6)],
            },
        }

    def _exponential(self, point: memoryview) -> Struct:
        found = dict(self._fields(point))
        return {
            **self._around(found, point, 1),
            "value": None,
            "histogram": {
                **self._sums(found, 12),
                "scale": _zigzag(_int(found.get(6, 0))),
                "zero_count": _fixed(found.get(7)),
                "positive": self._buckets(found.get(8, _NOTHING)),
                "negative": self._buckets(found.get(9, _NOTHING)),
            },
        }

    def _summary(self, point: memoryview) -> Struct:
        found = dict(self._fields(point))
        quantiles = [dict(self._fields(each)) for each in self._each(point, 6)]
        return {
            **self._around(found, point, 7),
            "value": None,
            "histogram": {
                "count": _fixed(found.get(4)),
                "sum": _double(found.get(5)) or 0.0,
                "quantiles": [
                    {"quantile": _double(each.get(1)) or 0.0, "value": _double(each.get(2)) or 0.0}
                    for each in quantiles
                ],
            },
        }

    def _sums(self, found: Numbered, least: int) -> Struct:
        """Count, sum and extremes. `least`: the field of the least value; that of the most is the next one."""
        names = {"sum": 5, "min": least, "max": least + 1}
        return {
            "count": _fixed(found.get(4)),
            **{name: _double(found.get(number)) for name, number in names.items()},
        }

    def _buckets(self, data: Any) -> Struct:
        offset, counts = 0, list[int]()
        for number, value in self._fields(_sized(data)):
            if number == 1:
                offset = _zigzag(_int(value))
            elif number == 2:
                counts += [value] if isinstance(value, int) else self._varints(value)
        return {"offset": offset, "counts": counts}

    # ---------------------------------------------------------------------- attributes

    def _set(self, data: memoryview, number: int, depth: int = 0) -> Struct:
        """The attributes in these fields of a message."""
        found: Struct = {}
        room = MOST_SET
        for each in self._each(data, number):
            room -= len(each)
            if room < 0:
                raise PushError(f"a set of attributes has more than {MOST_SET} bytes")
            found[_text(self._last(each, 1))] = self._value(self._last(each, 2), depth)
        return found

    def _value(self, data: memoryview, depth: int) -> Any:
        if depth > MOST_NESTED:
            raise PushError(f"an attribute nests deeper than {MOST_NESTED} lists")
        shown: Any = None
        for number, value in self._fields(data):
            if number == 1:
                shown = _text(value)
            elif number == 2:
                shown = bool(_int(value))
            elif number == 3:
                shown = _signed(_int(value))
            elif number == 4:
                shown = _double(value)
            elif number == 5:
                shown = [self._value(each, depth + 1) for each in self._each(_sized(value), 1)]
            elif number == 6:
                shown = self._set(_sized(value), 1, depth + 1)
            elif number == 7:
                shown = b2a_base64(_sized(value), newline=False).decode("ascii")
        return shown

    # ---------------------------------------------------------------------- protobuf

    def _count(self, fields: int) -> None:
        self._left -= fields
        if self._left < 0:
            raise PushError(f"has more than {MOST_FIELDS} fields: what is behind them is left out")

    def _fields(self, data: memoryview) -> Iterator[tuple[int, Any]]:
        """Numbers and values of a message's fields: an int, or the bytes of what has a size."""
        position, end = 0, len(data)
        while position < end:
            self._count(1)
            tag, position = _varint(data, position)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                value, position = _varint(data, position)
                yield number, value
                continue
            if kind == _BYTES:
                size, position = _varint(data, position)
            elif kind in _SIZES:
                size = _SIZES[kind]
            else:
                raise PushError("is no metrics of OTLP: a field of an unknown wire type")
            if size > end - position:
                raise PushError("is cut off, or no metrics of OTLP")
            yield number, data[position : position + size]
            position += size

    def _each(self, data: memoryview, number: int) -> Iterator[memoryview]:
        """The messages in these fields."""
        for found, value in self._fields(data):
            if found == number:
                yield _sized(value)

    def _last(self, data: memoryview, number: int) -> memoryview:
        """The last of these fields; empty where there is none."""
        last = _NOTHING
        for each in self._each(data, number):
            last = each
        return last

    def _packed(self, point: memoryview, number: int) -> Iterator[memoryview]:
        """The values of eight bytes in these fields, each alone or many together."""
        for value in self._each(point, number):
            self._count(len(value) // 8)
            for at in range(0, len(value), 8):
                yield value[at : at + 8]

    def _varints(self, data: memoryview) -> Iterator[int]:
        position = 0
        while position < len(data):
            self._count(1)
            value, position = _varint(data, position)
            yield value


_KINDS: Final[dict[int, tuple[str, Callable[[_PushReader, memoryview], Struct]]]] = {
    5: (GAUGE, _PushReader._number),
    7: (SUM, _PushReader._number),
    9: (HISTOGRAM, _PushReader._histogram),
    10: (EXPONENTIAL, _PushReader._exponential),
    11: (SUMMARY, _PushReader._summary),
}
"""Kinds of metrics by the field of a metric, and what reads one of its points."""
_OVER_TIME: Final = frozenset({SUM, HISTOGRAM, EXPONENTIAL})


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    if position < len(data) and data[position] < 128:
        return data[position], position + 1
    for shift, byte in enumerate(data[position : position + _MOST_VARINT]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value & _U64, position + shift + 1
    raise PushError("is cut off, or no metrics of OTLP")


def _text(value: Any) -> str:
    text = _sized(value)
    if len(text) > MOST_SET:
        raise PushError(f"a name has more than {MOST_SET} bytes")
    return str(text, "utf-8", "replace")


def _sized(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise PushError(_WRONG_TYPE)
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise PushError(_WRONG_TYPE)
    return value


def _eight(value: Any) -> memoryview:
    data = _sized(value)
    if len(data) != 8:
        raise PushError(_WRONG_TYPE)
    return data


def _fixed(value: Any) -> int:
    """An integer of eight bytes; 0 for a field that is not there."""
    return 0 if value is None else int.from_bytes(_eight(value), "little")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _double(value: Any) -> Any:
    """A float of eight bytes, as JSON has it; None for a field that is not there."""
    return None if value is None else float_value(struct.unpack("<d", _eight(value))[0])
