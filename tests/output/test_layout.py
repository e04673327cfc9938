"""Tables of answers say what they leave out."""

import pytest
from support.answered import objects_of
from support.captures import CAPTURES

import kinspect
from kinspect.answers import answers, definition_of, layout
from kinspect.output import Style
from kinspect.tui.index.answerlines import AnswerLines

CLUSTER = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
CUT = CAPTURES / "4.4.0" / "snap96.pcap"
FULL = [name for name in answers() if name != "auth"]
"""Answers with rows."""
LEFT_OUT = "columns left out: "


@pytest.fixture(scope="module")
def found():
    return objects_of(CLUSTER)


def cells(found):
    answer = definition_of(found["answer"])
    return layout.Cells(answer, answer.split(found["rows"])[0], Style(utc=True), {})


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("width", [80, 120, 300])
def test_columns_that_are_left_out_are_named(found, name, width):
    all_titles = cells(found[name])
    lines = " ".join(part.plain for part in layout.parts(found[name], width, Style(utc=True))).split()
    text = " ".join(lines)
    named = text.partition(LEFT_OUT)[2].partition(": --wide")[0].split(", ")
    shown = all_titles.fitted(width)
    assert set(filter(None, named)) == {*all_titles.without(shown)}
    assert (LEFT_OUT in text) == (len(shown) < len(all_titles.widths))
    assert LEFT_OUT not in " ".join(part.plain for part in layout.parts(found[name], width, Style(wide=True)))


@pytest.mark.parametrize("name", FULL)
def test_a_page_names_all_columns_to_come(found, name):
    sheet = AnswerLines(found[name], Style(utc=True))
    sheet.fit(60)
    first = sheet.head()[-1].plain
    every = cells(found[name])
    for title in every.without():
        assert title in first or title in sheet.to_come
    while sheet.beside:
        assert {*sheet.beside} <= {*sheet.to_come}
        sheet.sideways(sheet.side + 1)
    assert not sheet.to_come


def test_a_summary_says_how_many_exchanges_it_is_of():
    found = kinspect.answer("summary", CLUSTER, filter={"client_id": "pc-cltx"})
    capture = found["capture"]
    assert 0 < capture["counted"] < capture["exchanges"]
    assert str(layout.span(capture, Style(utc=True))).endswith(
        f" exchanges, {capture['counted']} of them counted"
    )
    whole = kinspect.answer("summary", CLUSTER)["capture"]
    assert whole["counted"] == whole["exchanges"]
    assert "counted" not in str(layout.span(whole, Style(utc=True)))


@pytest.mark.parametrize("name", ["groups", "transactions"])
def test_where_names_were_cut_nothing_is_said_not_to_be_named(name):
    found = {**kinspect.answer(name, CUT), "rows": []}
    assert found["capture"]["gaps"]
    text = definition_of(name).empty(found["capture"])
    assert text.endswith(" could be read")
    assert definition_of(name).empty({**found["capture"], "gaps": 0}).endswith(" is named")
