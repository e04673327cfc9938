"""The pictures in the documentation show what the explorer and the live view show."""

import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import screenshots  # noqa: E402


def test_pictures_are_up_to_date():
    made = screenshots.make()
    found = screenshots.differences(made)
    assert not found, f"run `make screenshots`:\n{found}"
    for name, svg in made.items():
        assert "JoinGroup" in svg or name != "explore"
        assert "@font-face" not in svg


def test_every_picture_is_shown_somewhere():
    root = TOOLS.parent
    pages = "".join(page.read_text("utf-8") for page in [root / "README.md", *(root / "docs").glob("*.md")])
    for name in (*screenshots.PICTURES, *screenshots.LIVE_PICTURES):
        assert f"images/{name}.svg" in pages, name
