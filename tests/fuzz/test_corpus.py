"""Every target over its corpus, what once failed, and some changes of them; `make fuzz` goes on from here."""

from __future__ import annotations

import pytest
from support.shares import one_in

from fuzz import corpus
from fuzz.targets import NAMES, target

MUTATIONS = 400
FOUND = [*corpus.found()]
IDS = [f"{name}-{data[:12].hex()}" for name, data in FOUND]


@pytest.mark.parametrize(("name", "data"), FOUND, ids=IDS)
def test_found_inputs(name: str, data: bytes) -> None:
    """Inputs that broke a rule once break none."""
    target(name).fuzz(data)


@pytest.mark.parametrize("part", one_in(3, range(3)))
@pytest.mark.parametrize("name", NAMES)
def test_corpus(name: str, part: int) -> None:
    fuzz = target(name).fuzz
    inputs = corpus.inputs(name)
    assert len(inputs) >= 8
    for data in inputs[part::3]:
        if (name, data) not in FOUND:
            fuzz(data)


@pytest.mark.parametrize("part", one_in(3, range(3)))
@pytest.mark.parametrize("name", NAMES)
def test_mutations(name: str, part: int) -> None:
    fuzz = target(name).fuzz
    for number, data in enumerate(corpus.mutations(corpus.inputs(name), MUTATIONS)):
        if number % 3 != part:
            continue
        try:
            fuzz(data)
        except Exception as error:
            error.add_note(f"mutation {number}: {data.hex()}")
            raise


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 40, bytes(range(256))], ids=len)
def test_any_bytes(name: str, data: bytes) -> None:
    target(name).fuzz(data)
