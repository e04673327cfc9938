"""Result of reading a `records` field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinspect.model import Problem


class RecordSet(list[dict[str, Any]]):
    """The batches of a record set, one dict each.

    `partial_bytes`: bytes of a cut-off batch at the end (and, for sets read with `aligned=False`, at the start).
    `problems`: damage; `offset` counts within the record set, `bytes` are those that were skipped. The sizes of the
    batches, `partial_bytes` and the problems' `bytes` add up to the record set. `expanded_bytes`: size of compressed
    batches after expansion. `kept`: number of records and headers in the batches. `caps_hit`: limits that were reached,
    by the names of `model.Caps`.
    """

    __slots__ = ("caps_hit", "expanded_bytes", "kept", "partial_bytes", "problems")

    def __init__(self) -> None:
        super().__init__()
        self.partial_bytes = 0
        self.expanded_bytes = 0
        self.kept = 0
        self.problems: list[Problem] = []
        self.caps_hit: set[str] = set()

    def placed(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The batches with their positions in the record set."""
        skipped = {problem.offset: problem.bytes for problem in self.problems if problem.bytes}
        position = 0
        for batch in self:
            while size := skipped.get(position):
                position += size
            yield position, batch
            position += batch["size"]

    def problem(self, code: str, message: str, offset: int, skipped: int | None = None) -> None:
        """Add a problem, once per code and place: a wrapper may hold millions of broken messages."""
        last = self.problems[-1] if self.problems else None
        if last is None or last.offset != offset or last.code != code:
            self.problems.append(Problem(None, code, message, offset, skipped))
