"""Names and counts from both bodies of an exchange: topics, partitions, groups, records, errors, problems.

A layout is compiled once into steps that look only at the fields of interest; a body without any costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kinspect.kafka.fields import entities, envelope, resources, sasl
from kinspect.kafka.wire.message import NOTHING_DECODED
from kinspect.kafka.wire.pair import ANSWERED, NO_RESPONSE
from kinspect.model import FRAME_BITS, REQUEST, RESPONSE, Caps, Counts, Problem
from kinspect.protocol import schema
from kinspect.protocol.apikeys import API_VERSIONS, ENVELOPE, FIND_COORDINATOR, SASL_AUTHENTICATE
from kinspect.protocol.fieldpaths import Kind, each_field, field_paths
from kinspect.protocol.primitives import ZERO_UUID
from kinspect.records import RecordSet
from kinspect.records import batches as read_records
from kinspect.records import summarise as read_batches

if TYPE_CHECKING:
    from kinspect.kafka.wire.message import WireMessage
    from kinspect.kafka.wire.pair import Pair
    from kinspect.protocol import Decoded
    from kinspect.protocol.schema import Field, Layout


ERRORS_SHOWN: Final = 100
NO_ERRORS: Final[dict[int, int]] = {}
NO_FIELDS: Final[dict[str, Any]] = {}
# APIs with error codes beyond their version's layout: in a message inside, in the version that a broker falls back to.
_BEYOND_LAYOUT: Final = frozenset({ENVELOPE, API_VERSIONS})
COORDINATOR_KEYS: Final = frozenset({"coordinator_keys", "key"})
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
UNALIGNED_RECORDS: Final = "unaligned_records"
REQUEST_DATA: Final = "request_data"
RESPONSE_DATA: Final = "response_data"
"""The fields of an Envelope that hold messages."""
INNER_RESPONSE: Final = "response_data_decoded.body"
"""Path at which the view shows the body of the response inside an Envelope."""
UNSURE_LAYOUT: Final = (
    "the request does not fit the layout of its version: this response may be of another layout, too"
)
_SIDE_ORDER: Final[dict[str | None, int]] = {REQUEST: 0, RESPONSE: 1, None: 2}

Struct = dict[str, Any]


class RecordRoom:
    """Remaining limits for the record sets of one exchange: expanded bytes, and records and batches to keep. Held
    twice: for batches alone, and for batches with their records."""

    __slots__ = ("_batches", "_hit", "_records")

    def __init__(self, caps: Caps) -> None:
        self._batches = self._records = (caps.records_bytes, caps.records, caps.records)
        self._hit: set[str] = set()

    def left(self, with_records: bool) -> tuple[int, int, int]:
        """Remaining bytes, records, batches."""
        return self._records if with_records else self._batches

    def spend(self, with_records: bool, found: RecordSet, counts: Counts) -> None:
        """Subtract a record set from the limits, and count those that were reached, each once an exchange."""
        size, records, batches = self.left(with_records)
        left = (
            max(size - found.expanded_bytes, 0),
            max(records - found.kept, 0),
            max(batches - len(found), 0),
        )
        if with_records:
            self._records = left
        else:
            self._batches = left
        if found.caps_hit:
            for cap in found.caps_hit - self._hit:
                counts.hit(cap)
            self._hit |= found.caps_hit


class RecordField:
    """One `records` field that is neither null nor absent; its batches are read on first use."""

    __slots__ = "_aligned _batches _count _counts _given _problems _records _room value".split()

    def __init__(self, value: bytes, aligned: bool, room: RecordRoom, counts: Counts) -> None:
        self.value = value
        self._aligned = aligned
        self._room = room
        self._counts = counts
        self._batches: RecordSet | None = None
        self._records: RecordSet | None = None
        # Limits of the reading with records, which may have been taken since.
        self._given: tuple[int, int, int] | None = None
        self._problems: list[Problem] = []
        self._count: int | None = 0

    def batches(self) -> RecordSet:
        """The batches without their records; read once."""
        if self._batches is None:
            size, _, batches = self._room.left(False)
            self._batches = read_batches(
                self.value, max_bytes=size, max_batches=batches, aligned=self._aligned
            )
            self._room.spend(False, self._batches, self._counts)
        return self._batches

    def take_records(self) -> RecordSet:
        """The batches with their records. The caller may change them, and a second call reads them again."""
        self._read_records()
        found, self._records = self._records, None
        assert self._given is not None
        return found if found is not None else self._with_records(self._given)

    def problems(self, with_records: bool) -> list[Problem]:
        """Problems of the batches, or of the batches and their records."""
        if not with_records:
            return self.batches().problems
        self._read_records()
        return self._problems

    @property
    def count(self) -> int | None:
        """Number of records in all batches; None if a batch of v0 or v1 cannot be expanded."""
        return self._count if self._given is not None else _count(self.batches())

    def _read_records(self) -> None:
        if self._given is None:
            self._given = self._room.left(True)
            self._records = found = self._with_records(self._given)
            self._room.spend(True, found, self._counts)
            self._problems, self._count = found.problems, _count(found)

    def _with_records(self, given: tuple[int, int, int]) -> RecordSet:
        size, records, batches = given
        return read_records(
            self.value, max_bytes=size, max_records=records, max_batches=batches, aligned=self._aligned
        )


NO_RECORDS: Final = RecordField(b"", True, RecordRoom(Caps()), Counts())
"""The field of a record set of no bytes."""


def _count(found: RecordSet) -> int | None:
    total = 0
    for batch in found:
        count = batch_count(batch)
        if count is None:
            return None
        total += count
    return total


def batch_count(batch: dict[str, Any]) -> int | None:
    """Number of records in a batch; None if it is of v0 or v1 and cannot be expanded."""
    count: int | None = batch["count"]
    if count is None:
        return None
    # An uncompressed batch holds no more records than bytes, whatever its header says.
    return max(min(count, batch["size"]) if batch["compression"] == "none" else count, 0)


def _record_count(fields: Iterable[RecordField]) -> int | None:
    """Number of records in the record sets; None if that of one is unknown."""
    total = 0
    for field in fields:
        count = field.count
        if count is None:
            return None
        total += count
    return total


class _Found:
    """Names and counts that the walks of bodies collect; dicts for sets in order of appearance."""

    __slots__ = """
        codes cut ends erring erring_partitions groups inners key key_type opens partitions record_bytes
        record_fields record_topics room topic_ids topics transactional_ids unresolved
    """.split()

    def __init__(self, exchange: Pair, opens: bool = True) -> None:
        self.ends = exchange.connection
        self.key = exchange.key
        self.opens = opens
        self.topics: dict[str, None] = {}
        self.topic_ids: dict[str, None] = {}
        self.unresolved: dict[str, None] = {}
        self.partitions: dict[str, None] = {}
        self.groups: dict[str, None] = {}
        self.transactional_ids: dict[str, None] = {}
        self.codes: dict[int, int] = {}
        self.cut = False
        self.erring: dict[int, dict[str, int]] = {}
        self.erring_partitions: dict[int, dict[str, int]] = {}
        self.record_bytes = 0
        self.record_fields: dict[int, RecordField] = {}
        self.record_topics: dict[str | None, list[RecordField]] = {}
        self.room: RecordRoom | None = None
        self.key_type: int | None = None
        self.inners: dict[str, tuple[bytes, envelope.InnerMessage | None]] = {}

    def message(self, message: WireMessage | None, fields: frozenset[str] | None = None) -> Decoded:
        """Collect from a message, as far as it could be decoded; return what was decoded."""
        decoded = NOTHING_DECODED if message is None else message.facts(fields)
        self.body(decoded)
        if not decoded.complete and message is not None and message.api_key is not None:
            self.cut |= decoded.layout is None or layout_walk(decoded.layout) is not None
        return decoded

    def body(self, decoded: Decoded) -> None:
        body, layout = decoded.body, decoded.layout
        walk = None if body is None or layout is None else layout_walk(layout)
        if walk is None or body is None or layout is None:
            return
        if layout.api_key == FIND_COORDINATOR and layout.direction == REQUEST:
            # It may stand behind the keys (KIP-98); v0 has none, its keys are groups.
            self.key_type = body.get("key_type") if layout.version else GROUP_KEY
        walk.collect(body, self, None)

    def topic(self, name: str | None, topic_id: str | None) -> str | None:
        """The topic of a struct that names it so."""
        if topic_id is not None and topic_id != ZERO_UUID:
            self.topic_ids[topic_id] = None
            if not name:
                name = self.ends.names.name(topic_id, self.key)
            if name is None:
                self.unresolved[topic_id] = None
                name = topic_id
        if name is not None:
            self.topics[name] = None
        return name

    def names(self, kind: int, names: Iterable[str]) -> None:
        """Topics, groups or transactional ids, by a step's kind."""
        of_kind = {_TOPIC: self.topics, _GROUP: self.groups, _TRANSACTIONAL_ID: self.transactional_ids}[kind]
        of_kind.update(dict.fromkeys([name for name in names if name is not None]))

    def error(self, code: int, topic: str | None, partition: int | None) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1
        if topic is not None:
            topics = self.erring.setdefault(code, {})
            topics[topic] = topics.get(topic, 0) + 1
            if partition is not None:
                name = f"{topic}-{partition}"
                partitions = self.erring_partitions.setdefault(code, {})
                partitions[name] = partitions.get(name, 0) + 1

    def records(self, value: bytes, topic: str | None, aligned: bool) -> None:
        self.record_bytes += len(value)
        self.room = self.room or RecordRoom(self.ends.caps)
        field = RecordField(value, aligned, self.room, self.ends.counts)
        # By identity: hashing the bytes would read them all, and the body keeps them alive.
        self.record_fields[id(value)] = field
        self.record_topics.setdefault(topic, []).append(field)

    def coordinator_keys(self, keys: Iterable[str]) -> None:
        """Groups or transactional ids, by the request's `key_type`; a share coordinator's keys are neither."""
        if self.key_type == GROUP_KEY:
            self.groups.update(dict.fromkeys(keys))
        elif self.key_type == TRANSACTION_KEY:
            self.transactional_ids.update(dict.fromkeys(keys))

    def inner(self, name: str, value: bytes) -> None:
        """The message in an Envelope's field; the request, which comes first, decides the response's layout."""
        if not self.opens:
            return
        if name == REQUEST_DATA:
            inner = envelope.inner_request(value)
        else:
            request_data, _ = self.inners.get(REQUEST_DATA, (None, None))
            inner = envelope.inner_response(request_data, value)
        self.inners[name] = (value, inner)
        if inner is not None:
            self.body(inner.decoded)


