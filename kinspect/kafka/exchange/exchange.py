"""The exchange: a request, its response, and what their bodies say."""

from __future__ import annotations

from typing import Any

from kinspect.kafka import summary
from kinspect.kafka.view import view
from kinspect.kafka.wire.pair import Pair
from kinspect.model import Problem


class Exchange(Pair):
    """A pair with the names and counts in its bodies, and its line."""

    __slots__ = ()

    @property
    def latency_ms(self) -> float | None:
        """`latency_ns` in milliseconds."""
        return view.milliseconds(self.latency_ns)

    @property
    def summary(self) -> summary.Summary:
        """Topics, partitions, groups, records and errors of both bodies; computed once."""
        return summary.summary_of(self)

    @property
    def problems(self) -> list[Problem]:
        """All problems of either message and of their pairing; computed once."""
        return summary.problems_of(self)

    def to_dict(self, options: view.View | None = None) -> dict[str, Any]:
        """The exchange as the JSON line's object: keys and meanings are in docs/output.md. `options`: other ones than
        those of `kinspect.read`."""
        shown: view.View = options or self.view or view.DEFAULT
        return shown.exchange(self)
