"""What `captures/record` can record for captures/connect is what is there."""

from broker.troubles import NAMES, named
from support.captures import CAPTURES
from support.manifest import load


def test_the_table_of_troubles_is_that_of_the_captures():
    rows = {row.path.name.partition(".")[0]: row for row in load(CAPTURES) if "connect" in row.facts}
    assert rows.keys() == set(NAMES)
    for name, row in rows.items():
        assert (row.what, row.facts["connect"]) == (named(name).what, named(name).problems)