class BodySummary:
    """Names and counts from one exchange's bodies. Lists are whole, each name once, request before response.

    `topics`: names, or ids without a known name, which are also `unresolved_topic_ids`. `partitions`: texts like
    `topic-0`. `error_codes` and `error_names`: those that occur; `error_counts`: number of times that each does;
    `error_count`: sum of these, None if a response that may hold some is missing or cut; `error_topics`,
    `error_partitions`: the topics and the partitions in whose part of the response each stands, and how often. `cut`:
    the lists may lack what stands in a message that could not be read to its end.
    `record_bytes`: bytes of record sets on the wire, None if a message that may hold some is missing or cut.
    `throttle_time_ms` is the response's, `max_wait_ms` the request's, None without such a field. `refusal`: the reason
    with which the broker's SASL token refuses the login, else None. Messages inside an Envelope count as parts of the
    bodies if it `opens` that.
    """

    __slots__ = """
        _found _layout _response cut error_codes error_count error_counts error_names error_partitions
        error_topics groups max_wait_ms partitions record_bytes refusal throttle_time_ms topic_ids topics
        transactional_ids unresolved_topic_ids
    """.split()

    def __init__(self, exchange: Pair, opens: bool = True) -> None:
        found = _Found(exchange, opens)
        request, response = found.message(exchange.request), found.message(exchange.response)
        codes = found.codes
        self.topics = list(found.topics.keys()) if found.topics else []
        self.topic_ids = list(found.topic_ids.keys()) if found.topic_ids else []
        self.unresolved_topic_ids = found.unresolved
        self.partitions = list(found.partitions.keys()) if found.partitions else []
        self.groups = list(found.groups.keys()) if found.groups else []
        self.transactional_ids = list(found.transactional_ids.keys()) if found.transactional_ids else []
        self.error_codes = list(codes.keys()) if codes else []
        self.error_names = [schema.error_name(code, exchange.api_key) for code in codes] if codes else []
        self.error_counts = codes
        self.error_count = sum(codes.values()) if _are_errors_known(exchange, response, found) else None
        self.cut = found.cut
        self.error_topics = found.erring
        self.error_partitions = found.erring_partitions
        self.record_bytes = found.record_bytes if _are_records_known(exchange, request, response) else None
        answer = self._response = response.body or NO_FIELDS
        self.throttle_time_ms: int | None = answer.get("throttle_time_ms")
        self.max_wait_ms: int | None = (request.body or NO_FIELDS).get("max_wait_ms")
        self.refusal = _refusal(exchange, answer)
        self._found = found
        self._layout = response.layout

    @property
    def record_count(self) -> int | None:
        """Number of records in all record sets; None if a set is missing or its number is unknown."""
        if self.record_bytes is None:
            return None
        return _record_count(self._found.record_fields.values()) if self._found.record_fields else 0

    @property
    def record_sets(self) -> dict[str | None, list[RecordField]]:
        """The record sets that were read, by topic, without sets of no bytes."""
        return self._found.record_topics

    @property
    def topic_records(self) -> list[dict[str, Any]]:
        """Records and bytes of the record sets by topic, without sets of no bytes; empty if a set is missing."""
        if self.record_bytes is None or not self._found.record_topics:
            return []
        return [
            {"topic": topic, "count": _record_count(sets), "bytes": sum([len(field.value) for field in sets])}
            for topic, sets in self._found.record_topics.items()
        ]

    @property
    def longest_list(self) -> int:
        """The length of the longest of the lists."""
        found = self._found
        longest = len(found.codes)
        for names in (found.topics, found.topic_ids, found.partitions, found.groups, found.transactional_ids):
            if len(names) > longest:  # noqa: PLR1730 - max() is a call, six times a line
                longest = len(names)
        return max(longest, len(found.record_topics))

    def has_damaged_records(self, with_records: bool) -> bool:
        """True if a record set or, `with_records`, a record is damaged."""
        damaged = False
        # All are read, in their order: they share their limits.
        for field in self._found.record_fields.values():
            if field.problems(with_records):
                damaged = True
        return damaged

    @property
    def record_fields(self) -> list[RecordField]:
        """The record sets that are not empty."""
        return list(self._found.record_fields.values())

    def record_field(self, value: bytes | None) -> RecordField | None:
        """A `records` field of the bodies summarised, known by its very bytes, or of none; None for another."""
        return NO_RECORDS if value == b"" else self._found.record_fields.get(id(value))

    def inner(self, name: str) -> envelope.InnerMessage | None:
        """The message in the field `name` of an Envelope, if it could be read."""
        return self._found.inners[name][1] if name in self._found.inners else None

    def has_inner(self, name: str, value: bytes) -> bool:
        """True if `inner(name)` was read from `value`, known by its very bytes object."""
        return name in self._found.inners and self._found.inners[name][0] is value

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The first 100 errors of the response, each with the path of the struct that holds its code."""
        if not self.error_codes:
            return []
        api_key = None if self._layout is None else self._layout.api_key
        return [
            {
                "path": path,
                "code": code,
                "name": schema.error_name(code, api_key),
                "retriable": schema.error_retriable(code, api_key),
            }
            for path, code in islice(self._errors(), ERRORS_SHOWN)
        ]

    def _errors(self) -> Iterator[tuple[str, int]]:
        sides = [("", self._layout, self._response)]
        inner = self.inner(RESPONSE_DATA)
        if inner is not None:
            sides.append((INNER_RESPONSE, inner.decoded.layout, inner.decoded.body or {}))
        for prefix, layout, body in sides:
            if layout is not None:
                for path, struct, name in field_paths(layout, entities.is_error_code).walk(body, prefix):
                    if struct[name]:
                        yield path, struct[name]


def _refusal(exchange: Pair, response: Struct) -> str | None:
    if exchange.api_key == SASL_AUTHENTICATE:
        token = response.get("auth_bytes")
    elif _is_token(exchange) and exchange.response is not None:
        token = exchange.response.raw
    else:
        return None
    return sasl.refusal(token) if token else None


def _is_token(exchange: Pair) -> bool:
    """True for a raw SASL token, which has no header."""
    return exchange.api_key is None and exchange.correlation_id is None


def _are_records_known(exchange: Pair, request: Decoded, response: Decoded) -> bool:
    """True if each message that may hold record sets is there and could be read to its end."""
    return (request.complete or not _may_hold(exchange, REQUEST, entities.is_records)) and (
        response.complete or not _may_hold(exchange, RESPONSE, entities.is_records)
    )


def _are_errors_known(exchange: Pair, response: Decoded, found: _Found) -> bool:
    """True if a response that may hold error codes is there and could be read to its end, or none was due."""
    if response.complete:
        return RESPONSE_DATA not in found.inners or found.inners[RESPONSE_DATA][1] is not None
    return exchange.outcome == NO_RESPONSE or not _may_hold(exchange, RESPONSE, entities.is_error_code)


def _may_hold(exchange: Pair, direction: str, kind: Kind) -> bool:
    """True if a message of the exchange may hold fields of a kind."""
    key, version = exchange.api_key, exchange.api_version
    if key is None or version is None:
        # A token holds none; an orphan may be the answer to anything.
        return not _is_token(exchange)
    return _layouts_hold(key, version, direction, kind)


@lru_cache(maxsize=4096)
def _layouts_hold(api_key: int, api_version: int, direction: str, kind: Kind) -> bool:
    api = schema.api(api_key)
    if api is None:
        return True
    # For an unknown version, the layouts of the known ones.
    known = (api_version,) if api_version in api.versions else tuple(api.versions)
    layouts = [layout for version in known for layout in schema.layouts(api_key, version, direction)]
    return any([bool(field_paths(layout, kind)) for layout in layouts])


def summary_of(exchange: Pair) -> BodySummary:
    """The exchange's summary; computed once."""
    found = exchange.summarised
    if not isinstance(found, BodySummary):
        found = exchange.summarised = BodySummary(exchange)
    return found


