"""Possible readings of some bytes as a message: every one that fits, the likeliest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kinspect.errors import KinspectError
from kinspect.kafka.connection import orphans
from kinspect.kafka.connection.recognise import is_text
from kinspect.model import REQUEST, RESPONSE, Caps
from kinspect.protocol import decode_body, interpreter, schema
from kinspect.protocol.interpreter import ReadResult
from kinspect.protocol.schema import Api

FITS, TRAILING, CUT, BROKEN = "fits", "trailing", "cut", "broken"
"""Fit of a message: to its last byte; with bytes behind it; with bytes missing; none."""

SIZE_BYTES = 4
MOST_BYTES = Caps().message_bytes
TRIED_BYTES = 64 * 1024
"""Bytes of a cut response that are tried under every layout."""
TRIED_MEMORY = 1 << 20
MOST_MEMORY = 32 << 20
"""Memory that a decoded message and its spans may take."""
API_KEY_BYTES, API_VERSION_BYTES = slice(0, 2), slice(2, 4)
FITTING, CUT_REQUEST, CUT_EARLY, CUT_RESPONSE, UNLIKELY, NO_GUESS = 2, 4, 5, (5,), 7, (8,)
"""Ranks. Candidates ranked behind `CUT_RESPONSE` are less likely than a response that was cut."""
NEWEST_VERSION = 99
"""Version above which a request of an unknown API is hardly one."""
SHORT_BYTES = 8
"""Fewer bytes may begin a response, or a request of the first API, whose key shows little."""
TOO_MANY_LEFT = 8
"""Number of bytes behind a request beyond which a response that fits is likelier."""


class MessageBytes(NamedTuple):
    """The bytes of a message without its size. `size`: the announced size, None where there is none. `after`: number of
    bytes that follow the message."""

    data: bytes
    size: int | None
    after: int = 0

    @property
    def missing(self) -> int:
        """Number of bytes that the size announces and that are not there."""
        return 0 if self.size is None else max(self.size - len(self.data), 0)


class MessageOptions(NamedTuple):
    """Facts about the message from the options; None if not given."""

    direction: str | None
    api: Api | None
    version: int | None


class Guess(NamedTuple):
    """One way to read the bytes. `amount`: number of bytes that are left over, or at least missing."""

    message: MessageBytes
    direction: str
    api_key: int | None
    version: int | None
    fit: str
    amount: int = 0


def header(data: bytes, direction: str, key: int | None, version: int | None) -> ReadResult:
    """The message's header, with the spans of its fields."""
    header_version = schema.header_version(key or 0, version or 0, direction)
    return interpreter.interpret(
        schema.header_layout(direction, header_version),
        data,
        0,
        len(data),
        spans=True,
        max_memory=MOST_MEMORY,
    )


def request_api(data: bytes) -> tuple[int | None, int | None]:
    """The API's key and version in a request's header, None for each that is not whole."""
    pieces = (data[API_KEY_BYTES], data[API_VERSION_BYTES])
    key, version = (int.from_bytes(piece, signed=True) if len(piece) == 2 else None for piece in pieces)
    return key, version


def begins_request(data: bytes) -> bool:
    """True if the first bytes are the key and the version of an API, which are no text that a login could have."""
    key, version = request_api(data)
    return key is not None and version is not None and schema.layout(key, version, REQUEST) is not None


def framings(data: bytes, size_first: bool | None) -> list[MessageBytes]:
    """The message read with a size before it, without, or (None) in each way that is possible; a size that fits exactly
    is taken as one.

    Raises KinspectError if there must be a size and the bytes cannot be one."""
    size, left = int.from_bytes(data[:SIZE_BYTES], signed=True), len(data) - SIZE_BYTES
    plain = MessageBytes(data, None)
    if size_first is False:
        return [plain]
    possible = left > 0 and 0 < size <= MOST_BYTES
    end = SIZE_BYTES + size
    sized = [MessageBytes(data[SIZE_BYTES:end], size, max(len(data) - end, 0))] if possible else []
    if size_first and not sized:
        raise KinspectError(f"the first 4 bytes are no size of a message: {size}")
    return sized if size_first or size == left else [plain, *sized]


