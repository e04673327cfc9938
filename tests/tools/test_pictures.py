"""The pictures of the documentation in a real browser: each character lies in its cell, and all of it in the frame."""

import html
import json
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = sorted(path.stem for path in IMAGES.glob("*.svg"))
CELL = 12.2
HEAD = "<!doctype html><meta charset=utf-8>"
MEASURE = """
<script>
const text = [...document.querySelectorAll("text[textLength]")].map((text) => ({
  said: text.textContent,
  left: +text.getAttribute("x"),
  ends: [...text.textContent].map((_, n) => [text.getStartPositionOfChar(n).x, text.getEndPositionOfChar(n).x]),
}));
const shapes = [...document.querySelectorAll("svg rect, svg path, svg text")];
const boxes = shapes.map((shape) => shape.getBoundingClientRect());
const [frame, ...drawn] = boxes.map(({ left, top, right, bottom }) => [left, top, right, bottom]);
document.body.textContent = JSON.stringify({ text, frame, drawn });
</script>
"""


@pytest.fixture(scope="module", params=PICTURES)
def measured(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    page = folder / "page.html"
    page.write_text(HEAD + (IMAGES / f"{request.param}.svg").read_text("utf-8") + MEASURE, "utf-8")
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder}",
        "--dump-dom",
    ]
    shown = subprocess.run([*command, page.as_uri()], check=True, capture_output=True, text=True).stdout
    return json.loads(html.unescape(re.search("<body>(.*)</body>", shown, re.DOTALL)[1]))


def test_each_character_lies_in_its_cell(measured):
    assert len(measured["text"]) > 50
    for text in measured["text"]:
        for column, (start, end) in enumerate(text["ends"]):
            left = text["left"] + column * CELL
            assert left - 0.5 < start < end < left + CELL + 0.5, text


def test_nothing_leaves_the_frame(measured):
    left, top, right, bottom = measured["frame"]
    assert len(measured["drawn"]) > 100
    for box in measured["drawn"]:
        assert left <= box[0] <= box[2] <= right, box
        assert top <= box[1] <= box[3] <= bottom, box
