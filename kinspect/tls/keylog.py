"""The NSS key log format (SSLKEYLOGFILE, RFC 9850): one secret per line, `<label> <client random> <secret>` in hex."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

CLIENT_RANDOM = "CLIENT_RANDOM"
CLIENT_HANDSHAKE = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
SERVER_HANDSHAKE = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC = "CLIENT_TRAFFIC_SECRET_0"
SERVER_TRAFFIC = "SERVER_TRAFFIC_SECRET_0"

NONE_GIVEN = "no secrets were given"
"""Reason not to decrypt a connection: there is no key log."""

RANDOM_BYTES = 32
LINE_BYTES = 1024
"""Upper bound on the length of a line with a secret that is used."""
# Valid lengths of a secret by label: a master secret (RFC 5246 §8.1), or a hash of TLS 1.3.
_HASH_SIZES = frozenset({32, 48})
_SIZES = {
    CLIENT_RANDOM: frozenset({48}),
    CLIENT_HANDSHAKE: _HASH_SIZES,
    SERVER_HANDSHAKE: _HASH_SIZES,
    CLIENT_TRAFFIC: _HASH_SIZES,
    SERVER_TRAFFIC: _HASH_SIZES,
}
# The dict key of a secret is one `bytes`: a long log has millions of them.
_PREFIXES = {label: bytes([index]) for index, label in enumerate(_SIZES)}


class KeyLog:
    """Secrets of any number of key logs, by the client random of their connection.

    Lines that are not of the format, or not needed to decrypt data, are passed over. Of two secrets for the same use
    the first is kept: one that a capture brings along cannot displace the user's own.
    """

    __slots__ = ("_secrets",)

    def __init__(self, text: str | bytes = b"") -> None:
        self._secrets: dict[bytes, bytes] = {}
        self.add(text)

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<KeyLog of {len(self)} secrets>"

    def add(self, text: str | bytes) -> int:
        """Take a key log, or complete lines of one that is still being written; returns the number of new secrets."""
        before = len(self._secrets)
        for line in BytesIO(text.encode() if isinstance(text, str) else text):
            # A longer line holds nothing useful.
            words = line[:LINE_BYTES].decode("ascii", "replace").split()
            if words and not words[0].startswith("#"):
                self._add_line(words)
        return len(self._secrets) - before

    def _add_line(self, words: list[str]) -> None:
        label = words[0]
        try:
            random, secret = map(bytes.fromhex, words[1:])
        except ValueError:
            return
        if len(random) == RANDOM_BYTES and len(secret) in _SIZES.get(label, ()):
            self._secrets.setdefault(_PREFIXES[label] + random, secret)

    def lines(self, randoms: Iterable[bytes]) -> Iterator[bytes]:
        """The secrets of the connections with these client randoms, as lines of a key log."""
        for random in randoms:
            for label in _SIZES:
                if secret := self.secret(label, random):
                    yield f"{label} {random.hex()} {secret.hex()}\n".encode()

    def secret(self, label: str, random: bytes) -> bytes | None:
        """The secret with this label of the connection with this client random; None if there is none."""
        return self._secrets.get(_PREFIXES[label] + random)
