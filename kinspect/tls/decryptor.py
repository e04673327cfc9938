"""Decryption of one TLS connection: encrypted streams in, plaintext in order out, or a status and the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from kinspect.state import fields, fill
from kinspect.tls import tlsrecords
from kinspect.tls.handshake import (
    ALERTS,
    ENCRYPTED_EXTENSIONS,
    FINISHED,
    KEY_UPDATE,
    SERVER_HELLO,
    ClientHello,
    ServerHello,
    parse_client_hello,
    parse_encrypted_extensions,
    parse_server_hello,
)
from kinspect.tls.keylog import (
    CLIENT_HANDSHAKE,
    CLIENT_RANDOM,
    CLIENT_TRAFFIC,
    NONE_GIVEN,
    SERVER_HANDSHAKE,
    SERVER_TRAFFIC,
    KeyLog,
)
from kinspect.tls.side import SEARCH_BYTES, TlsSide
from kinspect.tls.suites import Suite, suite
from kinspect.tls.tlsrecords import CLIENT_HELLO, HEADER_BYTES, BrokenRecordError

HANDSHAKE, DECRYPTING, NO_SECRETS = "handshake", "decrypting", "no_secrets"
UNSUPPORTED, FAILED = "unsupported", "failed"

HELD_BYTES = 1024 * 1024
# Overhead of a held piece beside its bytes.
_ITEM_BYTES = 128
# Bytes of early data that are skipped; a server accepts far less (RFC 8446 §4.2.10, §8).
_EARLY_BYTES = 1024 * 1024

TLS_12, TLS_13 = 0x0303, 0x0304
_VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS_12: "TLS 1.2", TLS_13: "TLS 1.3"}
_FATAL = 2
_ALERTS_KEPT = 8

_NONE_FITS = "no secrets for this connection in the key log"
_NOT_ALL = "not all secrets for this connection in the key log"
_NOT_AUTHENTIC = "a record does not authenticate: damage"
_FIRST_NOT_AUTHENTIC = "the first protected record does not authenticate: damage, or other secrets"
_NOTHING_FOUND = "records were lost, and none after them authenticates"

# States: the event that the connection waits for.
_CLIENT_HELLO, _SERVER_HELLO, _SECRETS, _NOTHING, _OVER = range(5)

Deliver = Callable[[int, int | None, int, bytes], None]
Lost = Callable[[int, int | None, int, int | None], None]


def _ignore(direction: int, time: int | None, frame: int, size: int | None) -> None:
    pass


class Decryptor:
    """Decrypts a connection that was seen from its ClientHello on.

    `client` is the client's direction. `deliver(direction, time, frame, plaintext)` receives the application data of
    each record, in order, with time and frame of the packet that completed the record. `lost(direction, time, frame,
    size)` is called where plaintext is missing: `size` is its number of bytes, provided that all lost records carried
    application data without padding, or None if not known; time and frame are those of the loss. No data follows in a
    direction that failed.

    While the key log has no secrets for the connection, its data is held, up to `held_bytes`; when the key log has
    grown, `retry()` looks again.

    `status` is `handshake`, `decrypting`, `no_secrets`, `unsupported` or `failed` (at least one direction cannot be
    read on), `reason` the explanation in one line. `version`, `cipher_suite` and `alpn` are the server's choices,
    `server_name` and `offered_alpn` the client's offers. `alerts`: direction, level and description of the first ones.
    """

    STATE: ClassVar = """
        alerts alpn cipher_suite held offered_alpn reason server_name status version _early_accepted _held _is_13
        _waits
    """.split()
    __slots__ = (
        STATE
        + "_client _deliver _held_bytes _hello _keylog _lost _server _server_hello _sides _suite".split()
    )

    def __init__(
        self,
        keylog: KeyLog,
        client: int,
        deliver: Deliver,
        lost: Lost = _ignore,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self.status = HANDSHAKE
        self.reason: str | None = None
        self.version: str | None = None
        self.cipher_suite: str | None = None
        self.server_name: str | None = None
        self.offered_alpn: tuple[str, ...] = ()
        self.alpn: str | None = None
        self.alerts: list[tuple[int, int, int]] = []
        self.held = 0
        """Bytes that wait for secrets."""
        self._keylog = keylog
        self._deliver = deliver
        self._lost = lost
        self._held_bytes = held_bytes
        self._held: list[tuple[int, int | None, int, bytes | int]] = []
        self._client = TlsSide(client, "client")
        self._server = TlsSide(1 - client, "server")
        self._sides = (self._client, self._server) if client == 0 else (self._server, self._client)
        self._waits = _CLIENT_HELLO
        self._hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        self._suite: Suite | None = None
        self._is_13 = False
        self._early_accepted = False

    @property
    def client_random(self) -> bytes | None:
        """The client random of its ClientHello, by which key logs name it; None before that."""
        return None if self._hello is None else self._hello.random

    def state(self) -> list[Any]:
        """State for `restore`."""
        negotiated = self._hello, self._server_hello, self._suite
        return [fields(self, self.STATE), negotiated, [self._client.state(), self._server.state()]]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on with the connection of `state`."""
        own, (hello, server_hello, chosen), (client, server) = state
        fill(self, self.STATE, own)
        self._hello = hello and ClientHello(*hello)
        self._server_hello = server_hello and ServerHello(*server_hello)
        self._suite = chosen and Suite(*chosen)
        self._client.restore(client)
        self._server.restore(server)

    # ------------------------------------------------------------------ what comes in

    def data(self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int) -> None:
        """Take `buffer[start:end]`, the next bytes of a direction."""
        side = self._sides[direction]
        if side.over:
            return
        if self._must_hold(side):
            self._hold(direction, time, frame, buffer[start:end])
            return
        side.seen += end - start
        position = start
        while position < end and not side.over:
            if self._must_hold(side):
                self._hold(direction, time, frame, buffer[position:end])
                return
            if side.search is not None:
                buffer = self._search(side, time, frame, buffer[position:end])
                position, end = 0, len(buffer)
                continue
            try:
                record, position = side.reader.take(buffer, position, end)
            except BrokenRecordError:
                self._broken(side, time, frame)
                return
            if record is not None and not self._take(side, time, frame, record):
                # A handshake message was lost, and a change of keys with it.
                side.lose(time, frame, 0)
                buffer = record + buffer[position:end]
                position, end = 0, len(buffer)

    def gap(self, direction: int, time: int | None, frame: int, size: int) -> None:
        """Note that `size` bytes of a direction are missing here."""
        side = self._sides[direction]
        if side.over:
            return
        if self._waits == _CLIENT_HELLO:
            self._stop(NO_SECRETS, "the ClientHello is not in the capture as a whole")
        elif self._must_hold(side):
            self._hold(direction, time, frame, size)
        elif self._waits == _SERVER_HELLO:
            self._stop(FAILED, "the ServerHello is not in the capture as a whole")
        else:
            side.lose(time, frame, size)

    def retry(self) -> None:
        """Look for the connection's secrets again, after the key log has grown."""
        if self._waits == _SECRETS:
            self._look_up()

    @property
    def books(self) -> tuple[int, int]:
        """Bytes of both streams that could be read, and of plaintext in them; zeros where there were no secrets."""
        if self._client.epoch is None:
            return 0, 0
        sides = self._sides
        return sum(side.read_bytes for side in sides), sum(side.plain_bytes for side in sides)

    def closed(self, is_failed: bool = False) -> None:
        """Note the end of the connection. `is_failed`: its handshake was seen to fail, so that secrets are of no
        use."""
        for side in self._sides:
            search = side.search
            if search is not None:
                if not side.delivered:
                    self._fail(side, search.time, search.frame, _NOTHING_FOUND)
                else:
                    self._lost(side.direction, search.time, search.frame, None)
        is_begun = self._waits in (_CLIENT_HELLO, _SERVER_HELLO) and self.reason is None
        if is_begun or (is_failed and self.reason in (NONE_GIVEN, _NONE_FITS)):
            self.reason = "the connection ended before the handshake did"
        self._end()

    # ------------------------------------------------------------------ ends and holds

    def _stop(self, status: str, reason: str) -> None:
        """Give up both directions."""
        self.status = status
        self.reason = reason
        self._end()

    def _end(self) -> None:
        self._waits = _OVER
        self._held = []
        self.held = 0
        for side in self._sides:
            side.end()

    def _fail(self, side: TlsSide, time: int | None, frame: int, reason: str) -> None:
        """Give up one direction."""
        self.status = FAILED
        self.reason = f"{side.name}: {reason}"
        side.end()
        self._lost(side.direction, time, frame, None)

    def _broken(self, side: TlsSide, time: int | None, frame: int) -> None:
        if self._waits == _CLIENT_HELLO:
            self._stop(NO_SECRETS, "the connection does not begin with a ClientHello")
        elif self._waits == _SERVER_HELLO:
            self._stop(FAILED, "the server does not answer with a ServerHello")
        else:
            self._fail(side, time, frame, "no TLS record where one should begin")

    def _must_hold(self, side: TlsSide) -> bool:
        return self._waits == _SECRETS or (self._waits == _SERVER_HELLO and side is self._client)

    def _hold(self, direction: int, time: int | None, frame: int, item: bytes | int) -> None:
        size = _ITEM_BYTES + (len(item) if isinstance(item, bytes) else 0)
        if self.held + size <= self._held_bytes:
            self._held.append((direction, time, frame, item))
            self.held += size
        elif self._waits == _SECRETS:
            self._stop(NO_SECRETS, f"{self.reason}; gave up after {self._held_bytes:,} held bytes")
        else:
            self._stop(FAILED, "the client sent too much before the server's side of the handshake was seen")

    def _release(self) -> None:
        """Read the data that was held."""
        held, self._held, self.held = self._held, [], 0
        for direction, time, frame, item in held:
            if isinstance(item, int):
                self.gap(direction, time, frame, item)
            else:
                self.data(direction, time, frame, item, 0, len(item))

    # ------------------------------------------------------------------ records

    def _take(self, side: TlsSide, time: int | None, frame: int, record: bytes) -> bool:
        """Read a record; returns False if its sequence number has to be searched for."""
        kind = record[0]
        if side.encrypted and (kind == tlsrecords.APPLICATION_DATA or not self._is_13):
            opened = side.open(record)
            if opened is None:
                return self._unopened(side, time, frame, record)
            side.read_bytes += len(record)
            if side.skipping:
                side.skipping = False
                if side.skipped and self._early_accepted and side is self._client:
                    self._lost(side.direction, time, frame, None)
            self._read(side, time, frame, *opened)
            return True
        side.read_bytes += len(record)
        if kind == tlsrecords.ALERT:
            self._alert(side, record[HEADER_BYTES:])
        elif self._waits in (_CLIENT_HELLO, _SERVER_HELLO):
            self._greet(side, kind, record[HEADER_BYTES:])
        elif kind == tlsrecords.CHANGE_CIPHER_SPEC and side.epoch is not None:
            side.encrypted = True
        elif kind == tlsrecords.APPLICATION_DATA:
            self._fail(side, time, frame, "application data before the handshake ended")
        return True

    def _unopened(self, side: TlsSide, time: int | None, frame: int, record: bytes) -> bool:
        if side.skipping:
            side.skipped += len(record)
            if side.skipped > _EARLY_BYTES:
                self._fail(side, time, frame, "no record authenticates with the secrets of the key log")
        elif side.had_loss:
            return False
        else:
            is_first = not side.sequence and (side.is_in_handshake or not self._is_13)
            what = _FIRST_NOT_AUTHENTIC if is_first else _NOT_AUTHENTIC
            self._fail(side, time, frame, what)
        return True

    def _search(self, side: TlsSide, time: int | None, frame: int, data: bytes) -> bytes:
        """Search for a record after a loss; returns the data behind it."""
        search = side.search
        assert search is not None
        found = side.find(search, data)
        if found is not None:
            side.read_bytes += found.size
            if found.lost != 0:
                self._lost(side.direction, search.time, search.frame, found.lost)
            self._read(side, time, frame, found.kind, found.plain)
            return found.rest
        if side.hopeless or search.searched > SEARCH_BYTES:
            self._fail(side, search.time, search.frame, _NOTHING_FOUND)
        return b""

    def _read(self, side: TlsSide, time: int | None, frame: int, kind: int, plain: bytes) -> None:
        """Read an authenticated record."""
        if kind == tlsrecords.APPLICATION_DATA:
            if plain:
                side.delivered = True
                side.plain_bytes += len(plain)
                self._deliver(side.direction, time, frame, plain)
        elif kind == tlsrecords.HANDSHAKE:
            try:
                messages = side.messages.feed(plain)
            except ValueError:
                self._fail(side, time, frame, "a handshake message is too long")
                return
            self._hear(side, messages)
        elif kind == tlsrecords.ALERT:
            self._alert(side, plain)
        elif kind == tlsrecords.CHANGE_CIPHER_SPEC:
            self._stop(UNSUPPORTED, "renegotiation is not supported")

    def _hear(self, side: TlsSide, messages: list[tuple[int, bytes]]) -> None:
        """Take messages from a record of the protected part of the handshake, or after it."""
        for message, body in messages:
            if message == ENCRYPTED_EXTENSIONS:
                self.alpn, self._early_accepted = parse_encrypted_extensions(body)
            elif message == KEY_UPDATE or (message == FINISHED and side.is_in_handshake):
                side.advance()
                return  # A message that changes the key ends its record (RFC 8446 §5.1).

    def _alert(self, side: TlsSide, body: bytes) -> None:
        if len(body) == 2 and len(self.alerts) < _ALERTS_KEPT:
            self.alerts.append((side.direction, body[0], body[1]))
        if len(body) == 2 and body[0] == _FATAL and self.reason is None:
            self.reason = f"the {side.name} sent the alert {ALERTS.get(body[1], body[1])}"

    # ------------------------------------------------------------------ the first two messages

    def _greet(self, side: TlsSide, kind: int, fragment: bytes) -> None:
        """Take a handshake record up to the ServerHello."""
        if kind == tlsrecords.CHANGE_CIPHER_SPEC and self._waits == _SERVER_HELLO:
            return  # For middleboxes, after a HelloRetryRequest (RFC 8446 §D.4).
        expected = CLIENT_HELLO if side is self._client else SERVER_HELLO
        try:
            messages = side.messages.feed(fragment) if kind == tlsrecords.HANDSHAKE else [(0, b"")]
        except ValueError:
            messages = [(0, b"")]
        for message, body in messages:
            if message != expected or (expected == SERVER_HELLO and self._waits == _CLIENT_HELLO):
                self._broken(side, None, 0)
            elif expected == CLIENT_HELLO:
                self._hear_client(parse_client_hello(body))
            else:
                self._hear_server(parse_server_hello(body))
            if self._waits != _SERVER_HELLO or side is self._client:
                return

    def _hear_client(self, hello: ClientHello) -> None:
        self._hello = hello
        self.server_name = hello.server_name
        self.offered_alpn = hello.alpn
        self._waits = _SERVER_HELLO

    def _hear_server(self, hello: ServerHello | None) -> None:
        if hello is None:
            self._stop(FAILED, "the ServerHello is malformed")
            return
        if hello.retry:
            return
        chosen = suite(hello.suite)
        self.version = _VERSIONS.get(hello.version, f"0x{hello.version:04X}")
        self.cipher_suite = chosen.name
        self.alpn = hello.alpn
        self._server_hello, self._suite = hello, chosen
        if hello.version not in (TLS_12, TLS_13):
            self._stop(UNSUPPORTED, f"{self.version} is not supported, only TLS 1.2 and TLS 1.3")
        elif chosen.mode is None:
            self._stop(UNSUPPORTED, f"the cipher suite {chosen.name} is not supported")
        elif hello.compressed:
            self._stop(UNSUPPORTED, "compression is not supported")
        elif chosen.is_13 != (hello.version == TLS_13):
            self._stop(FAILED, f"the ServerHello is malformed: {chosen.name} with {self.version}")
        else:
            for side in self._sides:
                side.messages.drop()
            self._is_13 = chosen.is_13
            self._waits = _SECRETS
            self._look_up()

    def _look_up(self) -> None:
        """Fetch the secrets from the key log, or wait for them."""
        assert self._hello is not None
        wanted = (CLIENT_TRAFFIC, SERVER_TRAFFIC) if self._is_13 else (CLIENT_RANDOM,)
        secrets = [secret for label in wanted if (secret := self._keylog.secret(label, self._hello.random))]
        if len(secrets) == len(wanted):
            self._begin(secrets)
            return
        self.status = NO_SECRETS
        self.reason = _NOT_ALL if secrets else _NONE_FITS if self._keylog else NONE_GIVEN
        if not self._held_bytes:
            self._end()

    def _begin(self, secrets: list[bytes]) -> None:
        """Derive the keys from the secrets, and read the data that was held."""
        hello, answer, chosen = self._hello, self._server_hello, self._suite
        assert hello is not None
        assert answer is not None
        assert chosen is not None
        try:
            from kinspect.tls import protection
        except ImportError:
            self._stop(UNSUPPORTED, "decryption needs the Python package cryptography")
            return
        try:
            if self._is_13:
                labels = CLIENT_HANDSHAKE, SERVER_HANDSHAKE
                pairs = zip(
                    secrets, (self._keylog.secret(label, hello.random) for label in labels), strict=True
                )
                epochs = [protection.epoch_13(chosen, *pair) for pair in pairs]
            else:
                epochs = protection.epochs_12(
                    chosen, secrets[0], hello.random, answer.random, answer.encrypt_then_mac
                )
        except protection.UnsupportedAlgorithm:
            self._stop(
                UNSUPPORTED, f"this build of cryptography does not support the cipher suite {chosen.name}"
            )
            return
        for side, epoch in zip((self._client, self._server), epochs, strict=True):
            side.epoch = epoch
            side.encrypted = self._is_13
            # Early data has keys of its own; without the handshake's secrets its records cannot be opened either.
            early = side is self._client and hello.early_data
            side.skipping = self._is_13 and (early or not epoch.is_handshake)
        self.status, self.reason = DECRYPTING, None
        self._waits = _NOTHING
        self._release()
