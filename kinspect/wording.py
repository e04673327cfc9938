"""What several stages say in the same words: numbers of things, amounts in a few digits, names that may be meant."""

from __future__ import annotations

from collections.abc import Iterable

NAMELESS = "without a name (see --topic-names)"
"""What topic ids are for which no response told a name, and what helps."""
COMMON = "org.apache.kafka."
"""What the names of Kafka's own metrics begin with; people leave it out."""
MEANT = 4
"""Most names that `did_you_mean` lists."""


def plural(number: int, one: str, many: str = "") -> str:
    """The word of one thing for 1, else that of several: `one` with an `s` if none is given."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, thing: str, form: str = ",") -> str:
    """A number of things: `1 record`, `1,200 records`; for a problem's message, `form` "", `1200 records`."""
    return f"{number:{form}} {plural(number, thing)}"


def cut_at(text: str, most: int) -> str:
    """A text of at most so many characters; `…` stands for what is left out at its end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(names: list[str], most: int = 3, between: str = ", ") -> str:
    """The first names, and how many more there are: `a, b, c +2`."""
    return between.join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")


def all_listed(texts: Iterable[str]) -> str:
    """All texts: `a, b and c`."""
    *before, last = texts
    return f"{', '.join(before)} and {last}" if before else last


def did_you_mean(name: str, known: Iterable[tuple[str, str]], between: str = ", ") -> str:
    """`did you mean Fetch?`: the names that an unknown one may be a slip of; empty if there are none. `known`: words to
    compare it with, each with the name that is meant by it."""
    from difflib import get_close_matches

    meant: dict[str, list[str]] = {}
    for word, each in known:
        meant.setdefault(word, []).append(each)
    close = dict.fromkeys(each for word in get_close_matches(name, meant, n=3) for each in meant[word])
    return f"did you mean {between.join([*close][:MEANT])}?" if close else ""


def count(number: int) -> str:
    """`999,999`, `4.56 M`."""
    return f"{number:,}" if number < 1_000_000 else scaled(number)


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
