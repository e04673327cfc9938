import re
from dataclasses import fields

import click
import pytest

from kinspect.cli.options import CAPS
from kinspect.cli.readcommand import read
from kinspect.cli.types import COUNT, DURATION, SIZE
from kinspect.model import Caps


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("64KiB", 65536),
        ("64 kib", 65536),
        ("64k", 64000),
        ("64kB", 64000),
        ("1.5MiB", 3 << 19),
        ("2GiB", 2 << 30),
        ("1T", 10**12),
        ("1.001kB", 1001),
        ("7B", 7),
    ],
)
def test_sizes(text, size):
    assert SIZE.convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "0", "0.1", "-1", "64XiB", "MiB", "64MiBs", "1e3"])
def test_what_is_no_size(text):
    with pytest.raises(click.BadParameter):
        SIZE.convert(text, None, None)


@pytest.mark.parametrize(("text", "ns"), [("600", 600 * 10**9), ("10m", 600 * 10**9), ("500ms", 5 * 10**8)])
def test_durations(text, ns):
    assert DURATION.convert(text, None, None) == ns


@pytest.mark.parametrize("text", ["", "0", "-1s", "10 years"])
def test_what_is_no_duration(text):
    with pytest.raises(click.BadParameter):
        DURATION.convert(text, None, None)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (SIZE, 64 << 20, "64MiB"),
        (SIZE, 1536, "1536"),
        (DURATION, 600 * 10**9, "10m"),
        (DURATION, 90 * 10**9, "90s"),
        (DURATION, 10**8, "100ms"),
        (COUNT, 4096, "4096"),
    ],
)
def test_written_and_read_again(kind, value, text):
    assert kind.written(value) == text
    assert kind.convert(text, None, None) == value


def test_every_cap_is_an_option():
    assert sorted(field for field, *_ in CAPS.values()) == sorted(field.name for field in fields(Caps))


@pytest.mark.parametrize("name", CAPS)
def test_the_help_tells_the_true_defaults(name):
    field, kind, _ = CAPS[name]
    (option,) = (option for option in read.params if option.name == name)
    default = re.search(r"\[default: (.+)\]", option.help)[1]
    assert kind.convert(default, None, None) == getattr(Caps(), field)
