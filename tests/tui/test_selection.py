"""Contents and order of the list."""

import pytest
from support.tui import ERRORS, indexed

from kinspect.errors import KinspectError
from kinspect.tui.index.listing import RowOrder
from kinspect.tui.index.selection import Selection


@pytest.fixture(scope="module")
def store():
    return indexed(ERRORS)


def listed(selection):
    for _ in selection.listing.update():
        pass
    return [selection.listing[place] for place in range(len(selection.listing))]


def test_the_greatest_come_first_but_the_earliest(store):
    selection = Selection(store)
    orders = []
    for key in ("latency", "latency", "time", "time", "size", "completion"):
        selection.order_by(key)
        orders.append(selection.listing.order)
    assert orders == [
        *(RowOrder("latency", True), RowOrder("latency", False)),
        *(RowOrder("time", False), RowOrder("time", True)),
        *(RowOrder("size", True), RowOrder("completion", False)),
    ]


def test_a_connection_is_followed_within_the_filter_and_left(store):
    selection = Selection(store)
    selection.choose("api=Fetch")
    of_api = listed(selection)
    selection.follow(of_api[0])
    selection.choose(selection.text)
    followed = listed(selection)
    assert 0 < len(followed) < len(of_api)
    assert {store[row].connection for row in followed} == {store[of_api[0]].connection}
    selection.follow(of_api[-1])
    selection.choose(selection.text)
    assert listed(selection) == of_api


def test_errors_alone_are_listed_with_any_filter(store):
    selection = Selection(store)
    selection.choose("errors-only api=Produce")
    expected = listed(selection)
    selection.errors_only = True
    selection.choose("api=Produce")
    assert listed(selection) == expected != []
    assert selection.text == "api=Produce"


def test_an_error_in_a_filter_leaves_what_is_listed(store):
    selection = Selection(store)
    selection.choose("api=Produce")
    before = listed(selection)
    with pytest.raises(KinspectError, match="no filter 'apis'"):
        selection.choose("apis=Fetch")
    assert (selection.text, listed(selection)) == ("api=Produce", before)