def find(framings: Iterable[MessageBytes], options: MessageOptions) -> list[Guess]:
    """The candidates, the likeliest first."""
    found: list[Guess] = []
    for message in framings:
        if options.direction != RESPONSE:
            found += _requests(message, options)
        if options.direction != REQUEST:
            found += _responses(message, options)
    if options.direction != REQUEST and min(map(_rank, found), default=NO_GUESS) > CUT_RESPONSE:
        for message in framings:
            found += _cut_responses(message, options)
    return sorted(found, key=_rank)


def others(found: list[Guess]) -> list[Guess]:
    """Candidates worth a look beside the first: those that fit, and those that are cut and as likely."""
    best, *rest = found
    likely = max(_rank(best)[0], CUT_REQUEST)
    return [
        one for one in rest if one.fit in (FITS, TRAILING) or (one.fit == CUT and _rank(one)[0] <= likely)
    ]


def is_told(best: Guess, options: MessageOptions) -> bool:
    """True if the best candidate is no guess: a request says its API itself, that of a response is an option. What is
    left of a message fits many APIs: then its client id must be there, or its version an option."""
    if best.direction == REQUEST:
        return options.direction == REQUEST or best.fit == FITS or options.api is not None or _is_clear(best)
    return options.api is not None and (best.fit == FITS or options.version is not None)


def _rank(candidate: Guess) -> tuple[int, ...]:
    """Sort key by likelihood: a request names its API; of equals the reading with a size before it is likelier."""
    is_response = candidate.direction == RESPONSE
    clear = not is_response and _is_clear(candidate)
    if candidate.message.after and not clear:
        # Any number may look like the size of a shorter message.
        order = UNLIKELY
    elif is_response:
        order = {FITS: FITTING, CUT: 5, TRAILING: 6, BROKEN: UNLIKELY}[candidate.fit]
    elif candidate.fit == FITS or clear:
        order = 0 if candidate.fit == FITS else 1
    elif _is_foreign(candidate):
        order = FITTING
    else:
        order = {TRAILING: 3, CUT: _cut_request(candidate), BROKEN: UNLIKELY}[candidate.fit]
    doubts = _doubts(candidate) if is_response and candidate.fit == FITS else 0
    return order, int(is_response), doubts, candidate.message.size is None, candidate.amount


def _cut_request(candidate: Guess) -> int:
    if candidate.api_key:
        return CUT_REQUEST
    short = candidate.version is not None and len(candidate.message.data) < SHORT_BYTES
    return CUT_EARLY if short else 6


def _is_clear(candidate: Guess) -> bool:
    """True if a request, even one that does not fit, hardly looks like one by chance: it has a client id, and an API
    other than the first, whose key and version look like the correlation ids of many responses."""
    read = header(candidate.message.data, REQUEST, candidate.api_key, candidate.version)
    few = candidate.fit in (FITS, CUT) or (candidate.fit == TRAILING and candidate.amount <= TOO_MANY_LEFT)
    known = bool(candidate.api_key) and schema.api(candidate.api_key or 0) is not None
    return is_text(read.body.get("client_id")) and (few or known)


def _is_foreign(candidate: Guess) -> bool:
    """True for a request of an API that is not known, as of a fork: its header has a client id and a low version."""
    key, version = candidate.api_key, candidate.version
    if key is None or version is None or key < 0 or schema.api(key) or not 0 <= version <= NEWEST_VERSION:
        return False
    return is_text(header(candidate.message.data, REQUEST, key, version).body.get("client_id"))


