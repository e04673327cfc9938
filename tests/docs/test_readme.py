"""The commands and the Python of the documentation do what the pages say."""

import contextlib
import io
import os
import re
from pathlib import Path

import pytest
from console_blocks import LINK, ROOT, Example, anchor_of, examples, fences, matches, run
from support.shares import one_in

PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "guide",
            "answers",
            "records",
            "telemetry",
            "export",
            "diff",
            "check",
            "ecs",
            "request-log",
            "parquet",
        )
    ),
]
OF_PYTHON = [
    ROOT / "README.md",
    ROOT / "docs" / "python.md",
    ROOT / "docs" / "pytest.md",
    ROOT / "docs" / "check.md",
]
EXAMPLES = [example for page in PAGES for example in examples(page)]
MAKE = re.compile(r"^make ([a-z-]+)", re.MULTILINE)
GLOB = re.compile(r"[\"' ](captures/[^\"'\s|]*\*[^\"'\s|,]*)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("example", one_in(8, EXAMPLES), ids=lambda e: f"{e.page}:{e.line}")
def test_a_command_prints_what_is_shown(example: Example) -> None:
    real = run(example.command)
    shown = "\n".join(example.shown)
    assert matches(example.shown, real), f"{example.command}\n--- shown\n{shown}\n--- real\n" + "\n".join(
        real
    )


@pytest.mark.parametrize("page", OF_PYTHON, ids=lambda page: page.name)
def test_python_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "example"}
    for line, source in fences(page, "python"):
        code = compile("\n" * (line - 1) + source, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    targets = {name for page in pages for _, block in fences(page, "sh") for name in MAKE.findall(block)}
    assert {"demo", "test", "test-all", "docs"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_globs_match_something() -> None:
    found = {
        glob
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for kind in ("sh", "python", "console")
        for _, block in fences(page, kind)
        for glob in GLOB.findall(block)
    }
    assert found
    assert [glob for glob in found if not [*ROOT.glob(glob)]] == []


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in LINK.findall(page.read_text("utf-8")):
            if "://" in target:
                continue
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            if anchor:
                headings = HEADING.findall(path.read_text("utf-8"))
                assert anchor in map(anchor_of, headings), f"{page.name}: {target}#{anchor}"


def test_the_pages_have_blocks_to_run() -> None:
    assert {example.page for example in EXAMPLES} == {page.relative_to(ROOT).as_posix() for page in PAGES}


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "…", "b"], ["a", "b"], True),
        (["…", "b"], ["a"], False),
        (['{"a":1,…}'], ['{"a":1,"b":2}'], True),
        (["a…c"], ["ab", "c"], False),
        ([], [], True),
        ([], ["a"], False),
    ],
)
def test_an_ellipsis_stands_for_any_lines(shown: list[str], real: list[str], same: bool) -> None:
    assert matches(shown, real) is same


def test_examples_run_with_this_environment() -> None:
    assert run('echo "$TZ $COLUMNS"; command -v kinspect')[0] == "UTC 130"
    assert os.access(run("command -v kinspect")[0], os.X_OK)
