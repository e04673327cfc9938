"""Keys that leave only some exchanges in the list: a group's, and those that are not expected."""

import pytest
from support.tui import CAPTURES, ERRORS, NANO

import kinspect

GROUPS = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"


def listed(explorer):
    return [row + 1 for row in explorer.main.selection.listing.passed]


def orders(condition, path=GROUPS):
    return [exchange.order for exchange in kinspect.read(path) if condition(exchange)]


def test_a_group_is_followed_and_left(explore):
    expected = orders(lambda exchange: "pc-grp-java" in exchange.summary.groups)

    async def script(explorer):
        explorer.main.exchanges.move_to(expected[0] - 1)
        await explorer.press("g")
        assert "group pc-grp-java (g)" in explorer.read()
        assert listed(explorer) == expected
        await explorer.press("end", "g")
        assert "group" not in explorer.status().split("captures")[0]
        assert len(listed(explorer)) == 671

    explore(script, GROUPS, size=(160, 24))


@pytest.mark.big
def test_a_group_is_followed_from_a_page(explore):
    async def script(explorer):
        await explorer.press("4", "down", "g")
        main = explorer.main
        name = main.page.rows.sheet.rows[0]["group"]
        assert (main.pages.shown, main.selection.group) == (None, name)
        assert listed(explorer) == orders(lambda exchange: name in exchange.summary.groups)
        # The page is that of the group, and leads back to all.
        await explorer.press("4")
        assert [row["group"] for row in main.page.rows.sheet.rows] == [name]
        await explorer.press("g")
        assert (main.pages.shown, len(listed(explorer))) == (None, 671)

    explore(script, GROUPS)


def test_an_exchange_without_a_group_leads_to_none(explore):
    async def script(explorer):
        await explorer.press("g")
        assert explorer.said() == ["nothing here names a group"]
        assert "1/4 exchanges" in explorer.read()
        await explorer.press("7", "g")
        assert explorer.said()[1:] == ["nothing here names a group"]

    explore(script, NANO)


def test_what_is_expected_is_hidden_and_counted(explore):
    waits = {
        cause: sum(row["waits"][cause] for row in kinspect.answer("latency", GROUPS)["rows"])
        for cause in ("long_poll", "group_wait")
    }
    assert all(waits.values())
    errors = [row for row in kinspect.answer("errors", GROUPS)["rows"] if row["expected"]]
    hidden = sum(waits.values()) + sum(row["count"] for row in errors)

    async def script(explorer):
        await explorer.press("n")
        assert f"of 671 exchanges  {hidden} expected hidden (n)" in explorer.read()
        assert len(listed(explorer)) == 671 - hidden
        shown = set(listed(explorer))
        for exchange in kinspect.read(GROUPS):
            if exchange.summary.error_names in (["MEMBER_ID_REQUIRED"], ["REBALANCE_IN_PROGRESS"]):
                assert exchange.order not in shown
        await explorer.press("6")
        assert explorer.main.page.rows.sheet.rows == []
        await explorer.press("0", "n")
        assert "1/671 exchanges" in explorer.read()

    explore(script, GROUPS, size=(160, 24))


def test_what_passed_soon_or_is_wrong_is_not_hidden(explore):
    async def script(explorer):
        await explorer.press("n", "e")
        names = {
            name
            for row in explorer.main.selection.listing.passed
            for name in explorer.app.store.line(row)["error_names"]
        }
        assert {"CONCURRENT_TRANSACTIONS", "MESSAGE_TOO_LARGE", "PRODUCER_FENCED"} <= names
        assert "MEMBER_ID_REQUIRED" not in names

    explore(script, ERRORS)