def _requests(message: MessageBytes, options: MessageOptions) -> Iterator[Guess]:
    data = message.data
    key, version = request_api(data)
    api = None if key is None else schema.api(key)
    wrong_api = options.api is not None and options.api.key != key
    if wrong_api or (options.version is not None and options.version != version):
        return
    read = header(data, REQUEST, key, version)
    if read.failure is not None:
        known = api is None or version is None or version in api.versions
        fit = CUT if read.missing and known and _is_cut(message, read.missing) else BROKEN
        yield Guess(message, REQUEST, key, version, fit, read.missing)
    elif api is None or version is None or version not in api.versions:
        yield Guess(message, REQUEST, key, version, BROKEN)
    else:
        yield _fitted(message, REQUEST, api, version, read.end)


def _responses(message: MessageBytes, options: MessageOptions) -> Iterator[Guess]:
    if options.api is not None and options.version is not None:
        read = header(message.data, RESPONSE, options.api.key, options.version)
        if read.failure is not None:
            fit = CUT if read.missing and _is_cut(message, read.missing) else BROKEN
            yield Guess(message, RESPONSE, options.api.key, options.version, fit, read.missing)
        else:
            yield _fitted(message, RESPONSE, options.api, options.version, read.end)
    elif not message.missing:
        for _, key, version in orphans.fitting_versions(message.data):
            if (options.api is None or options.api.key == key) and options.version in (None, version):
                yield Guess(message, RESPONSE, key, version, FITS)


def _cut_responses(message: MessageBytes, options: MessageOptions) -> Iterator[Guess]:
    """Responses that the bytes could be the beginning of."""
    whole = MessageBytes(message.data[:TRIED_BYTES], message.size)
    for api in schema.apis() if options.api is None else (options.api,):
        for version in api.versions if options.version is None else (options.version,):
            read = header(whole.data, RESPONSE, api.key, version)
            if read.failure is None:
                found = _fitted(whole, RESPONSE, api, version, read.end, TRIED_MEMORY)
                if found.fit == CUT:
                    yield found._replace(message=message)


def _fitted(
    message: MessageBytes, direction: str, api: Api, version: int, start: int, most: int = MOST_MEMORY
) -> Guess:
    """The candidate with the fit of its body, under the layout that fits best."""
    data = message.data
    best = Guess(message, direction, api.key, version, BROKEN)
    for layout in schema.layouts(api.key, version, direction):
        read = interpreter.interpret(layout, data, start, len(data), max_memory=most)
        left = len(data) - read.end
        if read.failure is None:
            if message.missing:
                return best._replace(fit=CUT, amount=message.missing)
            if not left:
                return best._replace(fit=FITS, amount=0)
            best = best._replace(fit=TRAILING, amount=left)
        elif read.full:
            best = best._replace(fit=FITS, amount=0)
        elif best.fit == BROKEN and read.missing and _is_cut(message, read.missing):
            best = best._replace(fit=CUT, amount=read.missing)
    return best


def _is_cut(message: MessageBytes, missing: int) -> bool:
    """True if this number of bytes may be missing: the announced size, or the limit on a message, allows it."""
    return missing <= (MOST_BYTES if message.size is None else message.missing)


def _doubts(candidate: Guess) -> int:
    """Number of values that a broker would hardly send: error codes without a name, invalid text, empty lists."""
    data, key, version = candidate.message.data, candidate.api_key or 0, candidate.version or 0
    start = header(data, RESPONSE, key, version).end
    decoded = decode_body(key, version, RESPONSE, data, start, len(data), None, 0, MOST_MEMORY)
    return len(decoded.problems) + _doubtful(decoded.body)


def _doubtful(value: Any) -> int:
    if isinstance(value, dict):
        unnamed = value.get("error_code", 0) not in schema.errors()
        return int(unnamed) + sum(map(_doubtful, value.values()))
    if isinstance(value, list):
        return sum(map(_doubtful, value)) if value else 1
    return 0
