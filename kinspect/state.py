"""What an inspection has under way as bytes, and back: to go on later, in another process or on another host.

    data = inspector_to_bytes(inspector)
    inspector = inspector_from_bytes(data, caps=caps, emit=emit, files=files)

Plain values in a plain encoding: nothing in it can run code. The tables below name every field of every class that is
carried; a test fails when a class has a field that they do not name. Bytes of another version, or damaged ones, raise
`StateError`.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple

import orjson

from kinspect.errors import StateError
from kinspect.kafka.connection import KafkaConnection, _Held
from kinspect.kafka.exchange import Exchange, WireMessage
from kinspect.kafka.flow import Ends
from kinspect.kafka.framing import Framer
from kinspect.kafka.holdings import Holdings
from kinspect.kafka.ledger import Ledger, PacketOrder
from kinspect.kafka.lines import ConnectionLine, Gap
from kinspect.kafka.names import TopicNames
from kinspect.kafka.pending import Pending
from kinspect.kafka.session import Session
from kinspect.link.fragments import Fragments, Parts
from kinspect.model import FRAME_MASK, REQUEST, Counts, Problem
from kinspect.pipeline import Inspector
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.connection import Half
from kinspect.tcp.delivery import NOBODY, Delivery
from kinspect.tcp.held import Acknowledged, Arrival, Held, Piece
from kinspect.tcp.kin import Kin
from kinspect.tcp.recent import LOOK_BACK, Recent
from kinspect.tcp.timers import Timers
from kinspect.tls import ClientHello, Decryptor, KeyLog
from kinspect.tls.handshake import MessageReader, ServerHello
from kinspect.tls.records import RecordReader
from kinspect.tls.side import Search, Side
from kinspect.tls.suites import Suite

VERSION = 1
"""Goes up when what the fields hold changes its meaning. Other fields change the fingerprint by themselves."""
_MAGIC = b"kinspect state\n\0"
# Version, fingerprint of the tables, checksum of what follows, how much of that is text.
_HEAD = Struct(">16sHIIQ")

Make = Callable[[Ledger], Any]


class Kind(NamedTuple):
    """A class: the fields that are carried, and those that are not, because whoever goes on has them or makes them
    again. `make` gives an object to be filled; None: one that is made of its fields, in their order."""

    type: type
    carried: tuple[str, ...]
    left: tuple[str, ...] = ()
    make: Make | None = None


def _kind(of: type, carried: str, left: str = "", make: Make | None = None) -> Kind:
    return Kind(of, tuple(carried.split()), tuple(left.split()), make)


def _ends(ledger: Ledger) -> Ends:
    return Ends("", 0, "", 0, "", "", ledger.names, ledger.files, ledger.caps, ledger.counts)


def _nothing(*_: Any) -> None:
    return None


OBJECTS = (
    _kind(
        Connection,
        "key serial start_clock start_time start_frame syn end_reason opening lingers may_wait skewed aliases reset"
        " timed halves",
        make=lambda ledger: Connection(b"", 0, 0, None, 0),
    ),
    _kind(
        Half,
        "direction next seen calm finished ack isn packets bytes gaps gap_bytes retransmitted conflicts scope hops"
        " clock time frame held connection peer handler",
        make=lambda ledger: Half(0),
    ),
    _kind(Held, "pieces size conflicting acks", make=lambda ledger: Held()),
    _kind(Arrival, "number clock time frame ack"),
    _kind(Piece, "start number end kind data arrival"),
    _kind(Acknowledged, "end number clock"),
    _kind(
        KafkaConnection,
        "kind _flow _tls _client _held _session _framers _decryptor _inside",
        "_ledger",
        lambda ledger: KafkaConnection(Connection(b"", 0, 0, None, 0), ledger),
    ),
    _kind(_Held, "items head_sizes cut needed size looks look_again", make=lambda ledger: _Held()),
    _kind(
        Session,
        "ends exchanges gaps gap_bytes client_id principal software _requests _responses _pending _role _uses"
        " _client_text _mechanism _tokens _response_end",
        "_ledger _holdings",
        lambda ledger: Session(_ends(ledger), ledger, frozenset()),
    ),
    _kind(
        Framer,
        "direction message_bytes deliver locate skipped_bytes offset unannounced _adrift _search_bytes _searching"
        " _search_at _size _keep _have _counted _raw _packets _cause _first_time _last_time _first_frame _last_frame",
        "_holdings",
        lambda ledger: Framer(REQUEST, 0, _nothing, _nothing, ledger.holdings),
    ),
    _kind(Pending, "_in_order _first _repeated _next _oldest _doubtful", make=lambda ledger: Pending()),
    _kind(
        Exchange,
        "connection kind api_key api_version correlation_id client_id request response outcome outcome_reason"
        " api_candidates order completed_at in_flight previous_response_end latency_known plain_answer noted role"
        " principal software_name software_version",
        "_summary _problems",
        lambda ledger: Exchange(_ends(ledger), ""),
    ),
    _kind(
        WireMessage,
        "direction raw size body_start first_time last_time first_frame last_frame packets complete inferred ends"
        " api_key api_version _cut",
        "_decoded _fields",
        lambda ledger: WireMessage(REQUEST, None, 0, 0, None, None, 0, 0, 0, False),
    ),
    _kind(
        Ends,
        "client_ip client_port broker_ip broker_port connection_id community_id names files caps counts tls node_id",
    ),
    _kind(Problem, "side code message offset bytes path"),
    _kind(Gap, "connection_id direction time offset bytes cause exchanges_hit"),
    _kind(
        ConnectionLine,
        "connection_id community_id client broker start_time end_time kind server_name alpn tls_version"
        " tls_cipher_suite tls_status tls_reason end_reason handshake_seen packets bytes exchanges gaps gap_bytes"
        " conflicting_bytes undecoded_bytes client_id principal software_name software_version",
    ),
    _kind(
        Decryptor,
        "status reason version cipher_suite server_name offered_alpn alpn held _deliver _lost _held_bytes _held"
        " _client _server _sides _waits _hello _server_hello _suite _is_13 _early_accepted",
        "_keylog",
        lambda ledger: Decryptor(ledger.keylog, 0, _nothing),
    ),
    _kind(
        Side,
        "direction name reader messages epoch sequence encrypted skipping skipped delivered over had_loss search seen"
        " _wasted",
        make=lambda ledger: Side(0, ""),
    ),
    _kind(Search, "time frame lost searched window position", make=lambda ledger: Search(None, 0)),
    _kind(RecordReader, "_pending", make=lambda ledger: RecordReader()),
    _kind(MessageReader, "_pending _skip adrift", make=lambda ledger: MessageReader()),
    _kind(ClientHello, "random server_name alpn early_data"),
    _kind(ServerHello, "version suite compressed alpn encrypt_then_mac random retry"),
    _kind(Suite, "name mode key_bytes mac digest"),
    _kind(Parts, "clock count cut data have protocol total", make=lambda ledger: Parts(0)),
)
"""What there is any number of."""

PLACES = (
    _kind(
        Reassembler,
        "_halves _open _opened _ended _clock _deadline _overdue _lingering _ticks _waiting",
        "_open_connection _caps _counts _delivery _kin _recent _silent _holes _skewed",
    ),
    _kind(Delivery, "clock held_bytes", "caps counts"),
    _kind(Timers, "_heap"),
    _kind(Kin, "_halves"),
    _kind(Recent, "_before _rows", "_halves _walk"),
    _kind(
        Ledger,
        "_held _in_order _held_bytes _forced _noted muted _numbered _lines exchanges gaps gap_bytes skipped_bytes"
        " outcomes connections server_names tls_reasons expects_secrets _decryptors _uses",
        "caps counts names emit kafka_ports heads_only files holdings order keylog",
    ),
    _kind(Holdings, "bytes _held _making_room", "_counts limit"),
    _kind(PacketOrder, "_runs _total _begin _end _shift"),
    _kind(KeyLog, "_secrets junk unused"),
    _kind(TopicNames, "_names _learned unresolved"),
    _kind(
        Counts,
        "packets bytes tcp_segments undecoded_packets fragments overlapping_fragments retransmitted_bytes"
        " conflicting_bytes duplicate_packets kernel_drops queue_drops caps_hit",
    ),
    _kind(Fragments, "_waiting _held _whole _clock", "_caps _counts"),
    _kind(Inspector, "_last", "caps counts files names _ledger _link _tcp"),
)
"""What whoever goes on has one of, to be filled."""

METHODS = frozenset(
    {"_request", "_response", "_locate_request", "_locate_response", "_plaintext", "_plaintext_lost"}
)
"""Methods that objects hand to one another."""

_NUMBERS = {kind.type: number for number, kind in enumerate(OBJECTS)}
_FINGERPRINT = zlib.crc32(repr([(kind.type.__name__, kind.carried) for kind in (*OBJECTS, *PLACES)]).encode())
_CONTAINERS: tuple[type, ...] = (list, tuple, set, frozenset, deque)
# What a list in the text begins with, unless it is the number of one of `_CONTAINERS`.
_DICT, _BYTES, _BUFFER, _LARGE, _OBJECT, _GIVEN, _METHOD, _EPOCH = range(
    len(_CONTAINERS), len(_CONTAINERS) + 8
)
_INT64 = 1 << 63


def dump(
    places: Mapping[str, object],
    given: Mapping[str, object],
    rest: Any = None,
    frames: set[int] | None = None,
) -> bytes:
    """The fields of `places`, and `rest`, as bytes, with all that they refer to.

    `places` and `given` have names by which whoever loads has the like: of `given` nothing is carried. `frames` is
    given every number that may be the frame reference of a file other than the first: all that are large enough.
    """
    writer = _Writer({**given, **places, "nobody": NOBODY}, set() if frames is None else frames)
    filled = {name: writer.fields(place, _kind_of(place).carried) for name, place in places.items()}
    text = orjson.dumps([filled, writer.value(rest), writer.objects()])
    blob = b"".join(writer.blob)
    checksum = zlib.crc32(blob, zlib.crc32(text))
    return _HEAD.pack(_MAGIC, VERSION, _FINGERPRINT, checksum, len(text)) + text + blob


def load(data: bytes, places: Mapping[str, object], given: Mapping[str, object], ledger: Ledger) -> Any:
    """Fills `places` with what `dump` made of the like; `ledger`: that of the connections. Out: `rest`.

    Raises StateError.
    """
    text, blob = _checked(data)
    try:
        filled, rest, objects = orjson.loads(text)
        reader = _Reader({**given, **places, "nobody": NOBODY}, blob, objects, ledger)
        for name, place in places.items():
            reader.fill(place, _kind_of(place).carried, filled[name])
        return reader.value(rest)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateError(f"the carried state is damaged: {error!r}") from error


def _checked(data: bytes) -> tuple[bytes, memoryview]:
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise StateError("the carried state is damaged: it does not begin as one")
    _, version, fingerprint, checksum, size = _HEAD.unpack_from(data)
    if version != VERSION or fingerprint != _FINGERPRINT:
        raise StateError(
            f"the carried state is of another version of kinspect (format {version}, {fingerprint:08x}; this one takes"
            f" {VERSION}, {_FINGERPRINT:08x}): let that version finish it, or begin anew in another folder"
        )
    body = memoryview(data)[_HEAD.size :]
    if zlib.crc32(body) != checksum or size > len(body):
        raise StateError("the carried state is damaged: its checksum does not fit")
    return bytes(body[:size]), body[size:]


def _kind_of(place: object) -> Kind:
    """The table of a place; of a class that goes beyond it, that of what it goes beyond."""
    return next(kind for base in type(place).__mro__ for kind in PLACES if kind.type is base)


class _Writer:
    """Values as what JSON has: scalars as they are, all else as a list that begins with what it is."""

    def __init__(self, given: Mapping[str, object], frames: set[int]) -> None:
        self._frames = frames
        self.blob: list[bytes] = []
        self._size = 0
        self._given = {id(value): name for name, value in given.items()}
        self._found: dict[int, int] = {}
        self._objects: list[Any] = []

    def objects(self) -> list[list[Any]]:
        """Everything referred to, each with its fields; more is found on the way."""
        written = []
        for value in self._objects:
            number = _NUMBERS[type(value)]
            written.append([number, *self.fields(value, OBJECTS[number].carried)])
        return written

    def fields(self, value: object, names: Iterable[str]) -> list[Any]:
        if isinstance(value, Recent):
            return [self.value(_recent_rows(value)), self.value([])]
        return [self.value(getattr(value, name)) for name in names]

    def value(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            if value > FRAME_MASK:
                self._frames.add(value)
            return value if -_INT64 <= value < _INT64 else [_LARGE, f"{value:x}"]
        if kind is bytes or kind is bytearray:
            self.blob.append(bytes(value))
            self._size += len(value)
            return [_BYTES if kind is bytes else _BUFFER, self._size - len(value), self._size]
        name = self._given.get(id(value))
        if name is not None:
            return [_GIVEN, name]
        if kind in _NUMBERS:
            number = self._found.get(id(value))
            if number is None:
                number = self._found[id(value)] = len(self._objects)
                self._objects.append(value)
            return [_OBJECT, number]
        if kind is dict or kind is OrderedDict:
            return [_DICT, *(self.value(item) for pair in value.items() for item in pair)]
        if kind is deque:
            return [_CONTAINERS.index(deque), value.maxlen, *map(self.value, value)]
        if kind in _CONTAINERS:
            # Sets in one order, so that the same state has the same bytes.
            items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            return [_CONTAINERS.index(kind), *map(self.value, items)]
        method = getattr(value, "__name__", None)
        if method in METHODS:
            return [_METHOD, self.value(value.__self__), method]
        # An epoch: `kinspect.tls.protection` is not imported where nothing is decrypted.
        return [_EPOCH, *map(self.value, value.origin)]


class _Reader:
    """What `_Writer` wrote."""

    def __init__(
        self, given: Mapping[str, object], blob: memoryview, objects: list[list[Any]], ledger: Ledger
    ) -> None:
        self._given = given
        self._blob = blob
        self._written = objects
        self._objects: list[Any] = []
        for number, *_ in objects:
            make = OBJECTS[number].make
            self._objects.append(make and make(ledger))
        for found, (number, *fields) in zip(self._objects, objects, strict=True):
            if OBJECTS[number].make is not None:
                self.fill(found, OBJECTS[number].carried, fields)

    def fill(self, value: object, names: tuple[str, ...], fields: list[Any]) -> None:
        for name, field in zip(names, fields, strict=True):
            found = self.value(field)
            there = getattr(value, name, None)
            if isinstance(there, dict) and isinstance(found, dict):
                # Others may share it.
                there.clear()
                there.update(found)
            else:
                setattr(value, name, found)

    def value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        tag, *items = value
        if tag == _OBJECT:
            return self._object(*items)
        if tag == _BYTES:
            return bytes(self._blob[slice(*items)])
        if tag == _BUFFER:
            return bytearray(self._blob[slice(*items)])
        if tag == _GIVEN:
            return self._given[items[0]]
        if tag == _LARGE:
            return int(items[0], 16)
        found = [self.value(item) for item in items]
        if tag == _DICT:
            return dict(zip(found[::2], found[1::2], strict=True))
        if tag == _METHOD and found[1] in METHODS:
            return getattr(found[0], found[1])
        if tag == _EPOCH:
            from kinspect.tls.protection import epoch_of

            return epoch_of(*found)
        container = _CONTAINERS[tag]
        return deque(found[1:], found[0]) if container is deque else container(found)

    def _object(self, number: int) -> Any:
        if self._objects[number] is None:
            kind, *fields = self._written[number]
            self._objects[number] = OBJECTS[kind].type(*map(self.value, fields))
        return self._objects[number]


def _recent_rows(recent: Recent) -> list[Any]:
    """What may still be looked back at, each packet with its own payload alone."""
    rows = (recent._before + recent._rows)[-LOOK_BACK:]
    return [
        (key, time, seq, ack, flags, data[start:end], 0, end - start, missing, frame, mark)
        for key, time, seq, ack, flags, data, start, end, missing, frame, mark in rows
    ]


# ---------------------------------------------------------------------- what the callers have


def reassembly_places(tcp: Reassembler) -> dict[str, object]:
    """The places of a reassembly."""
    return {
        "tcp": tcp,
        "delivery": tcp._delivery,
        "kin": tcp._kin,
        "recent": tcp._recent,
        "silent": tcp._silent,
        "holes": tcp._holes,
        "skewed": tcp._skewed,
    }


def ledger_places(ledger: Ledger) -> dict[str, object]:
    """The places of a ledger, but for topic names and secrets."""
    return {"ledger": ledger, "holdings": ledger.holdings, "order": ledger.order, "counts": ledger.counts}


def ledger_given(ledger: Ledger) -> dict[str, object]:
    """What whoever goes on has by itself: options, and the names of the inputs."""
    return {"caps": ledger.caps, "files": ledger.files}


def _places(inspector: Inspector) -> dict[str, object]:
    ledger = inspector._ledger
    return {
        "inspector": inspector,
        "fragments": inspector._link._fragments,
        "names": inspector.names,
        "keylog": ledger.keylog,
        **ledger_places(ledger),
        **reassembly_places(inspector._tcp),
    }


def inspector_to_bytes(inspector: Inspector) -> bytes:
    """All that an inspector has under way, after the lines of its last block were taken."""
    return dump(_places(inspector), ledger_given(inspector._ledger))


def inspector_from_bytes(data: bytes, **options: Any) -> Inspector:
    """An inspector that goes on where the one of `inspector_to_bytes` stopped; `options`: those it was made with.

    Raises StateError, also for bytes that cannot be trusted: nothing in them is run.
    """
    inspector = Inspector(**options)
    load(data, _places(inspector), ledger_given(inspector._ledger), inspector._ledger)
    return inspector