def error_counts(exchange: Pair) -> dict[int, int]:
    """Number of times each error code occurs in the response: nothing else of the bodies is decoded; computed once."""
    found = exchange.counted_errors
    if found is None:
        found = exchange.counted_errors = _error_counts(exchange)
    return found


def succeeded(exchange: Pair) -> bool:
    """True for a request whose answer is certain to be its own and to hold no error code; none was cut off."""
    response = exchange.response
    if exchange.outcome != ANSWERED or response is None or exchange.is_uncertain or error_counts(exchange):
        return False
    return response.complete or summary_of(exchange).error_count == 0


def _error_counts(exchange: Pair) -> dict[int, int]:
    message = exchange.response
    if message is None or message.api_key is None or message.api_version is None:
        return NO_ERRORS
    if message.api_key in _BEYOND_LAYOUT:
        return summary_of(exchange).error_counts
    fields = _error_fields(message.api_key, message.api_version)
    if not fields:
        return NO_ERRORS
    found = _Found(exchange)
    found.message(message, fields)
    return found.codes


@lru_cache(maxsize=4096)
def _error_fields(api_key: int, api_version: int) -> frozenset[str]:
    """The paths of the error codes in the responses of that version."""
    return frozenset(
        path
        for layout in schema.layouts(api_key, api_version, RESPONSE)
        for path in field_paths(layout, entities.is_error_code).paths()
    )


