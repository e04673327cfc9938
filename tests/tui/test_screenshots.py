"""The pictures in the documentation show what the explorer and the live view show."""

import html
import io
import re
from pathlib import Path

import pytest
import screenshots
from cells import WIDTH, in_cells
from rich.console import Console

ROOT = Path(__file__).parents[2]


@pytest.mark.big
def test_pictures_are_up_to_date():
    made = screenshots.make()
    found = screenshots.differences(made)
    assert not found, f"run `make screenshots`:\n{found}"
    for name, svg in made.items():
        assert "JoinGroup" in svg or name != "explore"


def test_pictures_load_nothing_and_count_on_no_font():
    for name in (*screenshots.PICTURES, *screenshots.LIVE_PICTURES):
        svg = (screenshots.IMAGES / f"{name}.svg").read_text("utf-8")
        assert not re.search(r"@font-face|url\(|href", svg), name
        for attributes, text in re.findall("<text ([^>]*)>([^<]*)</text>", svg)[1:]:
            assert f'textLength="{len(html.unescape(text)) * WIDTH:g}"' in attributes, text
            assert not re.search("[\u2500-\u259f]", text), f"{name}: {text} has to be drawn"


def test_pictures_hold_text_to_its_cells():
    console = Console(width=12, file=io.StringIO(), record=True)
    console.print("a b  <→─── ╭\n\nlast_")
    svg = in_cells(console.export_svg(title=""))
    assert screenshots.text_of(svg) == "a b  <→\nlast_"
    assert re.findall('x="([^"]*)" y="([^"]*)" textLength="([^"]*)" .*?>(.*?)<', svg) == [
        ("0", "20", "36.6", "a b"),
        ("61", "20", "12.2", "&lt;"),
        ("73.2", "20", "12.2", "→"),
        ("0", "68.8", "61", "last_"),
    ]
    line, _ = re.findall('<path .*? d="(.*?)"', svg)
    ends = [float(x) for x in re.findall(r"[MH]([\d.]+)", line)]
    assert (min(ends), max(ends)) == (85.4, 122)


def test_every_picture_is_shown_somewhere():
    pages = "".join(page.read_text("utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for name in (*screenshots.PICTURES, *screenshots.LIVE_PICTURES):
        assert f"images/{name}.svg" in pages, name
