"""The pictures in the documentation show what the explorer and the live view show."""

from pathlib import Path

import screenshots

ROOT = Path(__file__).parents[2]


def test_pictures_are_up_to_date():
    made = screenshots.make()
    found = screenshots.differences(made)
    assert not found, f"run `make screenshots`:\n{found}"
    for name, svg in made.items():
        assert "JoinGroup" in svg or name != "explore"
        assert "@font-face" not in svg


def test_every_picture_is_shown_somewhere():
    pages = "".join(page.read_text("utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for name in (*screenshots.PICTURES, *screenshots.LIVE_PICTURES):
        assert f"images/{name}.svg" in pages, name