def topics_named(exchange: Pair) -> tuple[Collection[str], Collection[str]]:
    """`topics` and `unresolved_topic_ids` of the exchange's summary: nothing else of the bodies is decoded, where that
    is possible."""
    found = _Found(exchange)
    for message in (exchange.request, exchange.response):
        if message is None:
            continue
        fields = _topic_fields(message.api_key, message.api_version, message.direction)
        if fields is None:
            summary = summary_of(exchange)
            return summary.topics, summary.unresolved_topic_ids
        if fields:
            found.message(message, fields)
    return found.topics, found.unresolved


@lru_cache(maxsize=4096)
def _topic_fields(api_key: int | None, api_version: int | None, direction: str) -> frozenset[str] | None:
    """The paths of topic names and ids in the messages of that version; None if other fields name topics too."""
    if api_key is None or api_version is None or api_key in _BEYOND_LAYOUT:
        return None
    layouts = schema.layouts(api_key, api_version, direction)
    if any([_has_resources(layout.fields) for layout in layouts]):
        return None
    return frozenset(path for layout in layouts for path in field_paths(layout, entities.is_topic).paths())


def _has_resources(fields: Sequence[Field]) -> bool:
    structs = [[field.name for field in struct] for _, _, struct in each_field(fields)]
    return any([resources.resource_fields(names) is not None for names in structs])


