"""Inputs: the seeds that are made of the captures and vectors, what a fuzzer kept of its finds, and what once failed.

`corpus.txt.gz` has inputs that reach code the seeds do not, `found.txt` those that broke a rule. Both have a line an
input: target, hex; `#` begins a remark.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

from .targets import target

HERE = Path(__file__).parent
KEPT = HERE / "corpus.txt.gz"
FOUND = HERE / "found.txt"
KEPT_BYTES = 20_000
"""Most bytes of the corpus of each target, before compression."""

_INTERESTING = (0, 1, 2, 4, 16, 32, 64, 100, 127, 128, 129, 254, 255)


def kept() -> Iterator[tuple[str, bytes]]:
    """The committed corpus: target and input."""
    if KEPT.exists():
        yield from _read(gzip.decompress(KEPT.read_bytes()).decode())


def found() -> Iterator[tuple[str, bytes]]:
    """Inputs that broke a rule once: target and input."""
    return _read(FOUND.read_text())


def _read(text: str) -> Iterator[tuple[str, bytes]]:
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield words[0], bytes.fromhex(words[1])


def inputs(name: str) -> list[bytes]:
    """All that the target is to begin with."""
    others = [data for owner, data in [*kept(), *found()] if owner == name]
    return list(dict.fromkeys([*target(name).seeds(), *others]))


def keep(name: str, folder: Path) -> None:
    """Put into the committed corpus what a run left in `folder` beyond the seeds, the smallest inputs first."""
    entries = [(owner, data) for owner, data in kept() if owner != name]
    new = {file.read_bytes() for file in folder.iterdir()} - set(target(name).seeds()) - {b""}
    left = KEPT_BYTES
    for data in sorted(new, key=lambda data: (len(data), data)):
        if len(data) > left:
            break
        if _passes(name, data):
            left -= len(data)
            entries.append((name, data))
    text = "".join(f"{owner} {data.hex()}\n" for owner, data in sorted(entries))
    KEPT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _passes(name: str, data: bytes) -> bool:
    try:
        target(name).fuzz(data)
    except Exception:
        return False
    return True


def mutations(corpus: list[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """Changes of the corpus, the same ones every time."""
    numbers = random.Random(seed)
    for _ in range(count):
        data = bytearray(numbers.choice(corpus))
        for _ in range(numbers.choice((1, 1, 2, 4, 8))):
            _mutate(data, corpus, numbers)
        yield bytes(data)


def _mutate(data: bytearray, corpus: list[bytes], numbers: random.Random) -> None:
    if not data:
        data += numbers.randbytes(9)
    at = numbers.randrange(len(data))
    size = numbers.choice((1, 1, 2, 4, 8, 40))
    kind = numbers.randrange(7)
    if kind == 0:
        data[at] ^= 1 << numbers.randrange(8)
    elif kind == 1:
        data[at] = numbers.choice(_INTERESTING)
    elif kind == 2:
        data[at : at + size] = numbers.randbytes(min(size, len(data) - at))
    elif kind == 3:
        del data[at : at + size]
    elif kind == 4:
        data[at:at] = data[at : at + size]
    elif kind == 5:
        other = numbers.choice(corpus)
        start = numbers.randrange(len(other) + 1)
        data[at:at] = other[start : start + size]
    else:
        del data[at:]
