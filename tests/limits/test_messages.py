"""Error messages are short, whatever they quote."""

import pytest

from kinspect.cli import complain
from kinspect.errors import MESSAGE_HEAD, MESSAGE_TAIL, DecodeError, KinspectError, StateError, shortened
from kinspect.model import Problem

MOST = MESSAGE_HEAD + MESSAGE_TAIL + 50
LONG = "begin " + "x" * 1_000_000 + " end"


@pytest.mark.parametrize("made", [KinspectError, StateError, DecodeError])
def test_an_error_keeps_its_begin_and_its_end(made):
    text = str(made(LONG))
    assert len(text) <= MOST
    assert text.startswith("begin xxx")
    assert text.endswith("xxx end")
    assert "characters left out" in text


def test_a_short_message_stays_as_it_is():
    text = "x" * (MESSAGE_HEAD + MESSAGE_TAIL)
    assert shortened(text) == text
    assert str(KinspectError("one line")) == "one line"
    assert str(KinspectError()) == ""


def test_a_problem_in_the_output_is_short():
    assert len(Problem("request", "malformed", LONG).to_dict()["message"]) <= MOST


def test_what_nobody_expected_is_told_shortly(capsys):
    complain(f"internal error: {LONG}")
    assert len(capsys.readouterr().err) <= MOST + len("kinspect: \n")
