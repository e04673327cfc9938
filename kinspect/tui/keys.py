"""The keys, as the help page and docs/explore.md list them."""

from __future__ import annotations

from typing import NamedTuple

from kinspect.analysis.names import ANSWERS


class Key(NamedTuple):
    """A key as it is written, its effect, and the action that it calls (empty: the widgets' own)."""

    key: str
    does: str
    action: str = ""


PAGE_KEYS = dict(zip(ANSWERS, "123456789u", strict=True))
"""The keys of the answers' pages."""
ON_PAGES = {
    "summary": "what is wrong, and where to look next",
    "topics": "who produces and consumes",
    "clients": "software, requests, storms",
    "groups": "members, rebalances, lag",
    "latency": "percentiles, and causes of waits",
    "errors": "error codes: meaning, and what to do",
    "brokers": "nodes, releases, leaders",
    "auth": "logins",
    "transactions": "how each ended",
    "upgrade": "clients that a release breaks",
}

LIST = (
    Key("↑ ↓ PgUp PgDn Home End", "move; the wheel scrolls"),
    Key("Enter", "its fields and bytes; so does a second click"),
    Key("Space", "mark it, for c, w and p"),
    Key("← →", "sideways, where the list is too wide"),
    Key("t", "by the time shown; again: the last first", "order('time')"),
    Key("l", "by latency, the slowest first; again: the fastest", "order('latency')"),
    Key("L", "the same, waits that were asked for (dim) last", "order('slow')"),
    Key("y", "by why it took so long, the unusual first", "order('wait')"),
    Key("b", "by bytes, the largest first; again: the smallest", "order('size')"),
    Key("o", "in the order of completion, as at first", "order('completion')"),
    Key("f", "follow its connection; again: all connections", "follow"),
    Key("g", "follow its group; again: all", "group"),
    Key("e", "errors and problems only; again: all", "errors"),
    Key("n", "hide expected waits and errors; again: show them", "quiet"),
    Key("/", "filter", "filter"),
)
DETAILS = (
    Key("↑ ↓ ← →", "move; in the fields, ← and → fold and unfold"),
    Key("Tab", "list, fields, bytes, and round again"),
    Key("r", "from the request to the response, and back", "swap"),
    Key("[ ]", "the exchange before, the next one", ""),
    Key("Ctrl-F", "find a text in the fields, by name or value", "find"),
    Key(". ,", "the next match, the one before"),
    Key("z", "fields and bytes alone; again: with the list", "zoom"),
    Key("Esc", "back to the list; there: close the errors of inputs"),
)
PAGES = (
    *(Key(PAGE_KEYS[name], f"{name}: {told}", f"page('{name}')") for name, told in ON_PAGES.items()),
    Key("Enter", "list the row's exchanges; Esc: back to the page"),
    Key("← →", "fold and unfold the lines below a row"),
    Key("> <", "sideways: columns that have no room"),
    Key("0", "back to the list; so does Esc", "list"),
)
OTHERS = (
    Key("c", "copy as JSON (the terminal's clipboard, OSC 52)", "copy"),
    Key("w", "write as JSON lines to a file", "write"),
    Key("p", "save the packets as pcapng", "packets"),
    Key("x", "its filter for tshark and Wireshark", "tshark"),
    Key("s", "stop reading the captures; what was read stays", "app.stop"),
    Key("?", "this page", "help"),
    Key("q", "quit; from a page as this one: back", "app.quit"),
    Key("Ctrl-C", "quit; where text is selected: copy it"),
)
OF_LIST, OF_DETAILS = "In the list", "In the fields and the bytes"
OF_PAGES = "Pages of answers, over the listed exchanges"
SECTIONS = {
    OF_LIST: LIST,
    OF_DETAILS: DETAILS,
    OF_PAGES: PAGES,
    "Anywhere": OTHERS,
}

ON_LIVE = (
    Key("1 … 9 u", "an answer's page, counted from when it is opened"),
    Key("0", "the overview"),
    Key("w", "the overview of the last minute, or since the start"),
    Key("↑ ↓ PgUp PgDn Home End", "scroll a page"),
    Key("→ ←", "sideways: a page's columns that have no room"),
    Key("Space", "hold the view still; pages count on"),
    Key("?", "these keys; any key: back"),
    Key("q Ctrl-C", "end, with the summary"),
)
"""The keys of the live view."""

RECIPES = (
    (
        "The slowest exchange and its bytes",
        "L  Enter:  then ↓ through its fields, their bytes are set off",
    ),
    ("What went wrong", "e  Enter:  errors stand above the fields, with their bytes"),
    ("What one client did", "/  client-id=NAME  Enter,  or f on one of its exchanges"),
)
FILTERS = (
    "Those of `kinspect read`, with or without dashes:",
    "api=Fetch,Produce  topic=orders-*  errors-only  min-latency=100",
    "group=!test-*  client-host=10.0.0.0/8  since=+90s",
    "Values are globs; ! before one negates it. Tab completes names.",
)
