"""Which columns fit a width."""

import pytest
from rich.text import Text

from kinspect.output.columns import REST, WHOLE, Column, Grid, fitted

NAME = Column("NAME")
COUNT = Column("COUNT", right=True, rank=1)
NOTE = Column("NOTE", rank=2)
FILE = Column("FILE", rank=3, spare=True)
NATURAL = {NAME: 20, COUNT: 5, NOTE: 30, FILE: 9}


@pytest.mark.parametrize(
    ("room", "widths"),
    [
        (70, NATURAL),
        (69, {NAME: 20, COUNT: 5, NOTE: 30}),  # a spare column goes before any text is cut
        (50, {NAME: 20, COUNT: 5, NOTE: 21}),
        (41, {NAME: 16, COUNT: 5, NOTE: 16}),
        (40, {NAME: 20, COUNT: 5}),
        (19, {NAME: 19}),
        (5, {NAME: 16}),
    ],
)
def test_columns_are_left_out_by_their_rank_then_the_longest_are_cut(room, widths):
    assert fitted(NATURAL, room, 2) == widths


def test_columns_up_to_a_rank_are_kept():
    assert fitted(NATURAL, 5, 2, kept=1) == {NAME: 16, COUNT: 5}


def test_one_column_takes_the_rest_of_the_room():
    last = Column("ABOUT", rank=1, least=20)
    whole = Column("API", least=WHOLE)
    assert fitted({whole: 30, last: REST}, 60, 1) == {whole: 30, last: 29}
    assert fitted({whole: 30, last: REST}, 50, 1) == {whole: 30}


def test_rows_stand_below_their_titles():
    grid = Grid({NAME: 6, COUNT: 5}, 14)
    assert grid.titles("").plain == "NAME   COUNT  "
    assert grid.row([Text("orders-and-more"), Text("12")]).plain == "order…    12  "
    assert grid.row([Text("a")]).plain == "a" + " " * 13
