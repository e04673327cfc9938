"""The site of the documentation: its links, and in a real browser, as files, at widths of phones and screens, light and
dark: axe-core finds nothing, nothing comes from the network, a question finds its page, a click copies a command."""

import json
import re
import threading
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

import pytest
from console_blocks import ROOT, commands, fences
from make_site import make, sources
from support.browser import DESKTOP, PHONE, Browser

pytestmark = pytest.mark.tools

QUESTIONS = {
    "why can my client not connect": "guide/why-can-this-client-not-connect",
    "who produces to this topic": "guide/who-produces-to-this-topic-and-from-where",
    "which client breaks with 4.x": "guide/which-clients-break-with-brokers-of-4x",
    "why does the group rebalance": "guide/why-was-this-group-rebalanced",
    "why is my producer not idempotent": "guide/is-a-client-badly-configured",
    "how do I share a capture without secrets": "export/hand-on-a-capture-without-its-data",
    "junit report of all my rules": "check",
    "give an assistant access to captures": "mcp",
    "TOPIC_AUTHORIZATION_FAILED": "error-codes",
    "rebalance storm": "guide/why-was-this-group-rebalanced",
    "who deleted the topic": "guide/who-changed-my-topics-config",
    "TLS handshake failure": "guide/why-can-this-client-not-connect",
    "fail CI when a client polls metadata too often": "check",
    "poison pill record": "records/what-stands-at-this-offset",
    "how long does a record take": "guide/how-long-do-records-take-to-reach-a-consumer",
}
FIRST = 3
"""An answer is among so many hits."""
EXAMPLE = "guide/who-leads-and-since-when"
PAGES = ("index", "guide/why-was-this-group-rebalanced", "schema/index", "recipes/jq", "how-it-works")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if find_spec("zensical") is None:
        pytest.fail("needs the package zensical (make site, or pip install '.[site]')")
    return make(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(site):
    return {path: path.read_text("utf-8") for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    anchors = {
        path: {unescape(name) for name in re.findall(r'\bid="([^"]+)"', text)} for path, text in pages.items()
    }
    followed = 0
    # The page of what is not there may stand anywhere: its links begin at the root.
    for path in pages.keys() - {site / "404.html"}:
        for link in map(unescape, re.findall(r'\b(?:href|src)="?([^">\s]*)', pages[path])):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in anchors[target], f"{path}: {link}"
            followed += 1
    assert followed > 100 * len(PAGES)


def test_no_markdown_is_left(pages):
    """The generator's Markdown has rules of its own: for lists in lists, and tables in lists."""
    for path, text in pages.items():
        told = re.sub(r"<(pre|code|script)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert re.findall(r"\]\(.{20}|\| --.{20}|^ *[*-] .{20}", told, re.MULTILINE) == [], path


def test_every_picture_has_a_text(pages):
    pictures = [picture for text in pages.values() for picture in re.findall(r"<img\b[^>]*>", text)]
    assert len(pictures) > len(PAGES)
    assert [picture for picture in pictures if not re.search(r'\balt="[^"]', picture)] == []


def test_the_commands_are_those_of_the_repository(site):
    """tests/docs and tests/recipes run them."""
    shown = [
        command
        for page in (site.parent / "pages").rglob("*.md")
        for command in re.findall(
            r"^```sh\n((?:[^`].*\n)*?)```\n\n``` \{ \.text", page.read_text("utf-8"), re.MULTILINE
        )
    ]
    run = [
        "".join(f"{line}\n" for line in command)
        for page in sources()
        for _, block in fences(page, "console")
        for _, command, output in commands(block)
        if output
    ]
    assert len(run) > 100
    assert sorted(shown) == sorted(run)


@pytest.mark.parametrize(("size", "dark"), [(PHONE, True), (DESKTOP, False)], ids=["phone", "desktop"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(site, browser, page, size, dark):
    browser.open((site / f"{page}.html").as_uri(), size, dark=dark)
    assert [address for address in browser.asked if not address.startswith(("file:", "data:"))] == []
    inner, width = browser.run("[innerWidth, document.documentElement.scrollWidth]")
    assert inner == size[0]
    assert width <= inner
    browser.run((files("axe_core_python") / "axe.min.js").read_text("utf-8") + "; null")
    found = "({ violations }) => violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])"
    assert browser.run(f"axe.run(document).then({found})") == []


def test_dark_is_dark(site, browser):
    shades = []
    for dark in (False, True):
        browser.open((site / "index.html").as_uri(), dark=dark)
        color = browser.run("getComputedStyle(document.body).backgroundColor")
        shades.append([int(part) for part in re.findall(r"\d+", color)])
    light, dark = shades
    assert min(light) > 240
    assert max(dark) < 60


SEARCH = """
(async (query) => {
  const found = async (find) => {
    while (!find()?.length) await new Promise((done) => setTimeout(done, 20));
    return [...find()];
  };
  document.querySelector(".md-search__button").click();
  const [{ shadowRoot }] = await found(() => [...document.querySelectorAll("div")].filter((each) => each.shadowRoot));
  const [input] = await found(() => shadowRoot.querySelectorAll("input"));
  input.value = query;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const hits = await found(() => [...shadowRoot.querySelectorAll("ol a")].filter((each) => each.href.includes("?h=")));
  return hits.map((each) => new URL(each.href).pathname);
})(%s)
"""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_page(site, browser, question):
    browser.open((site / "schema" / "index.html").as_uri())
    hits = browser.run(SEARCH % json.dumps(question))
    assert str(site / f"{QUESTIONS[question]}.html") in hits[:FIRST]


def test_it_is_found_on_a_server_too(site, browser):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            browser.open(f"http://127.0.0.1:{server.server_port}/index.html")
            question, page = next(iter(QUESTIONS.items()))
            assert f"/{page}.html" in browser.run(SEARCH % json.dumps(question))[:FIRST]
        finally:
            server.shutdown()


def test_a_click_copies_a_command(site, browser):
    browser.open((site / f"{EXAMPLE}.html").as_uri())
    copied = browser.run("""
    new Promise((done) => {
      document.execCommand = () => done(getSelection().toString());
      document.querySelector(".md-code__button").click();
    })
    """)
    text = (ROOT / "docs" / "guide.md").read_text("utf-8").split("\n## Who leads, and since when?\n")[1]
    assert f"$ {copied}\n" in text.split("\n## ")[0]
    assert copied.startswith("kinspect ")
    assert browser.run("document.querySelectorAll('.output .md-code__button').length") == 0
