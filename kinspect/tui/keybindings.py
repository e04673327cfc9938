"""The keys, as the help page and docs/explore.md list them."""

from __future__ import annotations

from typing import NamedTuple

from kinspect.answers import answers
from kinspect.tui.index.recordpage import PAGE


class KeyBinding(NamedTuple):
    """A key as it is written, its effect, and the action that it calls (empty: the widgets' own)."""

    key: str
    does: str
    action: str = ""


PAGE_KEYS = {name: row.page for name, row in answers().items()}
"""The keys of the answers' pages."""
_DIGITS, _LETTERS = (
    [key for key in PAGE_KEYS.values() if key.isdigit() is digits] for digits in (True, False)
)

LIST = (
    KeyBinding("↑ ↓ PgUp PgDn Home End", "move; the wheel scrolls"),
    KeyBinding("Enter", "its fields and bytes; so does a second click"),
    KeyBinding("Space", "mark it, for c, w and p"),
    KeyBinding("← →", "sideways, where the list is too wide"),
    KeyBinding("t", "by the time shown; again: the last first", "order('time')"),
    KeyBinding("l", "by latency, the slowest first; again: the fastest", "order('latency')"),
    KeyBinding("L", "the same, waits that were asked for (dim) last", "order('slow')"),
    KeyBinding("y", "by why it took so long, the unusual first", "order('wait')"),
    KeyBinding("b", "by bytes, the largest first; again: the smallest", "order('size')"),
    KeyBinding("o", "in the order of completion, as at first", "order('completion')"),
    KeyBinding("f", "follow its connection; again: all connections", "follow"),
    KeyBinding("g", "follow its group; again: all", "group"),
    KeyBinding("e", "errors and problems only; again: all", "errors"),
    KeyBinding("n", "hide expected waits and errors; again: show them", "quiet"),
    KeyBinding("/", "filter", "filter"),
)
DETAILS = (
    KeyBinding("↑ ↓ ← →", "move; in the fields, ← and → fold and unfold"),
    KeyBinding("Tab", "list, fields, bytes, and round again"),
    KeyBinding("r", "from the request to the response, and back", "swap"),
    KeyBinding("[ ]", "the exchange before, the next one", ""),
    KeyBinding("Ctrl-F", "find a text in the fields, by name or value", "find"),
    KeyBinding(". ,", "the next match, the one before"),
    KeyBinding("z", "fields and bytes alone; again: with the list", "zoom"),
    KeyBinding("Esc", "back to the list; there: close the errors of inputs"),
)
PAGES = (
    *(KeyBinding(row.page, f"{name}: {row.page_help}", f"page('{name}')") for name, row in answers().items()),
    KeyBinding("Enter", "its exchanges, or packets without any; Esc: back"),
    KeyBinding("← →", "fold and unfold the lines below a row"),
    KeyBinding("> <", "sideways: columns that have no room"),
    KeyBinding("0", "back to the list; so does Esc", "list"),
)
OTHERS = (
    KeyBinding("c", "copy as JSON (the terminal's clipboard, OSC 52)", "copy"),
    KeyBinding("w", "write as JSON lines to a file", "write"),
    KeyBinding("p", "save the packets as pcapng", "packets"),
    KeyBinding("x", "its filter for tshark and Wireshark", "tshark"),
    KeyBinding(PAGE.page, PAGE.page_help, "records"),
    KeyBinding("s", "stop reading the captures; what was read stays", "app.stop"),
    KeyBinding("?", "this page", "help"),
    KeyBinding("q", "quit; from a page as this one: back", "app.quit"),
    KeyBinding("Ctrl-C", "quit; where text is selected: copy it"),
)
OF_LIST, OF_DETAILS = "In the list", "In the fields and the bytes"
OF_PAGES = "Pages of answers, over the listed exchanges"
SECTIONS = {OF_LIST: LIST, OF_DETAILS: DETAILS, OF_PAGES: PAGES, "Anywhere": OTHERS}

ON_LIVE = (
    KeyBinding(
        " ".join([_DIGITS[0], "…", _DIGITS[-1], *_LETTERS]),
        "an answer's page, counted from when it is opened",
    ),
    KeyBinding("0", "the overview"),
    KeyBinding("w", "the overview of the last minute, or since the start"),
    KeyBinding("↑ ↓ PgUp PgDn Home End", "scroll a page"),
    KeyBinding("→ ←", "sideways: a page's columns that have no room"),
    KeyBinding("Space", "hold the view still; pages count on"),
    KeyBinding("?", "these keys; any key: back"),
    KeyBinding("q Ctrl-C", "end, with the summary"),
)
"""The keys of the live view."""

RECIPES = (
    ("The slowest exchange and its bytes", "L  Enter:  then ↓ through its fields, their bytes are set off"),
    ("What went wrong", "e  Enter:  errors stand above the fields, with their bytes"),
    ("What one client did", "/  client-id=NAME  Enter,  or f on one of its exchanges"),
)
FILTERS = (
    "Those of `kinspect read`, with or without dashes:",
    "api=Fetch,Produce  topic=orders-*  errors-only  min-latency=100",
    "group=!test-*  client-host=10.0.0.0/8  since=+90s",
    "Those of `kinspect records`, which open its page: key=order-17*  header=trace",
    "Values are globs; ! before one negates it. Tab completes names.",
)
