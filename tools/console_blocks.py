"""The Markdown of the documentation: its links, and its examples, which are run and compared with the page.

A ```` ```console ```` block holds commands (`$ command`, continued after a backslash) and, below each, its output:
standard output and standard error in the order they were written. `…` on a line of its own stands for any number
of lines, `…` within a line for anything in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 130
ELLIPSIS = "…"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
"""The end of a link: its file, and the anchor there."""

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """One command of a page, its line there, and the output shown below it."""

    page: str
    line: int
    command: str
    shown: tuple[str, ...]


def fences(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """The blocks of a language: the number of their first line, and their text."""
    text = page.read_text("utf-8")
    for match in _FENCE.finditer(text):
        if match[1] == language:
            yield text.count("\n", 0, match.start()) + 2, match[2]


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as a link names it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def examples(page: Path) -> Iterator[Example]:
    """The commands of a page's console blocks, in their order."""
    name = page.relative_to(ROOT).as_posix()
    for first, block in fences(page, "console"):
        try:
            for at, command, shown in commands(block):
                yield Example(name, first + at, joined(command), shown)
        except ValueError as error:
            raise ValueError(f"{name}, the block at line {first}: {error}") from None


def commands(block: str) -> Iterator[tuple[int, list[str], tuple[str, ...]]]:
    """The commands of a console block: the place of its first line, its lines without the prompt, the output shown.

    Raises ValueError if the block begins with output.
    """
    lines = block.splitlines()
    if not lines[0].startswith("$ "):
        raise ValueError("output without a command")
    at = 0
    while at < len(lines):
        start = at
        while lines[at].endswith("\\"):
            at += 1
        at += 1
        end = next((i for i in range(at, len(lines)) if lines[i].startswith("$ ")), len(lines))
        yield start, [lines[start][2:], *lines[start + 1 : at]], tuple(lines[at:end])
        at = end


def joined(command: list[str]) -> str:
    """The lines of a command as one."""
    first, *others = command
    for line in others:
        first = first.removesuffix("\\") + line.strip()
    return first


def run(command: str) -> list[str]:
    """Output of a command, run from the project's root with this Python's programs first in the path."""
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TZ": "UTC",
            "COLUMNS": str(COLUMNS),
            "LC_ALL": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return result.stdout.decode("utf-8").splitlines()


def matches(shown: tuple[str, ...] | list[str], real: list[str]) -> bool:
    """True if the shown lines, with their ellipses, match the real ones."""
    pattern = ""
    for line in shown:
        if line.strip() == ELLIPSIS:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*".join(map(re.escape, line.rstrip().split(ELLIPSIS))) + r"[^\n\S]*\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in real)) is not None
