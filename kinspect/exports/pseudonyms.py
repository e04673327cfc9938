"""Pseudonyms: values of the same length and alphabet in place of others, the same for the same value under one key.

Each is a permutation of the values of its form: a Feistel network (Luby and Rackoff, 1988) whose rounds are SHAKE-256
(FIPS 202) of the key, the form, the round and the other half. So no two values get the same pseudonym, and nothing need
be kept. Who has the key can undo them; who has not learns a value's length, its form, and how often it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_256
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import groupby
from string import ascii_lowercase, ascii_uppercase, digits, punctuation
from typing import Final

KEY_BYTES: Final = 32
_ROUNDS: Final = 8
"""Of texts, whose halves may be a letter or none."""
_BYTE_ROUNDS: Final = 4
_WORD: Final = 4
"""Bytes of the stream for a character."""
_KEPT_RUN: Final = 3
"""Most marks in a row that stay: they are what a name is built of, as in `a.b` or `host:9092`."""
_BLOCK: Final = 64
"""Characters beyond ASCII change within a block of so many: one script, and one length in UTF-8."""
_TEXTS_KEPT: Final = 1 << 14
_KEPT_MOST: Final = 256
"""Characters of a text whose pseudonym is kept."""
_CLASSES: Final = {
    character: (alphabet, alphabet.index(character))
    for alphabet in (
        ascii_lowercase,
        ascii_uppercase,
        digits,
        f"{punctuation} ",
        "".join(map(chr, (*range(32), 127))),
    )
    for character in alphabet
}
_MARKS: Final = frozenset(f"{punctuation} ")
_USER: Final = "User:"
"""Kafka's type of principals, before their names."""
_LOOPBACK: Final = frozenset({IPv4Address("127.0.0.1").packed, IPv6Address("::1").packed})
_KEPT_ADDRESSES: Final = _LOOPBACK | {bytes(4), bytes(16)}
_KEPT_UUIDS: Final = frozenset(number.to_bytes(16) for number in range(101))
"""Kafka's own: the ids of the metadata topic and of directories that it reserves."""


