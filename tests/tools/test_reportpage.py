"""The page of `kinspect report` in a real browser: at widths of phones and screens, light and dark, printed, without
scripts, with names that would run something; and axe-core finds nothing."""

import html
import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from kinspect.cli import main

pytestmark = pytest.mark.tools

TXN = Path(__file__).parents[2] / "captures" / "4.1.2" / "txn_java.pcap.gz"
SCHEMES = {"dark": 0, "light": 1}
WIDTHS = (375, 1280, 1920)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
"""It keeps the tests' own scripts from running, as any other but the page's."""
HOSTILE = "<img src=x onerror=\"document.title='ran'\"><script>document.title='ran'</script>"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["report", str(TXN), "-o", str(out), "-q", "--utc"]) == 0
    return out


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """Runs the browser, headless, on a page that has a text."""
    folder = tmp_path_factory.mktemp("browser")
    page = folder / "page.html"

    def run(text, *options):
        page.write_text(text, "utf-8")
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'own'}",
        ]
        found = subprocess.run(
            [*command, *options, page.as_uri()], check=True, capture_output=True, text=True
        )
        return found.stdout

    return run


def told(browse, text, script, *options):
    """What a script of the test finds on the page: JSON in the text of its body."""
    text = POLICY.sub("", text) + f"<script>{script}</script>"
    shown = browse(text, "--dump-dom", "--virtual-time-budget=20000", *options)
    return json.loads(html.unescape(re.search("<pre id=.?told.?>(.*?)</pre>", shown, re.DOTALL)[1]))


TELL = """
const tell = (found) => {
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(found);
  document.body.replaceChildren(told);
};
"""
AXE = """
document.querySelectorAll("details").forEach((each) => { each.open = true; });
axe.run(document).then(({ violations }) => tell(violations.map(({ id, nodes }) => [id, nodes.length, nodes[0].html])));
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(browse, made, scheme):
    axe = (files("axe_core_python") / "axe.min.js").read_text("utf-8")
    option = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    assert told(browse, made.read_text("utf-8"), f"{axe}{TELL}{AXE}", option) == []


FRAMES = """
const widths = %s;
const text = %s;
const frames = widths.map((width) => {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.srcdoc = text;
  document.body.append(frame);
  return frame;
});
addEventListener("load", () => tell(frames.map(({ contentDocument: page, contentWindow: view }) => [
  view.innerWidth, page.documentElement.scrollWidth, view.getComputedStyle(page.body).backgroundColor,
])));
"""
"""Windows of Chromium are never as narrow as a phone: frames are."""


def test_nothing_is_wider_than_the_page_and_schemes_differ(browse, made):
    text = json.dumps(POLICY.sub("", made.read_text("utf-8"))).replace("</", r"<\/")
    colors = set()
    for scheme in SCHEMES.values():
        option = f"--blink-settings=preferredColorScheme={scheme}"
        script = FRAMES % (json.dumps(WIDTHS), text)
        for width, (inner, wide, color) in zip(
            WIDTHS, told(browse, "<body>", TELL + script, option), strict=True
        ):
            assert inner == width
            assert wide <= width
            colors.add(color)
    assert len(colors) == len(SCHEMES)


def test_tables_sort_and_are_searched(browse, made):
    script = """
    const table = document.querySelector("#answer-latency table");
    const first = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
    const title = [...table.tHead.rows[0].cells].find((cell) => cell.textContent === "COUNT");
    const counts = () => [...table.tBodies[0].rows].map((row) => +row.cells[title.cellIndex].textContent);
    title.querySelector("button").click();
    const up = counts();
    title.querySelector("button").click();
    const down = [title.getAttribute("aria-sort"), ...counts()];
    const input = document.querySelector("#answer-latency input");
    input.value = "endtxn";
    input.dispatchEvent(new Event("input"));
    tell([up, down, first()]);
    """
    up, (sort, *down), found = told(browse, made.read_text("utf-8"), TELL + script)
    assert up == sorted(up)
    assert down == up[::-1]
    assert sort == "descending"
    assert found == ["EndTxn"]


def test_tables_and_plots_remain_without_scripts(browse, made):
    text = re.sub("script-src '[^']*'", "script-src 'none'", made.read_text("utf-8"))
    shown = browse(text, "--dump-dom")
    assert "<button" not in shown
    assert shown.count("<svg") > 5
    assert shown.count("<table") > 10


def test_it_is_printed(browse, made, tmp_path):
    out = tmp_path / "report.pdf"
    browse(made.read_text("utf-8"), f"--print-to-pdf={out}", "--no-pdf-header-footer")
    assert out.read_bytes().startswith(b"%PDF")


def test_its_own_script_runs_and_no_other_one(browse, made):
    text = made.read_text("utf-8")
    shown = browse(text.replace("<main>", f"<main>{HOSTILE}"), "--dump-dom", "--virtual-time-budget=5000")
    assert "<button" in shown
    assert "<title>kinspect report" in shown
