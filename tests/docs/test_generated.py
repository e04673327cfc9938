"""The generated pages are up to date, and the written ones name everything there is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import generate_docs
import pytest
from console_blocks import ROOT
from make_site import navigation, write_pages

from kinspect.answers import answers
from kinspect.cli import group
from kinspect.cli.options import CAPS
from kinspect.model import PROBLEM_CODES
from kinspect.protocol import schema

OUTPUT = (ROOT / "docs" / "output.md").read_text("utf-8")
CODE = set(re.findall(r"`([^`]+)`", OUTPUT))
COMMANDS = group.list_commands(click.Context(group))


def test_generated_pages_are_up_to_date() -> None:
    found = generate_docs.differences()
    assert not found, f"run `make docs`:\n{found}"


def test_every_page_has_its_place_in_the_site(tmp_path: Path) -> None:
    pages = write_pages(tmp_path)
    assert navigation(pages)
    with pytest.raises(SystemExit, match=r"no place for: other\.md"):
        navigation([*pages, "other.md"])
    with pytest.raises(SystemExit, match=r"not there: .*index\.md"):
        navigation(pages[1:])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_page_of_commands(command: str) -> None:
    whole = (ROOT / "docs" / "cli.md").read_text("utf-8")
    own, limits = (
        whole.split(f"## {title}\n")[1].split("\n## ")[0] for title in (f"kinspect {command}", "Limits")
    )
    if command in answers():
        own += whole.split("## Options of all answers\n")[1].split("\n## ")[0]
    found = group.get_command(click.Context(group), command)
    assert found is not None
    for parameter in found.params:
        page = limits if parameter.name in CAPS else own
        for name in parameter.opts if isinstance(parameter, click.Option) else ():
            assert re.search(rf"^\| `[^`]*(?<![\w-]){re.escape(name)}(?![\w-])", page, re.MULTILINE), name


def test_every_problem_code_is_explained() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.+) \|$", OUTPUT.split("## Problems")[1].split("\n## ")[0], re.MULTILINE)
    )
    assert rows.keys() - {"code"} == PROBLEM_CODES


@pytest.mark.parametrize("line_type", ["exchange", "connection", "gap", "summary", "stats"])
def test_every_key_and_every_word_is_explained(line_type: str) -> None:
    path = ROOT / "docs" / "schema" / f"{line_type}.schema.json"
    for word in _words(json.loads(path.read_text("utf-8"))):
        assert word in CODE, word


@pytest.mark.parametrize(
    ("name", "page"),
    [("record", "records"), ("telemetry", "telemetry"), ("difference", "diff"), ("rule", "check")],
)
def test_every_key_of_a_row_is_explained(name: str, page: str) -> None:
    keys = json.loads((ROOT / "docs" / "schema" / f"{name}.schema.json").read_text("utf-8"))["properties"]
    text = re.sub(r"^```.*?^```", "", (ROOT / "docs" / f"{page}.md").read_text("utf-8"), flags=re.S | re.M)
    assert {*keys} <= set(re.findall(r"`([^`]+)`", text))


@pytest.mark.parametrize("name", answers())
def test_every_key_of_an_answer_is_explained_in_its_section(name: str) -> None:
    page = re.sub(r"^```.*?^```", "", (ROOT / "docs" / "answers.md").read_text("utf-8"), flags=re.S | re.M)
    assert f"| [{name}](#{name}) |" in page
    found = answers()[name]
    below = [column.split()[0] for text in found.structs.values() for column in text.split(",")]
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert {*(key.name for key in found.keys), *below} <= set(re.findall(r"`([^`]+)`", section))


@pytest.mark.parametrize("key", ["kind", "tls_status", "end_reason"])
def test_every_state_of_a_connection_is_told(key: str) -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8").split("## The life of a connection")[1]
    keys = json.loads((ROOT / "docs" / "schema" / "connection.schema.json").read_text("utf-8"))["properties"]
    told = set(re.findall(r"\w+", page))
    assert [word for word in keys[key]["enum"] if word and word not in told] == []


def _words(node: Any) -> Iterator[str]:
    """Names of keys and enumerated values."""
    if isinstance(node, list):
        for item in node:
            yield from _words(item)
    elif isinstance(node, dict):
        properties = node.get("properties", {})
        yield from properties
        yield from (word for word in node.get("enum", ()) if isinstance(word, str))
        for name, inner in node.items():
            yield from _words(list(inner.values()) if name in ("properties", "$defs") else inner)


def test_every_api_is_in_the_page_of_the_protocol() -> None:
    page = (ROOT / "docs" / "protocol-support.md").read_text("utf-8")
    for api in schema.apis():
        assert f"| {api.key} | {api.name} |" in page


def test_every_release_with_captures_is_in_the_page_of_support() -> None:
    page = (ROOT / "docs" / "support.md").read_text("utf-8")
    (row,) = re.findall(r"^\| captures of \| ([\d., ]+) \|", page, re.MULTILINE)
    folders = {path.name for path in (ROOT / "captures").iterdir() if path.is_dir()}
    assert set(row.split(", ")) == {name for name in folders if name[0].isdigit()}
