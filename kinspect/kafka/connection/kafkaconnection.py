"""A TCP connection, whose data is held until its protocol is known. Then Kafka goes to a `Session`, TLS is decrypted if
possible, and other data is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kinspect.kafka.connection.firstbytes import LOOKED_AT, LOST, protocol_of
from kinspect.kafka.connection.framing import Framer
from kinspect.kafka.connection.orphans import are_responses
from kinspect.kafka.connection.recognise import (
    MAYBE,
    NO,
    START_BYTES,
    YES,
    announced_bytes,
    answered_in,
    answers,
    contradicts,
    first_request,
    is_gssapi_token,
    may_be_refused,
    request_at,
    request_starts,
    requests_follow,
)
from kinspect.kafka.connection.session import ONE_SIDED, Session
from kinspect.kafka.exchange.ledger import NO_BEGIN, NO_BROKER, NO_CLIENT, UNKNOWN, Ledger
from kinspect.kafka.exchange.lines import ConnectionLine
from kinspect.kafka.wire.endpoints import Flow, endpoints_of, likely_client
from kinspect.kafka.wire.lineorder import LineKey, LineNumbering
from kinspect.model import FRAME_BITS, FRAME_MASK, REQUEST, RESPONSE
from kinspect.state import fields, fill
from kinspect.tls.tlsrecords import looks_like_tls

if TYPE_CHECKING:
    from kinspect.tls.decryptor import Decryptor
    from kinspect.tls.handshakewatch import HandshakeWatch

KAFKA: Final = "kafka"
TLS: Final = "tls"
OTHER: Final = "other"
EMPTY: Final = "empty"
# Bytes held of a connection not seen from its start while a request is looked for in it.
HELD_BYTES: Final = 64 * 1024
SEARCHED_BYTES: Final = 2 * HELD_BYTES
# Bytes of a direction in which every request is found. Of the next ones a part of the bytes let go so far is not held
# after each search in vain: so searching costs ever less.
FOUND_BYTES: Final = 8 * 1024 * 1024
SKIPPED_PART: Final = 8
# Approximate memory of a connection that holds data, and of each piece of data beside its bytes.
HELD_OVERHEAD: Final = 512
ITEM_OVERHEAD: Final = 160
# Number of looks at the held data that are taken at every packet; each later one waits for half as much data again.
LOOKS: Final = 16
# Reasons of unanswered requests, by the connection's end reason, where the two differ.
OUTCOME_REASONS: Final = {"fin": "closed", "reuse": "closed"}


def _grown(sizes: tuple[int, int], direction: int, by: int) -> tuple[int, int]:
    first, second = sizes
    return (first, second + by) if direction else (first + by, second)


class _Held:
    """Data and gaps that came before the connection was recognised."""

    STATE: ClassVar = """
        cut first_end gone head_sizes items look_again looks mirrors missed needed size skip
    """.split()
    __slots__ = STATE

    def __init__(self) -> None:
        # Direction, time, frame, and bytes or the size of a gap with its cause.
        self.items: list[tuple[int, int | None, int, bytes | int, str]] = []
        self.head_sizes: tuple[int, int] = (0, 0)  # by direction, length of the stream up to its first gap
        self.cut: tuple[int, ...] = ()  # the directions in which there was a gap
        self.first_end: int | None = None  # the direction whose FIN came first
        self.mirrors: tuple[int, ...] = ()  # the directions in whose records there are requests
        self.needed = 0  # length of the client's first message, once its size is known
        self.size = 0
        self.looks = 0
        self.look_again = 0  # held size at which the next look is taken
        # Of a connection not seen from its start, by direction: bytes let go and missing bytes before those held, and
        # the number of bytes to come that are not held.
        self.gone: tuple[int, int] = (0, 0)
        self.missed: tuple[int, int] = (0, 0)
        self.skip: tuple[int, int] = (0, 0)

    def state(self) -> list[Any]:
        """State for `from_state`, as plain values."""
        return fields(self, self.STATE)

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> _Held:
        held = cls()
        fill(held, cls.STATE, state)
        return held

    def data(self, direction: int, time: int | None, frame: int, data: bytes) -> None:
        self.items.append((direction, time, frame, data, ""))
        self.size += len(data)
        if direction not in self.cut:
            self.head_sizes = _grown(self.head_sizes, direction, len(data))

    def skips(self, direction: int, size: int) -> bool:
        """True for data that is not held."""
        if self.skip[direction] <= 0:
            return False
        self.skip = _grown(self.skip, direction, -size)
        self.gone = _grown(self.gone, direction, size)
        return True

    def let_go(self, sender: int = 0, behind: int = 0) -> None:
        """Let go of all that came before a direction's last `behind` bytes."""
        at, there = len(self.items), 0
        while at and there < behind:
            at -= 1
            direction, time, frame, item, cause = self.items[at]
            if direction == sender and not isinstance(item, int):
                there += len(item)
        for direction, _, _, item, _ in self.items[:at]:
            if isinstance(item, int):
                self.missed = _grown(self.missed, direction, item)
            else:
                self.gone = _grown(self.gone, direction, len(item))
        held, self.items, self.size, self.head_sizes, self.cut = self.items[at:], [], 0, (0, 0), ()
        for direction, time, frame, item, cause in held:
            if isinstance(item, int):
                self.gap(direction, time, frame, item, cause)
            else:
                first = 0 if self.items else max(there - behind, 0)
                self.gone = _grown(self.gone, direction, first)
                self.data(direction, time, frame, item[first:])
        self.looks, self.look_again = LOOKS, 0

    def let_most_go(self) -> None:
        """Let go of all but the last bytes, with which a request may begin; of all, if the next ones are not held."""
        sizes = [gone + head for gone, head in zip(self.gone, self.head_sizes, strict=True)]
        busy = int(sizes[1] > sizes[0])
        if sizes[busy] < FOUND_BYTES:
            self.let_go(busy, START_BYTES - 1)
        else:
            # What is skipped must not join the bytes on both sides of it.
            self.let_go()
            self.skip = _grown(self.skip, busy, self.gone[busy] // SKIPPED_PART - self.skip[busy])

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str) -> None:
        self.items.append((direction, time, frame, size, cause))
        if direction not in self.cut:
            self.cut = (*self.cut, direction)
            self.look_again = 0

    def head(self, direction: int) -> bytes:
        """The stream up to its first gap."""
        return b"".join(self._run(direction, self.items))

    def tail(self, direction: int) -> bytes:
        """The last bytes of the stream since its last gap, at most `SEARCHED_BYTES`."""
        parts, size = [], 0
        for part in self._run(direction, reversed(self.items)):
            parts.append(part)
            size += len(part)
            if size >= SEARCHED_BYTES:
                break
        return b"".join(reversed(parts))[-SEARCHED_BYTES:]

    def _run(
        self, direction: int, items: Iterable[tuple[int, int | None, int, bytes | int, str]]
    ) -> Iterator[bytes]:
        for sender, _, _, item, _ in items:
            if sender == direction:
                if isinstance(item, int):
                    return
                yield item

    def looked(self) -> None:
        """Count a look that was not conclusive."""
        self.looks += 1
        if self.looks > LOOKS:
            self.look_again = self.size + self.size // 2


