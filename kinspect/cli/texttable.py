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
    """The header and the rows as lines, see `aligned`."""
    return "".join(f"{line}\n" for line in aligned([header, *rows], width))


def aligned(rows: Sequence[Sequence[object]], width: int | None = None, numbers: int = 0) -> list[str]:
    """The lines of the rows, each column as wide as its longest cell; the first `numbers` stand at the right. In a
    terminal of `width` columns the last one is wrapped."""
    table = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    begin = sum(widths[:-1]) + 2 * (len(widths) - 1)
    lines = []
    for *cells, last in table:
        pieces = [last]
        if width is not None and width - begin >= WRAPPED_LEAST:
            pieces = textwrap.wrap(last, width - begin, break_long_words=False, break_on_hyphens=False)
        right = map(str.rjust, cells[:numbers], widths)
        left = map(str.ljust, cells[numbers:], widths[numbers:])
        lines.append("  ".join([*right, *left, *pieces[:1]]))
        lines += [" " * begin + piece for piece in pieces[1:]]
    return [line.rstrip() for line in lines]
