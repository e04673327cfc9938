"""Amounts in three or four digits and a unit, and numbers of things."""

from __future__ import annotations


def count(number: int) -> str:
    """`999,999`, `4.56 M`."""
    return f"{number:,}" if number < 1_000_000 else scaled(number)


def counted(number: int, thing: str) -> str:
    """A number of things: `1 record`, `1,200 records`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def rate(a_second: float) -> str:
    """`0`, `0.31`, `4.2`, `312`, `1.23 k`."""
    if 0 < a_second < 0.995:
        return f"{max(a_second, 0.01):.2f}"
    if 0 < a_second < 9.95:
        return f"{a_second:.1f}"
    return f"{a_second:.0f}" if a_second < 999.5 else scaled(a_second)


def size(amount: float) -> str:
    """`999 B`, `1.23 kB`, `45.6 MB`."""
    return f"{amount:.0f} B" if amount < 999.5 else f"{scaled(amount)}B"


def scaled(amount: float) -> str:
    """Three digits and a decimal prefix: `1.23 k`, `45.6 M`, `789 G`."""
    prefixes = iter("kMGTPE")
    prefix = ""
    while amount >= 999.5 and (following := next(prefixes, None)) is not None:
        amount, prefix = amount / 1000, following
    digits = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
    return f"{amount:.{digits}f} {prefix}"


def duration(seconds: float) -> str:
    """`5s`, `1m 05s`, `2h 03m`, `4d 05h`."""
    whole = int(seconds)
    for unit, below, of_unit, of_below in (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1)):
        if whole >= of_unit:
            return f"{whole // of_unit}{unit} {whole % of_unit // of_below:02}{below}"
    return f"{whole}s"
