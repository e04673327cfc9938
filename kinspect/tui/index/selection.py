"""Selection of the listed exchanges, and their order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kinspect.tui.index.filterline import FilterValues, parse_filter, parse_records, without_records
from kinspect.tui.index.listfilter import ListFilter
from kinspect.tui.index.listing import COMPLETION, Listing, RowOrder
from kinspect.tui.index.store import Store

EARLIEST_FIRST = frozenset({COMPLETION, "time"})
"""Orders that ascend at first."""


class Selection:
    """The exchanges in `listing`: those that pass the filter `text`; with `errors_only` only failed ones, with
    `connection` only those of one connection (its number among the texts), with `group` only those that name it, with
    `quiet` none that is expected."""

    def __init__(self, store: Store, text: str = "") -> None:
        self.store = store
        self.listing = Listing(store)
        self.text = text
        self.records: FilterValues = {}
        """The filters of records alone."""
        self.topics: Sequence[str] = ()
        self.errors_only = False
        self.connection: int | None = None
        self.group: str | None = None
        self.quiet = False

    def choose(self, text: str) -> None:
        """List what a filter passes. Raises KinspectError for an error in it."""
        values, self.records = parse_filter(text), parse_records(text)
        self.topics = values.get("topic", ())
        if self.errors_only:
            values["errors_only"] = True
        self.text = text
        self.listing.choose(ListFilter(self.store, values, self.connection, self.group, self.quiet))

    def leave_records(self) -> None:
        """Take the filters of records out of the text, which passes the same exchanges without them."""
        self.text, self.records = without_records(self.text), {}

    @property
    def chosen(self) -> Hashable:
        """What is listed, to be compared with what was listed at another time."""
        return self.text, self.errors_only, self.connection, self.group, self.quiet

    def follow(self, row: int | None) -> None:
        """Follow the connection of an exchange, or none if one is followed, from the next `choose` on."""
        if self.connection is not None:
            self.connection = None
        elif row is not None:
            self.connection = self.store[row].connection or None

    def order_by(self, key: str) -> None:
        """Order by `key`: times ascend, other values descend; a second call reverses the order."""
        order = self.listing.order
        self.listing.sort(RowOrder(key, not order.down if order.key == key else key not in EARLIEST_FIRST))
