"""`make screenshots`: pictures of the explorer, the live view and a report with real captures, for README.md and docs/.

With `--check` nothing is written: the text of each picture is compared with that of a new one, and the exit status
is 1 if there are differences. Chromium makes those of the report, which are pixels and not compared.
"""

from __future__ import annotations

import asyncio
import difflib
import html
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import replay
from atrest import Loop, press
from cells import WIDTH, in_cells
from console_blocks import ROOT

from kinspect.cli import main as command
from kinspect.kafka.view.view import View
from kinspect.tui.app import Explorer
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.indexprocess import IndexProcess
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

IMAGES = ROOT / "docs" / "images"
PATIENCE_SECONDS = 60
_PLACE = re.compile(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')


class Picture(NamedTuple):
    """A picture of the explorer: its capture, the keys to press, and the size of the screen."""

    capture: str
    keys: Sequence[str]
    size: tuple[int, int]
    payload: str = "none"
    text: str = ""


PICTURES = {
    "explore": Picture("captures/4.4.0/errors_java.pcap.gz", ("l", "enter", *["down"] * 12), (130, 40)),
    "explore-bytes": Picture("captures/4.4.0/nano.pcap", ("end", "z", *["down"] * 27), (120, 34)),
    "explore-errors": Picture(
        "captures/4.4.0/errors_java.pcap.gz", ("down",), (130, 32), text="errors-only client-id=pc-err-tx*"
    ),
    "explore-filter": Picture(
        "captures/4.4.0/txn_java.pcap.gz", ("slash", *"topic", "equals_sign", "tab"), (80, 24)
    ),
    "explore-help": Picture("captures/4.4.0/nano.pcap", ("question_mark",), (100, 74)),
    "explore-page": Picture("captures/4.4.0/groups_classic.pcap.gz", ("4",), (120, 26)),
}


LIVE_PICTURES = {
    "live": ("captures/4.4.0/groups_classic.pcap.gz", (130, 36), ""),
    "live-small": ("captures/4.4.0/errors_java.pcap.gz", (80, 24), ""),
    "live-groups": ("captures/4.4.0/groups_classic.pcap.gz", (120, 30), "4"),
}
"""Pictures of the live view: the capture whose packets it shows as if they came now, the size of the screen, and the
keys pressed before the first frame."""


REPORT = "captures/4.4.0/groups_classic.pcap.gz"
REPORT_PICTURES = {"report": (1280, 1250, 1), "report-dark": (500, 1200, 0)}
"""Pictures of the report of a capture: width and height, and Chromium's number for a page that is light or dark."""


async def _taken(picture: Picture, loop: Loop) -> str:
    """The picture as SVG."""
    inputs = Inputs([picture.capture])
    spool = Spool()
    store = Store(inputs, spool)
    payloads = ShownPayloads(picture.payload)
    view = View(records=True, payload=payloads.viewed)
    app = Explorer(store, IndexProcess(inputs, spool), view, payloads, utc=True, text=picture.text)
    async with app.run_test(size=picture.size):
        for key in (None, *picture.keys):
            if key is not None:
                press(app, key)
            await loop.rest()
            limit = time.monotonic() + PATIENCE_SECONDS
            while not (store.done and app.main.is_at_rest):
                await asyncio.sleep(0.001)
                await loop.rest()
                if time.monotonic() > limit:
                    raise TimeoutError(f"{picture}: the explorer does not come to rest")
        taken = app.export_screenshot(
            title=f"kinspect explore {picture.capture.rpartition('/')[2]}", simplify=True
        )
    spool.close()
    return in_cells(taken)


def text_of(svg: str) -> str:
    """The text of a picture, without the lines and blocks that are drawn."""
    found = [(float(y), float(x), html.unescape(text)) for x, y, text in _PLACE.findall(svg)]
    lines: dict[float, str] = {}
    for y, x, text in sorted(found):
        lines[y] = lines.get(y, "").ljust(round(x / WIDTH)) + text
    return "\n".join(lines.values())


def make() -> dict[str, str]:
    """All pictures, as SVG by their names."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        loop = runner.get_loop()
        made = {name: runner.run(_taken(picture, loop)) for name, picture in PICTURES.items()}
    for name, (capture, size, first) in LIVE_PICTURES.items():
        made[name] = replay.svg(capture, size, "kinspect live -i lo", first=first)
    return made


def differences(made: dict[str, str]) -> str:
    """Differences between the text of the pictures in docs/images and of those made now, as a unified diff."""
    found = []
    for name, svg in made.items():
        path = IMAGES / f"{name}.svg"
        before = text_of(path.read_text("utf-8")) if path.exists() else ""
        found += difflib.unified_diff(
            before.splitlines(), text_of(svg).splitlines(), name, "now", lineterm=""
        )
    return "\n".join(found)


def take_report() -> None:
    """Put the pictures of a report into docs/images."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command(["report", REPORT, "-o", str(page), "--utc", "-q"])
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        for name, (width, height, scheme) in REPORT_PICTURES.items():
            options = [
                f"--user-data-dir={folder}/own",
                f"--window-size={width},{height}",
                f"--blink-settings=preferredColorScheme={scheme}",
                f"--screenshot={IMAGES / f'{name}.png'}",
            ]
            subprocess.run([*browser, *options, page.as_uri()], check=True, capture_output=True)
            print(f"docs/images/{name}.png")


def main(arguments: Sequence[str]) -> int:
    made = make()
    if "--check" in arguments:
        found = differences(made)
        print(found, end="\n" if found else "")
        return int(bool(found))
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, svg in made.items():
        (IMAGES / f"{name}.svg").write_text(svg, "utf-8")
        print(f"docs/images/{name}.svg")
    take_report()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
