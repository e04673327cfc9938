"""A picture of a terminal that browsers draw alike, whatever fonts they have: Rich's SVG, its text held to the cells.

Rich counts on one font, which an image in a page may not load. In another one symbols have other widths, lines do not
meet, and what lies below the last line's letters is cut.
"""

from __future__ import annotations

import html
import re

WIDTH, HEIGHT = 12.2, 24.4
"""Size of a cell in Rich's pictures."""
ASCENT = 18.5
"""Distance from the top of a cell to the baseline of its text."""
OVERLAP = 0.25
"""Height by which a shape reaches into the cell below, as Rich's backgrounds do: nothing shows between them."""

LINE = 1.6
LEFT, TOP = (WIDTH - LINE) / 2, (HEIGHT - LINE) / 2
RIGHT, BOTTOM = LEFT + LINE, TOP + LINE

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, from the cell's left top corner."""
_ARMS: dict[str, Box] = {
    "left": (0, TOP, RIGHT, BOTTOM),
    "right": (LEFT, TOP, WIDTH, BOTTOM),
    "up": (LEFT, 0, RIGHT, BOTTOM),
    "down": (LEFT, TOP, RIGHT, HEIGHT + OVERLAP),
}
_LINES = {
    "─": "left right",
    "│": "up down",
    "╭": "right down",
    "╮": "left down",
    "╰": "up right",
    "╯": "up left",
}
SHAPES: dict[str, list[Box]] = {
    **{line: [_ARMS[arm] for arm in arms.split()] for line, arms in _LINES.items()},
    "▏": [(0, 0, WIDTH / 8, HEIGHT + OVERLAP)],
    **{
        block: [(0, HEIGHT * (8 - eighths) / 8, WIDTH, HEIGHT + OVERLAP)]
        for eighths, block in enumerate("▁▂▃▄▅▆▇█", 1)
    },
}
"""Characters that are drawn as boxes, not written."""

# A font's address, and clips to cells, which nothing leaves any more.
_LEFT_OUT = re.compile(r'@font-face\s*\{.*?\}\s*|<defs>.*?</defs>\s*| clip-path="[^"]*"', re.DOTALL)
_TEXT = re.compile(
    r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+">(.*?)</text>', re.DOTALL
)
# Words of what every font has, a line, or one symbol: it may come from another font, with another width.
_PIECE = re.compile(r"[!-~·]+(?: [!-~·]+)*|─+|\S")


def in_cells(svg: str) -> str:
    """The picture with each character in its cell. It loads nothing."""
    return _TEXT.sub(_pieces, _LEFT_OUT.sub("", svg).replace("Fira Code, monospace", "monospace"))


def _pieces(found: re.Match[str]) -> str:
    style, left, baseline, text = found.groups()
    pieces = []
    for piece in _PIECE.finditer(html.unescape(text).replace("\xa0", " ")):
        draw = _shape if piece[0][0] in SHAPES else _text
        pieces.append(draw(style, float(left) + piece.start() * WIDTH, float(baseline), piece[0]))
    return "".join(pieces)


def _text(style: str, left: float, baseline: float, text: str) -> str:
    place = (
        f'x="{left:g}" y="{baseline:g}" textLength="{len(text) * WIDTH:g}" lengthAdjust="spacingAndGlyphs"'
    )
    return f'<text class="{style}" {place}>{html.escape(text, quote=False)}</text>'


def _shape(style: str, left: float, baseline: float, text: str) -> str:
    top, wider = baseline - ASCENT, (len(text) - 1) * WIDTH
    boxes = [
        f"M{left + x1:g} {top + y1:g}H{left + wider + x2:g}V{top + y2:g}H{left + x1:g}z"
        for x1, y1, x2, y2 in SHAPES[text[0]]
    ]
    return f'<path class="{style}" d="{"".join(boxes)}"/>'
