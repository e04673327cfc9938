"""docs/recipes/jq.md: each command prints what is shown."""

import pytest
from console_blocks import Example, examples, matches, run
from recipes.programs import RECIPES, program

pytestmark = pytest.mark.tools

EXAMPLES = [*examples(RECIPES / "jq.md")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.line))
def test_a_command_prints_what_is_shown(example: Example) -> None:
    program("jq", "jq")
    real = run(example.command)
    assert matches(example.shown, real), f"{example.command}\n" + "\n".join(real)


def test_there_are_commands() -> None:
    assert len(EXAMPLES) == 7