# ---------------------------------------------------------------------- problems


def problems_of(exchange: Pair) -> list[Problem]:
    """All problems of either message and of their pairing, but for those of single records; computed once."""
    found = exchange.found_problems
    if found is None:
        found = exchange.found_problems = problems(exchange)
    return found


def problems(exchange: Pair, with_records: bool = False) -> list[Problem]:
    """Problems noted by the session, found by the decoders and in the record sets: the request's, the response's, then
    those of both. `with_records`: the records themselves are read too, not only the batches."""
    found = list(exchange.noted)
    summary = summary_of(exchange)
    damaged = summary.has_damaged_records(with_records)
    for message in (exchange.request, exchange.response):
        if message is not None:
            found += message.decode().problems
            if damaged:
                found += _record_problems(message, summary, with_records)
    if found and _is_unsure(exchange.response, found):
        found.append(Problem(RESPONSE, "unsure_layout", UNSURE_LAYOUT))
    latency = exchange.latency_ns
    if latency is not None and latency < 0:
        found.append(Problem(None, "negative_latency", _before_its_request(exchange, -latency)))
    if len(found) > 1:
        found.sort(key=lambda problem: _SIDE_ORDER[problem.side])
    return found


def _is_unsure(response: WireMessage | None, found: list[Problem]) -> bool:
    """True if a response was read by the layout of a version that its request does not fit."""
    misfits = any([problem.code == "malformed" and problem.side == REQUEST for problem in found])
    return misfits and response is not None and response.decode().body is not None