class Pseudonyms:
    """The pseudonyms under a key of any length."""

    def __init__(self, key: bytes) -> None:
        self._key = shake_256(key).digest(KEY_BYTES)
        self._short_text = lru_cache(_TEXTS_KEPT)(self._text)
        self._order = lru_cache(_TEXTS_KEPT)(self._order_of)
        self.address = lru_cache(_TEXTS_KEPT)(self._address)
        """An address in place of one of 4 or 16 bytes: two have as many first bits in common as those that they stand
        for. That of no host, and that of the host itself, stay."""

    def sequence(self, number: int) -> int:
        """A first sequence number in place of one."""
        return int.from_bytes(self._stream(b"sequence", 0, number.to_bytes(4), 4))

    def text(self, value: str) -> str:
        """Text in place of a text: letters, digits and characters beyond ASCII are replaced by others of their kind."""
        return self._short_text(value) if len(value) <= _KEPT_MOST else self._text(value)

    def raw_text(self, value: bytes) -> bytes:
        """The bytes of a text in place of those of another, of the same length; they need not be UTF-8."""
        try:
            return self.text(value.decode()).encode()
        except UnicodeDecodeError:
            # Each byte beyond ASCII stays one that begins, or goes on with, a character.
            return self.text(value.decode("latin-1")).encode("latin-1")

    def data(self, value: bytes) -> bytes:
        """Bytes in place of bytes, of the same length."""
        if len(value) == 1:
            return bytes([self._alone(b"byte", value[0], 256)])
        half = len(value) // 2
        halves = [value[:half], value[half:]]
        for number in range(_BYTE_ROUNDS):
            # The longer half first: one byte alone is in it.
            own = (number + 1) % 2
            stream = self._stream(b"data", number, halves[1 - own], len(halves[own]))
            mixed = int.from_bytes(halves[own]) ^ int.from_bytes(stream)
            halves[own] = mixed.to_bytes(len(halves[own]))
        return halves[0] + halves[1]

    def uuid(self, value: bytes) -> bytes:
        """A uuid in place of a uuid, of 16 bytes each. Those that Kafka reserves stay."""
        return value if value in _KEPT_UUIDS else self.data(value)

    def _text(self, value: str) -> str:
        prefix, slash = (_USER if value.startswith(_USER) else ""), ("/" if value.startswith("/") else "")
        rest = value[len(prefix or slash) :]
        if (address := _address_of(rest)) is not None:
            return (prefix or slash) + str(ip_address(self.address(address)))
        return prefix + self._characters(value[len(prefix) :])

    def _characters(self, value: str) -> str:
        alphabets, numbers, places = [], [], []
        result = list(value)
        for is_mark, run in groupby(enumerate(value), lambda each: each[1] in _MARKS):
            found = list(run)
            if is_mark and len(found) <= _KEPT_RUN:
                continue
            for at, character in found:
                alphabet, number = _CLASSES.get(character) or _beyond_ascii(character)
                alphabets.append(alphabet)
                numbers.append(number)
                places.append(at)
        for at, alphabet, number in zip(places, alphabets, self._numbers(numbers, alphabets), strict=True):
            result[at] = alphabet[number]
        return "".join(result)

    def _numbers(self, numbers: Sequence[int], alphabets: Sequence[str]) -> list[int]:
        if len(numbers) == 1:
            return [self._alone(alphabets[0].encode(), numbers[0], len(alphabets[0]))]
        half = len(numbers) // 2
        sizes = [list(map(len, alphabets[:half])), list(map(len, alphabets[half:]))]
        halves = [list(numbers[:half]), list(numbers[half:])]
        form = shake_256("".join(alphabets).encode()).digest(KEY_BYTES)
        for number in range(_ROUNDS):
            own = (number + 1) % 2
            stream = self._stream(b"text" + form, number, bytes(halves[1 - own]), _WORD * len(halves[own]))
            halves[own] = [
                (each + int.from_bytes(stream[at * _WORD : at * _WORD + _WORD])) % size
                for at, (each, size) in enumerate(zip(halves[own], sizes[own], strict=True))
            ]
        return halves[0] + halves[1]

    def _alone(self, form: bytes, number: int, size: int) -> int:
        """A number in place of one below `size`: the next in an order that the key makes, so none stays."""
        order = self._order(form, size)
        return order[(order.index(number) + 1) % size]

    def _order_of(self, form: bytes, size: int) -> list[int]:
        """The numbers below `size`, by the key."""
        return sorted(
            range(size), key=lambda each: self._stream(b"alone" + form, 0, bytes([each]), KEY_BYTES)
        )

    def _address(self, value: bytes) -> bytes:
        if value in _KEPT_ADDRESSES:
            return value
        found = self._prefixes(value)
        while found in _KEPT_ADDRESSES:
            found = self._prefixes(found)
        return found

    def _prefixes(self, value: bytes) -> bytes:
        """Crypto-PAn's construction (Xu, Fan, Ammar and Moon, 2002): each bit is turned by what is before it."""
        size, number = 8 * len(value), int.from_bytes(value)
        turned = 0
        for place in range(size):
            before = number >> size - place
            turned = (
                turned << 1 | self._stream(b"address", size, bytes([place]) + before.to_bytes(16), 1)[0] & 1
            )
        return (number ^ turned).to_bytes(len(value))

    def _stream(self, use: bytes, number: int, data: bytes, size: int) -> bytes:
        return shake_256(self._key + use + bytes([number]) + data).digest(size)


def is_address(text: str) -> bool:
    """True for an IP address, whose pseudonym may be of another length."""
    return _address_of(text.removeprefix("/")) is not None


def _address_of(text: str) -> bytes | None:
    try:
        return ip_address(text).packed if text and "%" not in text else None
    except ValueError:
        return None


@lru_cache(1 << 10)
def _beyond_ascii(character: str) -> tuple[str, int]:
    first = ord(character) & -_BLOCK
    return "".join(map(chr, range(first, first + _BLOCK))), ord(character) - first
