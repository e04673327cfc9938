from pathlib import Path

from kinspect.protocol import schema

SHORT = 160
ADVICE = Path(schema.TABLE, "advice.txt").read_text("utf-8")


def test_every_error_code_has_a_meaning_and_advice_in_a_line_each():
    found = schema.error_advice()
    assert [*found] == sorted(schema.errors())
    for texts in found.values():
        assert all(texts)
        assert all(text.isprintable() and len(text) < SHORT for text in texts)
        assert texts.meaning.endswith(".")
        assert texts.advice.endswith(".")


def test_no_two_codes_have_the_same_meaning():
    meanings = [texts.meaning for texts in schema.error_advice().values()]
    assert len({*meanings}) == len(meanings)


def test_the_names_beside_the_codes_are_theirs():
    titles = [line.split() for line in ADVICE.splitlines() if not line.startswith(("#", " "))]
    assert {int(code): name for code, name in titles} == {
        code: error.name for code, error in schema.errors().items()
    }