def _before_its_request(exchange: Pair, by: int) -> str:
    """Message on a response that begins so many nanoseconds before its request ends."""
    text = f"the response begins {by} ns before the request ends"
    request, response = exchange.request, exchange.response
    assert request is not None
    assert response is not None
    if request.last_frame >> FRAME_BITS != response.first_frame >> FRAME_BITS:
        text += ": they are of two captures, whose clocks differ"
    return text


def _record_problems(message: WireMessage, summary: BodySummary, with_records: bool) -> Iterator[Problem]:
    """Problems of the message's record sets, with the field's path and offsets within the message."""
    decoded = message.decode()
    if decoded.layout is None or decoded.body is None or message.raw is None:
        return
    position = message.body_start
    for path, struct, name in field_paths(decoded.layout, entities.is_records).walk(decoded.body):
        field = summary.record_field(struct[name])
        found = field.problems(with_records) if field is not None else None
        if field is None or not found:
            continue
        # Fields follow each other on the wire as they do in the body, so the next occurrence is this one.
        position = max(message.raw.find(field.value, position), position)
        at = f"{path}.{name}" if path else name
        for problem in found:
            offset = None if problem.offset is None else position + problem.offset
            yield problem._replace(side=message.direction, offset=offset, path=at)
        position += len(field.value)


# ---------------------------------------------------------------------- layouts compiled

# What a field is to a summary.
_STRUCTS: Final = 0
_PARTITION: Final = 1
_ERROR_CODE: Final = 2
_GROUP: Final = 3
_RECORDS: Final = 4
_PARTITIONS: Final = 5
_TRANSACTIONAL_ID: Final = 6
_TOPIC: Final = 7
_COORDINATOR_KEY: Final = 8
_INNER: Final = 9

