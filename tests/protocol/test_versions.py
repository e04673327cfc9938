import pytest

from kinspect.protocol.versions import format_versions, parse_versions


@pytest.mark.parametrize(
    ("text", "versions"), [("none", set()), ("0", {0}), ("0-2", {0, 1, 2}), ("0-1,4+", {0, 1, 4, 5})]
)
def test_versions_are_parsed_and_formatted(text, versions):
    assert parse_versions(text, range(6)) == versions
    assert format_versions(versions, range(6)) == text


def test_an_open_end_needs_something_to_run_to():
    with pytest.raises(ValueError, match="no end"):
        parse_versions("3+")
    assert parse_versions("0-1,3") == {0, 1, 3}
    assert format_versions({0, 1, 3}) == "0-1,3"


def test_a_gap_in_the_valid_versions_does_not_break_a_range():
    assert format_versions({1, 4}, [0, 1, 4, 5]) == "1-4"
