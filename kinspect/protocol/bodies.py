"""Decoding of bodies to plain data, whatever the bytes: by the compiled decoder if it fits, else by the interpreter.

A version whose bytes changed while it was unstable has several layouts. The stable one is tried first, then
the older ones; the first that uses up the bytes exactly is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kinspect.model import RESPONSE, Problem
from kinspect.protocol import compiler, schema
from kinspect.protocol.apikeys import API_VERSIONS
from kinspect.protocol.compiler import Decode
from kinspect.protocol.memory import MAX_MEMORY, MOST_PER_BYTE
from kinspect.protocol.primitives import DECODE_FAILURES, UNKNOWN_TAGS
from kinspect.protocol.projection import Body, Projection, projection
from kinspect.protocol.schema import Layout
from kinspect.wording import counted

if TYPE_CHECKING:
    from kinspect.protocol.interpreter import ReadResult

_UNSUPPORTED_VERSION: Final = 35


class Decoded:
    """A body, and the result of reading it.

    `body`: the fields as plain values (see `codec.Message`), None if the layout is unknown. `layout`: the one that was
    used; its version differs from the requested one if a broker fell back to version 0 of ApiVersions (KIP-511).
    `complete` is false if reading stopped before the last field. `problems`: damage, each with a code of
    `model.PROBLEM_CODES`.
    """

    __slots__ = ("body", "complete", "layout", "problems")

    def __init__(
        self, body: Body | None, layout: Layout | None, complete: bool, problems: tuple[Problem, ...] = ()
    ) -> None:
        self.body = body
        self.layout = layout
        self.complete = complete
        self.problems = problems


_Candidates = tuple[tuple[Layout, Decode], ...]

# Only existing layouts are added, so that the contents of captures cannot make it grow without bound.
_known: Final[dict[tuple[Any, int, str | None, frozenset[str] | None, bool], _Candidates]] = {}
schema.MADE.append(_known)


def decode_body(
    api_key: int,
    api_version: int,
    direction: str,
    data: bytes,
    start: int,
    end: int,
    fields: frozenset[str] | None = None,
    base: int | None = None,
    max_memory: int = MAX_MEMORY,
) -> Decoded:
    """Decode the body in `data[start:end]`. Never raises, whatever the bytes.

    `direction`: `request` or `response`. `fields`: dotted paths to decode, as `topics.name`; None: all fields (for a
    version with several layouts, unknown tagged fields of the body are included). `base`: index in `data` at which the
    message begins (after its 4-byte size), from which the offsets of problems count; default: `start`. A body that
    would take more than `max_memory` bytes, by the estimate of `memory`, is read up to that point, with a problem
    `cap`.
    """
    bounded = (end - start) * MOST_PER_BYTE > max_memory
    key = (api_key, api_version, direction, fields, bounded)
    candidates = _known.get(key)
    if candidates is None:
        candidates = _candidates(schema.layouts(api_key, api_version, direction), fields, bounded)
        if candidates:
            _known[key] = candidates
    decoded = _fitting(candidates, data, start, end, max_memory)
    if decoded:
        return decoded
    if api_key == API_VERSIONS and direction == RESPONSE:
        fallback = _version_fallback(data, start, end, fields, max_memory)
        if fallback:
            return fallback
    if not candidates:
        return _unknown(api_key, api_version, direction)
    layouts = [layout for layout, _ in candidates]
    return _explain(layouts, data, start, end, fields, start if base is None else base, max_memory)


def decode_record(
    name: str,
    version: int,
    data: bytes,
    start: int,
    end: int,
    fields: frozenset[str] | None = None,
    max_memory: int = MAX_MEMORY,
) -> Decoded:
    """Decode the record message `name` (`TopicRecord`, `OffsetCommitValue`, …) in `data[start:end]`. Never raises.

    The result is that of `decode_body`; offsets of problems count from `start`.
    """
    bounded = (end - start) * MOST_PER_BYTE > max_memory
    key = (name, version, None, fields, bounded)
    candidates = _known.get(key)
    if candidates is None:
        candidates = _candidates(schema.record_layouts(name, version), fields, bounded)
        if not candidates:
            problem = Problem(None, "unknown_version", f"no layout known of {name} version {version}")
            return Decoded(None, None, False, (problem,))
        _known[key] = candidates
    decoded = _fitting(candidates, data, start, end, max_memory)
    layouts = [layout for layout, _ in candidates]
    return decoded or _explain(layouts, data, start, end, fields, start, max_memory)


def fits(api_key: int, api_version: int, direction: str, data: bytes, start: int, end: int) -> bool:
    """True if a layout of that version uses up the bytes exactly. Nothing is built, and text is not checked."""
    for layout in schema.layouts(api_key, api_version, direction):
        try:
            _, pos = compiler.skipper(layout)(data, start, end)
        except DECODE_FAILURES:
            continue
        if pos == end:
            return True
    return False


def restrict(body: Body, wanted: Projection) -> Body:
    """Remove from `body` what the projection does not ask for, in place: a copy would take as much memory again."""
    for name in [name for name in body if name not in wanted]:
        del body[name]
    for name, value in body.items():
        _restrict_value(value, wanted[name])
    return body


def _restrict_value(value: Any, wanted: Projection | None) -> None:
    if wanted is None:
        return
    for struct in value if isinstance(value, list) else [value]:
        if isinstance(struct, dict):
            restrict(struct, wanted)


def _candidates(layouts: tuple[Layout, ...], fields: frozenset[str] | None, bounded: bool) -> _Candidates:
    if len(layouts) > 1 and fields is not None:
        fields |= {UNKNOWN_TAGS}
    return tuple((layout, compiler.decoder(layout, fields, bounded)) for layout in layouts)


def _fitting(candidates: _Candidates, data: bytes, start: int, end: int, room: int) -> Decoded | None:
    """Decode with the first layout that uses up the bytes exactly.

    One that does so without unknown tagged fields is preferred: the empty fields that only an early-access layout has
    may look like such tags.
    """
    second = None
    for layout, decode in candidates:
        try:
            body, pos = decode(data, start, end, room)
        except DECODE_FAILURES:
            continue
        if pos == end:
            decoded = Decoded(body, layout, True)
            if len(candidates) == 1 or UNKNOWN_TAGS not in body:
                return decoded
            second = second or decoded
    return second


def _version_fallback(
    data: bytes, start: int, end: int, fields: frozenset[str] | None, room: int
) -> Decoded | None:
    """Decode the answer of a broker that does not know the requested version: version 0, with error 35 (KIP-511)."""
    layout = schema.layout(API_VERSIONS, 0, RESPONSE)
    if layout is None:
        return None
    try:
        body, pos = compiler.decoder(layout, bounded=True)(data, start, end, room)
    except DECODE_FAILURES:
        return None
    if pos != end or body["error_code"] != _UNSUPPORTED_VERSION:
        return None
    if fields is not None:
        body = restrict(body, projection(fields))
    return Decoded(body, layout, True)


def _unknown(api_key: int, api_version: int, direction: str) -> Decoded:
    name = schema.api_name(api_key)
    if name is None:
        problem = Problem(direction, "unknown_api", f"no API with key {api_key} is known")
    else:
        problem = Problem(direction, "unknown_version", f"{name} version {api_version} is not known")
    return Decoded(None, None, False, (problem,))


def _explain(
    layouts: list[Layout],
    data: bytes,
    start: int,
    end: int,
    fields: frozenset[str] | None,
    base: int,
    max_memory: int,
) -> Decoded:
    """Read a body that the compiled decoders refused: in the layout that fits but for text, else in the stable one."""
    layout, reading = _best(layouts, data, start, end, base, max_memory)
    problems = reading.problems
    failure = reading.failure
    if failure is not None:
        code, how = ("cap", "is cut") if reading.full else ("malformed", "does not fit")
        message = f"{layout.name} version {layout.version} {how} at {failure.path}: {failure.message}"
        offset = failure.offset - base
        problems += (Problem(layout.direction, code, message, offset, end - failure.offset, failure.path),)
    elif reading.end != end:
        surplus = end - reading.end
        message = f"{counted(surplus, 'trailing byte', '')} after {layout.name} version {layout.version}"
        problems += (Problem(layout.direction, "trailing_bytes", message, reading.end - base, surplus),)
    body = reading.body if fields is None else restrict(reading.body, projection(fields))
    return Decoded(body, layout, failure is None, problems)


def _best(
    layouts: list[Layout], data: bytes, start: int, end: int, base: int, max_memory: int
) -> tuple[Layout, ReadResult]:
    """The first of the least strange readings; only one other is held at a time."""
    from kinspect.protocol.interpreter import interpret  # most captures have no such body

    layout = layouts[0]
    reading = interpret(layout, data, start, end, base=base, max_memory=max_memory)
    for other in layouts[1:]:
        another = interpret(other, data, start, end, base=base, max_memory=max_memory)
        if _strangeness(another, end) < _strangeness(reading, end):
            layout, reading = other, another
    return layout, reading


def _strangeness(reading: ReadResult, end: int) -> int:
    """Rank of a reading: 0 if it uses up the bytes, 1 if it does so with unknown tagged fields, 2 if it does not."""
    if reading.failure is not None or reading.end != end:
        return 2
    return 1 if UNKNOWN_TAGS in reading.body else 0
