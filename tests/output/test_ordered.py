"""The first exchanges of an order, in bounded memory and from parts of a run."""

import random
from types import SimpleNamespace

import pytest

from kinspect.cli.options import SORTED_MOST
from kinspect.output import ordered
from kinspect.output.ordered import Ordered
from kinspect.sink import PieceSink, WrittenLine


class Written(PieceSink):
    """A format whose piece of an exchange is its number, as a text of its length."""

    def __init__(self):
        self.numbers = []
        self.made = 0

    def piece(self, exchange):
        self.made += 1
        return WrittenLine(str(exchange.number).encode().ljust(exchange.length))

    def put(self, piece):
        self.numbers.append(int(piece.text))


def exchange(number, latency, length=10):
    return SimpleNamespace(number=number, latency_ns=latency, key=(number, 0, 0, 0), length=length)


def kept(exchanges, most, order="latency"):
    found = Ordered(Written(), order, most)
    for each in exchanges:
        found.take(each)
    return found


def shown(found):
    found.finish()
    return found._shown.numbers


def expected(exchanges, most):
    """The greatest latencies, equal ones in the order of their numbers, unknown ones last."""
    return [
        each.number
        for each in sorted(exchanges, key=lambda e: (e.latency_ns is None, -(e.latency_ns or 0), e.number))
    ][:most]


def random_exchanges(rng, count):
    values = [None, -5, 0, 1, 2, 10**18, *range(3, 20)]
    return [exchange(number, rng.choice(values)) for number in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_of_all(seed):
    rng = random.Random(seed)
    exchanges = random_exchanges(rng, rng.choice([0, 1, 50, 500]))
    most = rng.choice([1, 2, 7, 1000])
    assert shown(kept(exchanges, most)) == expected(exchanges, most)


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_a_run_in_any_order_give_the_first_of_all(seed):
    rng = random.Random(seed)
    exchanges = random_exchanges(rng, 300)
    parts = [[] for _ in range(rng.randint(1, 5))]
    for each in exchanges:
        rng.choice(parts).append(each)
    most = rng.choice([1, 10, 1000])
    whole = kept([], most)
    for part in parts:
        whole.merge(kept(part, most).part())
    assert shown(whole) == expected(exchanges, most)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_bounded_and_what_is_shown_are_still_the_first_ones(seed, monkeypatch):
    monkeypatch.setattr(ordered, "BYTES_KEPT", 1000)
    rng = random.Random(seed)
    exchanges = [exchange(number, rng.randrange(100), rng.choice([5, 400, 2000])) for number in range(200)]
    found = kept(exchanges, 50)
    assert sum(len(piece.text) for _, piece in found._kept) <= 1000 or len(found._kept) == 1
    numbers = shown(found)
    assert numbers == expected(exchanges, len(numbers))
    assert 0 < len(numbers) == 50 - found.missing


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_a_run_tell_what_is_missing_of_the_whole(seed, monkeypatch):
    monkeypatch.setattr(ordered, "BYTES_KEPT", 1000)
    rng = random.Random(seed)
    exchanges = [exchange(number, rng.randrange(100), rng.choice([5, 400])) for number in range(60)]
    whole = kept([], 50)
    for part in (exchanges[:20], exchanges[20:40], exchanges[40:]):
        whole.merge(kept(part, 50).part())
    assert whole.missing == 50 - len(shown(whole)) > 0


def test_nothing_is_missing_if_the_text_that_had_to_go_would_not_have_been_shown(monkeypatch):
    monkeypatch.setattr(ordered, "BYTES_KEPT", 100)
    large, small = [exchange(number, 1, 90) for number in range(3)], [exchange(9, 2), exchange(8, 3)]
    assert kept(large, 2).missing == 1
    assert kept([*large, *small], 2).missing == 0
    assert kept(small, 5).missing == 0


def test_texts_are_made_of_those_alone_that_are_kept_for_a_while():
    writer = Written()
    found = Ordered(writer, "latency", 5)
    for number in range(1000):
        found.take(exchange(number, 1000 - number))
    assert writer.made == 5


def test_the_command_has_room_for_what_it_takes():
    assert SORTED_MOST * 1000 < ordered.BYTES_KEPT
