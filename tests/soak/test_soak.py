"""The soak itself: that it sees what it is there for."""

import pytest

from .soak import Followed, Sample, faults, soak


def sample(**more):
    return Sample(**{**dict.fromkeys(Sample._fields, 100), **more})


FLAT = [sample()] * 8


@pytest.mark.parametrize("name", ["decoding_kib", "capturing_kib", "decoding_fds", "capturing_fds"])
def test_what_grows_is_seen(name):
    assert faults(FLAT, 5, 5, 0) == []
    grown = [*FLAT[:6], *[sample(**{name: 112})] * 2]
    assert faults(grown, 5, 5, 0) == [f"{name} grew from 100 to 112"]
    # It may be larger before it is warm, or shrink.
    assert faults(grown[::-1], 5, 5, 0) == []


@pytest.mark.parametrize(
    ("sent", "answered", "dropped", "wrong"),
    [(5, 5, 0, False), (5, 4, 0, True), (5, 6, 0, True), (5, 3, 2, False), (5, 2, 2, True), (5, 6, 2, True)],
)
def test_what_is_missing_is_seen(sent, answered, dropped, wrong):
    assert bool(faults(FLAT, sent, answered, dropped)) == wrong


def test_a_run_too_short_to_judge_is_no_success():
    assert faults(FLAT[:3], 5, 5, 0) != []


def test_files_are_read_as_they_grow(tmp_path):
    followed = Followed(tmp_path)
    first, second = (tmp_path / f"out_0000{number}_20261121151919.jsonl" for number in (1, 2))
    followed.look()
    first.write_bytes(b'{"type":"exchange","outcome":"answered"}\n{"type":"st')
    followed.look()
    assert (followed.answered, followed.stats) == (1, {})
    with first.open("ab") as file:
        file.write(b'ats","queue_drops":7}\n')
    second.write_bytes(b'{"type":"exchange","outcome":"answered"}\n{"type":"summary","kernel_drops":1}\n')
    followed.look()
    assert followed.answered == 2
    assert followed.stats["queue_drops"] == 7
    assert followed.summary["kernel_drops"] == 1


@pytest.mark.tools
@pytest.mark.big
def test_a_short_one(tmp_path):
    seen = soak(20, 200, tmp_path)
    assert seen["faults"] == []
    assert seen["sent"] == seen["answered"] > 3000