_KINDS: Final[tuple[tuple[Callable[[Field], bool], int], ...]] = (
    (entities.is_topic_list, _TOPIC),
    (entities.is_partition, _PARTITION),
    (entities.is_partition_list, _PARTITIONS),
    (entities.is_group, _GROUP),
    (entities.is_transactional_id, _TRANSACTIONAL_ID),
    (entities.is_error_code, _ERROR_CODE),
    (entities.is_records, _RECORDS),
)


class SummaryField:
    """A field with something for a summary: its `kind`, and the `walk` of its structs."""

    __slots__ = ("array", "kind", "name", "walk")

    def __init__(self, name: str, array: bool, kind: int, walk: Walk | None) -> None:
        self.name = name
        self.array = array
        self.kind = kind
        self.walk = walk


class Walk:
    """What the structs at one place of a layout have for a summary: the names of the fields with their topic's name and
    id and of their partition (empty: none), the fields that name a resource, and the other fields in their order.
    `FieldPaths` for several kinds at once: every body is walked with it, so no path is made."""

    __slots__ = ("fields", "partition", "resource", "topic_id", "topic_name")

    def __init__(self, fields: Sequence[Field], api_key: int | None) -> None:
        self.topic_name = next((f.name for f in fields if entities.is_topic_name(f)), "")
        self.topic_id = next((f.name for f in fields if entities.is_topic_id(f)), "")
        self.partition = next((f.name for f in fields if entities.is_partition(f)), "")
        self.resource = resources.resource_fields([field.name for field in fields])
        self.fields = tuple(
            [found for field in fields if (found := _summary_field(field, api_key)) is not None]
        )

    def finds(self) -> bool:
        """False if the structs have nothing for a summary."""
        return bool(self.fields or self.topic_name or self.topic_id or self.resource is not None)

    def collect(self, struct: Struct, found: _Found, topic: str | None) -> None:
        """Collect from a struct; `topic`: the one it belongs to."""
        if self.topic_name or self.topic_id:
            topic = found.topic(
                struct.get(self.topic_name), struct.get(self.topic_id) if self.topic_id else None
            )
        if self.resource is not None:
            named = self.resource.topic(struct)
            if named is not None:
                found.topics[named] = None
        for field in self.fields:
            value = struct.get(field.name)
            if value is None:
                continue
            kind = field.kind
            if kind == _STRUCTS:
                walk = field.walk
                assert walk is not None
                if field.array:
                    for item in value:
                        walk.collect(item, found, topic)
                else:
                    walk.collect(value, found, topic)
            elif kind == _PARTITION:
                if topic is not None:
                    found.partitions[f"{topic}-{value}"] = None
            elif kind == _ERROR_CODE:
                if value:
                    found.error(value, topic, struct.get(self.partition) if self.partition else None)
            elif kind == _RECORDS:
                if value:
                    found.records(value, topic, aligned=field.name != UNALIGNED_RECORDS)
            elif kind == _PARTITIONS:
                if topic is not None:
                    partitions = found.partitions
                    # One by one: a list of their names would take as much memory again.
                    for index in value:
                        partitions[f"{topic}-{index}"] = None
            elif kind == _COORDINATOR_KEY:
                found.coordinator_keys(value if field.array else (value,))
            elif kind == _INNER:
                found.inner(field.name, value)
            elif kind == _GROUP and not field.array:
                found.groups[value] = None
            else:
                found.names(kind, value if field.array else (value,))


def _summary_field(field: Field, api_key: int | None) -> SummaryField | None:
    if field.fields:
        walk = Walk(field.fields, api_key)
        return SummaryField(field.name, field.array, _STRUCTS, walk) if walk.finds() else None
    if api_key == FIND_COORDINATOR and field.name in COORDINATOR_KEYS:
        return SummaryField(field.name, field.array, _COORDINATOR_KEY, None)
    if api_key == ENVELOPE and field.name in (REQUEST_DATA, RESPONSE_DATA):
        return SummaryField(field.name, field.array, _INNER, None)
    kind = next((kind for applies, kind in _KINDS if applies(field)), None)
    return None if kind is None else SummaryField(field.name, field.array, kind, None)


@cache
def layout_walk(layout: Layout) -> Walk | None:
    """Walk of the layout's bodies for a summary, compiled once; None if they have nothing for it."""
    walk = Walk(layout.fields, layout.api_key)
    return walk if walk.finds() else None