def _of_size(size: int) -> str | None:
    """The protocol of which a message's size is the first four bytes."""
    return protocol_of((size & 0xFFFFFFFF).to_bytes(4, "big"))


class KafkaConnection:
    """The stream handler of one connection (docs/architecture.md, "tcp → kafka").

    Data is held until the first request is recognised, then replayed into the session. TLS goes through a decryptor,
    and its plaintext through a connection of its own, `inside`.
    """

    __slots__ = """
        _client _decryptor _flow _framers _gaps _heads _held _inside _interface _ledger _gap_before _numbering _session
        _tls _watch kind
    """.split()

    def __init__(
        self,
        flow: Flow,
        numbering: LineNumbering,
        ledger: Ledger,
        tls: bool = False,
        interface: str | None = None,
    ) -> None:
        self._flow = flow
        self._interface = interface
        self._numbering = numbering
        self._ledger = ledger
        self._tls = tls
        self.kind: str | None = None
        self._client = 0
        self._held: _Held | None = None
        self._gap_before = False  # bytes were lost before its protocol was known
        self._gaps: tuple[int, int] = (0, 0)  # number and bytes of those without a session
        self._session: Session | None = None
        self._framers: list[Framer] | None = None  # of the session, by direction
        self._heads = (b"", b"")  # of what is not Kafka, by direction
        self._decryptor: Decryptor | None = None
        self._watch: HandshakeWatch | None = None
        self._inside: KafkaConnection | None = None

    # ------------------------------------------------------------------ state

    def state(self) -> list[Any]:
        """State for `from_state`, as plain values."""
        parts = self._held, self._session, self._decryptor, self._inside, self._watch
        own = [self.kind, self._client, self._gap_before, self._gaps, self._heads, self._numbering.state()]
        return [own, [part and part.state() for part in parts]]

    @classmethod
    def from_state(
        cls, state: Sequence[Any], flow: Flow, ledger: Ledger, outside: KafkaConnection | None = None
    ) -> KafkaConnection:
        """The connection of `state`. `outside`: the connection whose plaintext it takes."""
        (kind, client, gap_before, gaps, heads, numbering), (held, session, decryptor, inside, watch) = state
        own = outside._numbering if outside is not None else LineNumbering.from_state(numbering)
        connection = cls(flow, own, ledger, outside is not None)
        connection.kind, connection._client, connection._gap_before = kind, client, gap_before
        first, second = heads
        connection._heads = first, second
        number, size = gaps
        connection._gaps = number, size
        if held is not None:
            connection._held = _Held.from_state(held)
            ledger.holdings.hold(connection, connection, connection._held.size + HELD_OVERHEAD)
        if session is not None:
            connection._open_session(frozenset()).restore(session)
        if decryptor is not None:
            connection._inside = cls.from_state(inside, flow, ledger, connection)
            connection._watch = connection._open_watch()
            connection._watch.restore(watch)
            connection._decryptor = connection._open_decryptor()
            connection._decryptor.restore(decryptor)
            # Its secrets may have arrived since.
            connection._decryptor.retry()
        return connection

    # ------------------------------------------------------------------ events of the reassembly

    def data(self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int) -> None:
        framers = self._framers
        if framers is not None:
            framers[direction].data(time, frame, buffer, start, end)
        elif self._decryptor is not None:
            if self._watch is not None and not self._watch.over:
                self._watch.data(direction, buffer, start, end)
            self._decryptor.data(direction, time, frame, buffer, start, end)
        elif self.kind is None:
            if not self._hold().skips(direction, end - start):
                self._hold().data(direction, time, frame, buffer[start:end])
                self._look(end - start)
        elif len(self._heads[direction]) < LOOKED_AT:
            self._add_head(direction, buffer[start : min(end, start + LOOKED_AT)])

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str) -> None:
        if self._session is not None:
            self._session.gap(self._side(direction), time, frame, size, cause)
            return
        self._gaps = self._gaps[0] + 1, self._gaps[1] + size
        if self._decryptor is not None:
            if self._watch is not None:
                self._watch.lose()
            self._decryptor.gap(direction, time, frame, size)
        elif self.kind is None:
            self._gap_before = True
            self._hold().gap(direction, time, frame, size, cause)
            self._look(0)
        else:
            self._add_head(direction, LOST)

    def conflict(self, direction: int, size: int) -> None:
        within = self._inside or self
        if within._session is not None:
            within._session.conflict(within._side(direction), size)

    def repeated(self, direction: int, start: int, end: int) -> None:
        # Offsets in TLS are not those of its plaintext.
        if self._session is not None and direction == self._client:
            self._session.repeated(start, end)

    def fin(self, direction: int, time: int | None, frame: int) -> None:
        if self._session is not None:
            self._session.fin(self._side(direction), time, frame)
        elif self._inside is not None:
            self._inside.fin(direction, time, frame)
        elif self._held is not None and self._held.first_end is None:
            self._held.first_end = direction

    def closed(self, time: int | None, frame: int, reason: str) -> None:
        if self._decryptor is not None:
            is_over = reason in ("fin", "reset")
            self._decryptor.closed(
                is_over and self._watch is not None and self._watch.stage == "server_hello"
            )
            self._ledger.forget_decryptor(self._decryptor)
        within = self._inside or self
        within.finish(time, frame, reason)
        session, kind = within._session, self.shown_kind
        unread = None if session else self._decryptor
        failure = (unread.server_name, unread.reason) if unread else (None, None)
        self._ledger.closed(kind, *failure, self.books(), self._lacks(kind))
        if "connection" in self._ledger.emit:
            key = self._numbering.key(time, frame)
            self._ledger.connection(self._line(key, time, kind, reason, session))

    @property
    def shown_kind(self) -> str:
        """`kafka`, `tls`, `other` or `empty` (no payload), as far as its data shows by now."""
        if not any(self._flow.bytes):
            return EMPTY
        return KAFKA if (self._inside or self)._session else self.kind or OTHER

    def _lacks(self, kind: str) -> list[str]:
        """What the capture lacks of a connection of that kind, by the words of `PARTIAL`."""
        flow = self._flow
        client = self._client if kind in (KAFKA, TLS) else likely_client(flow)
        if kind == EMPTY:
            return [] if flow.syn is not None else [UNKNOWN]
        if kind == OTHER:
            return [] if flow.syn is not None and all(flow.packets) and not self._gap_before else [UNKNOWN]
        missing = (NO_BEGIN, flow.syn is None), (NO_CLIENT, not flow.packets[client])
        found = [name for name, is_missing in missing if is_missing]
        return found if flow.packets[1 - client] else [*found, NO_BROKER]

    def books(self) -> dict[str, int]:
        """The bytes handed on by the reassembly, counted by the keys of the `summary` line."""
        handed_on = sum(self._flow.bytes)
        session = self._session
        if session is not None:
            return session.books
        if self._decryptor is None:
            return {"other_bytes": handed_on}
        assert self._inside is not None
        read, plain = self._decryptor.books
        session = self._inside._session
        within = session.books if session is not None else {"other_bytes": plain}
        return {"tls_bytes": handed_on - read, "tls_overhead_bytes": read - plain} | within

    def finish(self, time: int | None, frame: int, reason: str) -> None:
        """End the streams: decide on the protocol if it is not known, and close the session."""
        if self.kind is None and self._held is not None:
            self._recognise(self._held, final=True)
        if self._session is not None:
            one_sided = not self._flow.packets[1 - self._client]
            self._session.close(time, frame, ONE_SIDED if one_sided else OUTCOME_REASONS.get(reason, reason))

    # ------------------------------------------------------------------ recognition

    def _side(self, direction: int) -> str:
        return REQUEST if direction == self._client else RESPONSE

    def _hold(self) -> _Held:
        if self._held is None:
            self._held = _Held()
        return self._held

    def _look(self, size: int) -> None:
        """Add `size` to the held bytes, and try to recognise the connection."""
        held = self._hold()
        if held.size >= held.look_again and not self._waits_for_more(held):
            self._recognise(held, final=False)
            held.looked()
        if self._held is not None:
            overhead = ITEM_OVERHEAD if len(held.items) > 1 else HELD_OVERHEAD
            self._ledger.holdings.hold(self, self, size + overhead)

    def make_room(self, key: KafkaConnection) -> None:
        """Decide on the protocol from the data held now."""
        if self._held is not None:
            self._recognise(self._held, final=True)

    def _recognise(self, held: _Held, final: bool) -> None:
        """Decide on the protocol as soon as the held bytes allow it."""
        syn = self._flow.syn
        candidates = (0, 1) if syn is None else (syn,)
        whole = syn is not None and not held.cut
        cap = self._ledger.caps.message_bytes
        # Desynchronised directions, as the first captured bytes may not be the connection's first.
        unseen: frozenset[str] = frozenset({RESPONSE}) if syn is None else frozenset()
        forced = self._forced_client()
        waiting = False
        for client in candidates:
            head = held.head(client)
            if looks_like_tls(head) and not self._tls:
                self._decrypt(client, held)
                return
            if forced is not None:
                self._begin(forced, unseen | ({REQUEST} if self._is_inside(held.head(forced)) else set()))
                return
            if client in held.mirrors:
                continue
            answer = held.head(1 - client)
            verdict = first_request(head, cap, final, syn is not None, client in held.cut)
            if verdict == YES or (
                verdict == MAYBE
                and (
                    answers(head, answer, final or 1 - client in held.cut)
                    or (final and self._was_refused(client, held, head))
                )
            ):
                self._begin(client, unseen)
                return
            if not self._flow.packets[client] and are_responses(answer):
                self._begin(client)
                return
            held.needed = announced_bytes(head)
            if verdict == MAYBE:
                waiting = waiting or (not contradicts(head, answer) if whole else 0 < len(head) < held.needed)
        begun: tuple[int, int] | None = None
        if not whole:
            for client in candidates:
                verdict, behind = self._search(held, client)
                if verdict == MAYBE and begun is None:
                    begun = client, behind
                if verdict == YES:
                    if client in held.mirrors:
                        held.let_go(client, behind)
                    self._begin(
                        client, unseen | ({REQUEST, RESPONSE} if 1 - client in held.cut else {REQUEST})
                    )
                    return
        patience = self._ledger.caps.buffered_bytes if waiting else 0 if whole else HELD_BYTES
        if final or (whole and held.size > patience):
            self._settle(OTHER)
            for direction in (0, 1):
                self._add_head(direction, held.head(direction))
        elif held.size > patience:
            self._go_on(held, begun)

    def _go_on(self, held: _Held, begun: tuple[int, int] | None) -> None:
        """Let go of what was searched. `begun`: the direction's last bytes that may begin a request, which are kept."""
        if begun is not None:
            held.let_go(*begun)
        else:
            held.let_most_go()
        self._ledger.holdings.release(self)
        self._ledger.holdings.hold(self, self, held.size + HELD_OVERHEAD + ITEM_OVERHEAD * len(held.items))

    def _waits_for_more(self, held: _Held) -> bool:
        """True while the client's first message is not whole, cut or answered: another look would find nothing."""
        client = self._flow.syn
        return (
            client is not None
            and held.head_sizes[client] < held.needed
            and not held.head_sizes[1 - client]
            and client not in held.cut
        )

    def _was_refused(self, client: int, held: _Held, head: bytes) -> bool:
        """True if the broker answered the only request of a connection seen from its start by closing it."""
        broker = 1 - client
        said_nothing = not held.head_sizes[broker] and broker not in held.cut
        return self._flow.syn == client and held.first_end == broker and said_nothing and may_be_refused(head)

    def _forced_client(self) -> int | None:
        (_, port), (_, other) = self._flow.addresses
        ports = self._ledger.kafka_ports
        return 1 if port in ports else 0 if other in ports else None

    def _is_inside(self, head: bytes) -> bool:
        """True if a stream not seen from its start begins within a request: neither a request nor a token does."""
        begins = first_request(head, self._ledger.caps.message_bytes, False, False) != NO
        return self._flow.syn is None and announced_bytes(head) > len(head) and not begins

    def _search(self, held: _Held, client: int) -> tuple[str, int]:
        """Verdict on a stream that was not seen from its start, as that of `request_at` on a request anywhere in it;
        with them the number of bytes from where it begins."""
        data = held.tail(client)
        found, cap = (NO, 0), self._ledger.caps.message_bytes
        in_records: set[int] = set()
        for offset in request_starts(data, named=True):
            verdict = request_at(data, offset, cap, None, seen=False)
            if verdict == YES:
                verdict = requests_follow(data, offset, in_records)
                if in_records and client not in held.mirrors:
                    held.mirrors = (*held.mirrors, client)
                # Where records hold requests, their responses tell the client's own.
                sure = client not in held.mirrors or answered_in(held.tail(1 - client), data[offset:])
                if verdict != NO and sure:
                    return YES, len(data) - offset
            if verdict == MAYBE and offset and not found[1]:
                found = MAYBE, len(data) - offset
        return found

    def _settle(self, kind: str) -> None:
        self.kind = kind
        self._held = None
        self._ledger.holdings.release(self)

    def _add_head(self, direction: int, data: bytes) -> None:
        """Add to a direction's first bytes."""
        first, second = self._heads
        if direction:
            second = (second + data)[:LOOKED_AT]
        else:
            first = (first + data)[:LOOKED_AT]
        self._heads = first, second

    def _decrypt(self, client: int, held: _Held) -> None:
        """Start decryption: held and later data goes through a decryptor."""
        self._client = client
        self._settle(TLS)
        self._inside = KafkaConnection(self._flow, self._numbering, self._ledger, True, self._interface)
        self._decryptor, self._watch = self._open_decryptor(), self._open_watch()
        gaps = self._gaps
        self._replay(held)
        self._gaps = gaps

    def _replay(self, held: _Held) -> None:
        """Hand held data and gaps to the session or decryptor."""
        for direction, time, frame, item, cause in held.items:
            if isinstance(item, int):
                self.gap(direction, time, frame, item, cause)
            else:
                self.data(direction, time, frame, item, 0, len(item))

    def _open_decryptor(self) -> Decryptor:
        return self._ledger.open_decryptor(self._client, self._plaintext, self._plaintext_lost)

    def _open_watch(self) -> HandshakeWatch:
        from kinspect.tls.handshakewatch import HandshakeWatch

        return HandshakeWatch(self._client)

    def _plaintext(self, direction: int, time: int | None, frame: int, data: bytes) -> None:
        assert self._inside is not None
        self._inside.data(direction, time, frame, data, 0, len(data))

    def _plaintext_lost(self, direction: int, time: int | None, frame: int, size: int | None) -> None:
        inside = self._inside
        assert inside is not None
        if inside._session is not None:
            inside._session.lose(inside._side(direction), time, frame, size)
        else:
            inside.gap(direction, time, frame, size or 0, "capture_loss")

    def _begin(self, client: int, desynchronised: frozenset[str] = frozenset()) -> None:
        """Open a Kafka session, and replay the held data. `client`: the client's direction."""
        held = self._hold()
        self._settle(KAFKA)
        self._client = client
        session = self._open_session(desynchronised)
        for direction in (0, 1):
            if held.gone[direction] or held.missed[direction]:
                session.framer(self._side(direction)).pass_over(held.gone[direction], held.missed[direction])
        if is_gssapi_token(held.head(client)):
            session.begin_with_tokens("GSSAPI")
        self._replay(held)

    def _open_session(self, desynchronised: frozenset[str]) -> Session:
        named = endpoints_of(self._flow, self._client, self._ledger, self._tls, self._interface)
        session = self._session = Session(named, self._flow, self._numbering, self._ledger, desynchronised)
        session.after_gap = self._flow.syn is None or self._gap_before
        self._framers = [session.framer(self._side(direction)) for direction in (0, 1)]
        return session

    # ------------------------------------------------------------------ the connection's own line

    def _line(
        self, key: LineKey, time: int | None, kind: str, reason: str, session: Session | None
    ) -> ConnectionLine:
        flow, secure = self._flow, self._decryptor
        within = self._inside if session and self._inside else self
        client = within._client if self.kind in (KAFKA, TLS) else likely_client(flow)
        named = (
            session.ends if session else endpoints_of(flow, client, self._ledger, interface=self._interface)
        )
        software = session.software if session else (None, None)
        first_bytes, answered_with = self._protocols(client)
        gaps, gap_bytes = (session.gaps, session.gap_bytes) if session else self._gaps
        watch, ports = self._watch, self._ledger.kafka_ports
        first_frame, last_frame = flow.evidence.frames
        file = first_frame >> FRAME_BITS
        ends = (named.client_ip, named.client_port), (named.broker_ip, named.broker_port)
        return ConnectionLine(
            key=key,
            connection_id=named.connection_id,
            community_id=named.community_id,
            client=ends[0],
            broker=ends[1],
            start_time=flow.start_time,
            end_time=time,
            kind=kind,
            server_name=secure.server_name if secure else None,
            alpn=secure.offered_alpn if secure else (),
            tls_version=secure.version if secure else None,
            tls_cipher_suite=secure.cipher_suite if secure else None,
            tls_status=secure.status if secure else None,
            tls_reason=secure.reason if secure else None,
            end_reason=reason,
            handshake_seen=flow.syn is not None,
            packets=(flow.packets[client], flow.packets[1 - client]),
            bytes=(flow.bytes[client], flow.bytes[1 - client]),
            exchanges=session.exchanges if session else 0,
            gaps=gaps,
            gap_bytes=gap_bytes,
            conflicting_bytes=sum(flow.conflicts),
            undecoded_bytes=session.books["undecoded_bytes"] if session else 0,
            client_id=session.client_id if session else None,
            principal=session.principal if session else None,
            software_name=software[0],
            software_version=software[1],
            host=named.host,
            interface=named.interface,
            names=self._ledger.names.hosts.of(*ends, key),
            client_direction=client,
            first_bytes=first_bytes,
            answered_with=answered_with,
            decode_as=not ports.isdisjoint((named.client_port, named.broker_port)),
            evidence=flow.evidence,
            tls_handshake=(watch.stage or None) if watch else None,
            tls_alerts=self._alerts(),
            tls_random=secure.client_random if secure else None,
            file=self._file_name(file),
            frames=(
                first_frame & FRAME_MASK,
                last_frame & FRAME_MASK if last_frame >> FRAME_BITS == file else None,
            ),
        )

    def _file_name(self, number: int) -> str | None:
        """The name of a capture; None if nobody named them."""
        try:
            return self._ledger.files[number]
        except LookupError:
            return None

    def _protocols(self, client: int) -> tuple[str | None, str | None]:
        """What the first bytes of the client and of the broker are, where they were seen."""
        if self._flow.syn is None or self._gap_before:
            return None, None
        if self.kind == TLS and self._watch is not None:
            return TLS, TLS if self._watch.server_spoke else protocol_of(self._watch.strange)
        session = self._session
        if session is None:
            return protocol_of(self._heads[client]), protocol_of(self._heads[1 - client])
        asked = session.framer(REQUEST).first_size
        if asked:  # of a port of --decode-as
            return _of_size(asked), _of_size(session.framer(RESPONSE).first_size)
        size = session.framer(RESPONSE).first_size
        return KAFKA, _of_size(size) if size else KAFKA if self._flow.bytes[1 - client] else None

    def _alerts(self) -> list[tuple[int, int | None, int | None]]:
        """TLS alerts within the handshake; those that were decrypted instead of what the records' headers tell."""
        watch, decryptor = self._watch, self._decryptor
        if watch is None or decryptor is None:
            return []
        decrypted = {alert[0]: alert for alert in reversed(decryptor.alerts)}
        return [decrypted.get(alert[0], alert) if alert[1] is None else alert for alert in watch.alerts]
