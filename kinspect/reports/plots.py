"""Plots over time as SVG, which a page shows without scripts: drawn by Matplotlib, coloured by the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import StringIO
from operator import itemgetter
from typing import Any, NamedTuple

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogFormatter, MaxNLocator, StrMethodFormatter

from kinspect.kafka.view.view import epoch_ns
from kinspect.model import NS_PER_SECOND

Row = dict[str, Any]

APIS_SHOWN = 6
"""Largest number of APIs whose latencies are drawn: the most frequent ones."""
BANDS_SHOWN = 200
"""Largest number of rebalances that are drawn."""
QUANTILES = ("p50", "p95", "p99")
SIZE = (4.6, 2.3)
"""Width and height in inches: one at which texts can be read on a phone."""

COLORS = {
    "ink": "#010101",
    "grid": "#020202",
    "one": "#030303",
    "two": "#040404",
    "three": "#050505",
    "band": "#060606",
}
"""Colours that stand for those of the page: its variables by name."""
LINES = ("one", "two", "three")
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kinspect",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "path.simplify": True,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), COLORS["ink"]
    ),
}
UNITS = ((2 * 86_400, 86_400, "days"), (2 * 3_600, 3_600, "hours"), (600, 60, "minutes"), (0, 1, "seconds"))
"""Spans in seconds from which on a unit of time is used, its seconds, and its name."""


class Plot(NamedTuple):
    """A plot. `name`: unique on the page; `text`: what it tells, for who does not see it."""

    name: str
    title: str
    text: str
    svg: Markup


class Curve(NamedTuple):
    """A line of a plot: a value for each row; None where there is none."""

    label: str
    values: list[float | None]


class _FewLabels(LogFormatter):  # type: ignore[misc]  # Matplotlib is not checked
    """Numbers between powers of ten, but for those for which there is no room."""

    def __call__(self, value: float, place: int | None = None) -> str:
        return f"{value:,g}" if super().__call__(value, place) else ""


class Plots:
    """Plots of the rows of `OverTime`. `bands`: begin and end of rebalances, in nanoseconds since the epoch."""

    def __init__(self, rows: Sequence[Row], bands: Sequence[tuple[int, int]]) -> None:
        self._rows = rows
        begin = epoch_ns(rows[0]["begin"])
        self._seconds = rows[0]["seconds"]
        span = len(rows) * self._seconds
        self._unit, self.unit = next((size, name) for least, size, name in UNITS if span >= least)
        # In the middle of its slot.
        self._times = [(number + 0.5) * self._seconds / self._unit for number in range(len(rows))]
        self._end = span / self._unit
        scale = NS_PER_SECOND * self._unit
        self._bands = [
            ((first - begin) / scale, (last - begin) / scale) for first, last in bands[:BANDS_SHOWN]
        ]

    def all(self) -> list[Plot]:
        """The plots, those of latencies last."""
        return [
            self._plot("exchanges", "Exchanges a second", [self._rate("exchanges")]),
            self._plot("bytes", "Bytes a second, of requests and responses", [self._rate("bytes")]),
            self._plot("failed", "Failed exchanges a second", [self._rate("failed")]),
            self._plot("connections", "Connections", [self._curve("connections", itemgetter("connections"))]),
            *(
                self._plot(f"latency-{number}", f"Latency of {api}, ms", self._latencies(api), log=True)
                for number, api in enumerate(self._frequent(), 1)
            ),
        ]

    def _latencies(self, api: str) -> list[Curve]:
        found = [row["apis"].get(api, {}) for row in self._rows]
        return [Curve(name, [each.get(name) for each in found]) for name in QUANTILES]

    def _frequent(self) -> list[str]:
        """The most frequent APIs that have latencies."""
        counts: dict[str, int] = {}
        for row in self._rows:
            for name, found in row["apis"].items():
                if found["p50"] is not None:
                    counts[name] = counts.get(name, 0) + found["count"]
        return sorted(counts, key=lambda name: (-counts[name], name))[:APIS_SHOWN]

    def _curve(self, label: str, value: Callable[[Row], float | None]) -> Curve:
        return Curve(label, [value(row) for row in self._rows])

    def _rate(self, key: str) -> Curve:
        return self._curve(key, lambda row: row[key] / self._seconds)

    def _plot(self, name: str, title: str, curves: list[Curve], log: bool = False) -> Plot:
        text = "; ".join(filter(None, map(_told, curves))) or "nothing was seen"
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=SIZE, layout="constrained")
            axes = figure.add_subplot()
            # One that took no time is seen, too.
            bands = [(first, max(last - first, self._end / 400)) for first, last in self._bands]
            look = {"color": COLORS["band"], "alpha": 0.25, "lw": 0}
            axes.broken_barh(bands, (0, 1), transform=axes.get_xaxis_transform(), **look)
            for curve, color in zip(curves, LINES, strict=False):
                values = [float("nan") if value is None else value for value in curve.values]
                look = {"color": COLORS[color], "lw": 1.4, "marker": _marker(curve), "ms": 3}
                axes.plot(self._times, values, label=curve.label, **look)
            axes.set_xlim(0, self._end)
            axes.set_xlabel(f"{self.unit} since the beginning")
            axes.grid(color=COLORS["grid"], lw=0.5)
            axes.spines[["top", "right"]].set_visible(False)
            axes.yaxis.set_major_formatter(EngFormatter(sep=""))
            if log and any(value for curve in curves for value in curve.values):
                axes.set_yscale("log", nonpositive="mask")
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
                axes.yaxis.set_minor_formatter(_FewLabels())
            else:
                most = max((value or 0 for curve in curves for value in curve.values), default=0)
                axes.set_ylim(0, None if most else 1)
                axes.yaxis.set_major_locator(MaxNLocator(5, integer=name == "connections"))
            if len(curves) > 1:
                figure.legend(loc="outside upper right", ncols=len(curves), frameon=False)
            written = StringIO()
            figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
        return Plot(name, title, text, _for_page(name, title, text, written.getvalue()))


def _marker(curve: Curve) -> str:
    """A point for each value where lines would be too short to be seen."""
    return "o" if sum(value is not None for value in curve.values) < 20 else ""


def _told(curve: Curve) -> str:
    """The range of a curve as text."""
    values = [value for value in curve.values if value is not None]
    return f"{curve.label} from {min(values):,.4g} to {max(values):,.4g}" if values else ""


def _for_page(name: str, title: str, text: str, svg: str) -> Markup:
    """The picture as an element of a page, which has the colours; ids are those of this plot alone."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[^"]*pt"| xmlns(?::xlink)?="[^"]*"', "", svg)
    svg = re.sub(r"\s*<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for variable, color in COLORS.items():
        svg = svg.replace(color, f"var(--{variable})")
    named = f'role="img" aria-labelledby="{name}-title {name}-text"'
    described = (
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-text">{escape(text)}</desc>'
    )
    return Markup(re.sub(r"<svg([^>]*)>", lambda tag: f"<svg{tag[1]} {named}>{described}", svg, count=1))
