"""However the bytes of a capture come, and however two streams were sent: the same exchanges."""

from __future__ import annotations

from itertools import cycle

import mutate
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clean import CAPTURES
from support.packets import nanosecond_pcap
from support.reading import OF_PACKETS, WHOLE, bytes_alone, clean, compare, read

from kinspect.capture.fileformats import open_capture
from kinspect.capture.reader import Findings
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.pipeline import Inspector

SMALL = CAPTURES / "0.8.2.2" / "new-producer-lz4.pcap"
SEEDS = st.integers(0, 2**32)
quick = settings(max_examples=25)


class Trickle:
    """A source that gives as much at a time as it likes."""

    name = "trickle"

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = cycle(sizes)
        self.position = 0

    def read(self, size: int) -> bytes:
        data = self._data[self.position : self.position + min(size, next(self._sizes))]
        self.position += len(data)
        return data

    def release(self) -> None: ...

    def close(self) -> None: ...


def lines(data: bytes, sizes: list[int], block_size: int) -> list[bytes]:
    inspector = Inspector(files=["capture"])
    found = [
        line
        for block in open_capture(Trickle(data, sizes), 1, block_size, Findings())
        for line in inspector.feed(block)
    ]
    return [
        orjson.dumps(WHOLE.exchange(line))
        for line in [*found, *inspector.finish()]
        if isinstance(line, Exchange)
    ]


FILES = {
    "pcap": nanosecond_pcap(clean(SMALL).packets),
    "gzip": (CAPTURES / "0.8.2.2" / "partial-fetch.pcap.gz").read_bytes(),
    "pcapng": (CAPTURES / "variants" / "ngbe.pcapng.gz").read_bytes(),
}


WHOLE_LINES = {name: lines(data, [len(data)], 96 * 1024) for name, data in FILES.items()}


@pytest.mark.parametrize("name", FILES)
@quick
@given(
    sizes=st.lists(st.integers(1, 40) | st.integers(41, 9000), min_size=1, max_size=6),
    block_size=st.integers(1, 200_000),
)
def test_reads_of_any_size(name: str, sizes: list[int], block_size: int) -> None:
    data = FILES[name]
    assert lines(data, sizes, block_size) == WHOLE_LINES[name]


@settings(max_examples=60)
@given(
    largest=st.integers(1, 900),
    again=st.floats(0, 0.6),
    copies=st.floats(0, 0.6),
    window=st.integers(1, 6),
    seed=SEEDS,
)
def test_any_way_to_send_and_capture_it(
    largest: int, again: float, copies: float, window: int, seed: int
) -> None:
    whole = clean(SMALL)
    sent = mutate.recut(whole.packets, seed, largest)
    sent = mutate.retransmitted(sent, again, seed)
    seen = mutate.reorder(mutate.copied(sent, copies, seed), window, seed)
    part = read(seen)
    # The role and the broker's node id are what was told until then.
    told = frozenset({"role", "broker"})
    # How sure pairing is depends on how many requests seemed to be in flight at once.
    problems = OF_PACKETS | {"uncertain_pairing"}
    assert bytes_alone(part.lines, told, problems) == bytes_alone(whole.lines, told, problems)
    assert part.summary["conflicting_bytes"] == part.summary["gap_bytes"] == 0


@quick
@given(rate=st.floats(0, 0.3), seed=SEEDS, window=st.integers(1, 6))
def test_loss_and_disorder_make_nothing_wrong(rate: float, seed: int, window: int) -> None:
    whole = clean(CAPTURES / "0.10.0.1" / "kafkapython-av09.pcap")
    part = read(mutate.reorder(mutate.drop(whole.packets, rate, seed), window, seed))
    compared = compare(whole, part)
    assert compared.wrong == []
