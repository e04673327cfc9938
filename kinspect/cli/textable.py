"""Rows as aligned columns of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WRAPPED_LEAST = 20
"""Least width to which a last column is wrapped: a narrower one would be no easier to read."""


def fits_in_columns(header: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> bool:
    """True if `in_columns` has room for them in `width`, with the last column wrapped if need be."""
    *first, last = zip(header, *(map(str, row) for row in rows), strict=True)
    words = max(len(word) for cell in last for word in cell.split() or [""])
    least = max(words, min(WRAPPED_LEAST, max(map(len, last))))
    return sum(max(map(len, column)) + 2 for column in first) + least <= width


def in_columns(header: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """The header and the rows, each column as wide as its longest cell. In a terminal of `width` columns the last one
    is wrapped."""
    table = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    begin = sum(widths[:-1]) + 2 * (len(widths) - 1)
    lines = []
    for *cells, last in table:
        pieces = [last]
        if width is not None and width - begin >= WRAPPED_LEAST:
            pieces = textwrap.wrap(last, width - begin, break_long_words=False, break_on_hyphens=False) or [
                ""
            ]
        lines.append("  ".join([*map(str.ljust, cells, widths), pieces[0]]))
        lines += [" " * begin + piece for piece in pieces[1:]]
    return "".join(f"{line.rstrip()}\n" for line in lines)
