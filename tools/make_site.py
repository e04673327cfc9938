"""`make site`: the documentation as a site in `build/site`, which needs neither a server nor the network.

The pages are those of the repository. `tools/website/site.toml` says which of their sections become pages of their own,
in which order a reader finds them, and how Zensical, the generator, makes them. This program writes what the generator
reads into `build/pages`, with links that follow the sections to their new places.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from console_blocks import LINK, ROOT, anchor_of, commands

OWN = ROOT / "tools" / "website"
SETTINGS = tomllib.loads((OWN / "site.toml").read_text("utf-8"))
RENAMED = {
    "README": "index",
    "captures/README": "captures",
    "CONTRIBUTING": "contributing",
    "CHANGELOG": "changelog",
}
"""By the path of a page in the repository, without its ending: that in the site. Those of `docs` lose `docs/`."""

UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
OWN_FILES = ("site.css", "site.js")
FROM_THE_NETWORK = "https://unpkg.com/iframe-worker/shim"
"""What the generator has every page load for a search without a server; `site.js` does that."""

_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$")


class Part(NamedTuple):
    """A section that is a page of its own: its title, and its lines with headings from the first level on."""

    path: str
    title: str
    lines: list[str]


def sources() -> Iterator[Path]:
    """The pages of the repository that the site has."""
    yield from (ROOT / f"{name}.md" for name in RENAMED)
    yield from sorted((ROOT / "docs").rglob("*.md"))


def place(source: Path) -> str:
    """Where a file of the repository is in the site. One that is neither a page nor in `docs` becomes a text."""
    name = source.relative_to(ROOT).as_posix()
    if source.suffix == ".md":
        name = name.removesuffix(".md")
        return f"{RENAMED.get(name, name.removeprefix('docs/').replace('README', 'index'))}.md"
    return name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}.txt"


def apart(block: re.Match[str]) -> str:
    """A console block as a block for each command, which a click copies, and one for what it prints."""
    made = []
    for _, command, shown in commands(block[1]):
        made += ["```sh", *command, "```", ""]
        if shown:
            made += ["``` { .text .no-copy .output }", *shown, "```", ""]
    return "\n".join(made)


def prose(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is text: no part of a block of code."""
    fenced = False
    for line in lines:
        fence = line.startswith("```")
        yield line, not (fenced or fence)
        fenced ^= fence


def deeper(line: str) -> str:
    """A line of text with twice its indentation: in a list the generator asks for four blanks, others for two."""
    return " " * (len(line) - len(line.lstrip(" "))) + line


def split(path: str, text: str) -> tuple[list[str], list[Part]]:
    """A page without the sections that are pages of their own, with a link in the place of each; and those."""
    begins = re.compile(SETTINGS["parts"].get(path, r"(?!)"), re.ASCII)
    rest: list[str] = []
    parts: list[Part] = []
    level = 0  # of the part that the line belongs to
    for line, is_text in prose(text.splitlines()):
        heading = _HEADING.match(line) if is_text else None
        if heading and len(heading[1]) <= level:
            level = 0
        if heading and begins.match(line):
            level, title = len(heading[1]), heading[2]
            anchor = anchor_of(title)
            parts.append(Part(f"{path.removesuffix('.md')}/{anchor}.md", title, []))
            rest += ["", f"* [{title}]({parts[-1].path}){{ #{anchor} }}", ""]
            parts[-1].lines.extend((line[level - 1 :], *SETTINGS["leads"].get(path, ())))
        elif level:
            parts[-1].lines.append(line[level - 1 :] if heading else line)
        else:
            rest.append(line)
    return rest, parts


class Links:
    """Where the links of the repository's pages lead in the site."""

    def __init__(self) -> None:
        self.moved: dict[tuple[str, str], str] = {}
        """By page and anchor: the page of its own that has it, with the anchor unless it is its title."""
        self.files: dict[str, Path] = {}
        """By place: files that pages refer to, and that are no pages."""

    def note(self, path: str, part: Part) -> None:
        for line, is_text in prose(part.lines):
            if is_text and (heading := _HEADING.match(line)):
                anchor = anchor_of(heading[2])
                self.moved[path, anchor] = part.path if heading[1] == "#" else f"{part.path}#{anchor}"

    def followed(self, source: Path, path: str, lines: Iterable[str]) -> str:
        """The lines of a page, which stands at a path of the site and came from a source, with their links."""

        def lead(match: re.Match[str]) -> str:
            target, anchor = match[1], match[2] or ""
            if "://" in target or target in own:
                return match[0]
            file = (source.parent / target).resolve() if target else source
            if file.is_dir():
                file = file / "README.md"
            there = place(file)
            if file.suffix != ".md":
                self.files[there] = file
            there = self.moved.get((there, anchor)) or (f"{there}#{anchor}" if anchor else there)
            to, mark, at = there.partition("#")
            return f"]({os.path.relpath(to, PurePosixPath(path).parent)}{mark}{at})"

        own = {*self.moved.values()}
        return "".join(
            f"{LINK.sub(lead, deeper(line)) if is_text else line}\n" for line, is_text in prose(lines)
        )


def write_pages(folder: Path) -> list[str]:
    """Write all pages and what they refer to into a new folder; their paths, in the order of the repository."""
    links = Links()
    made = []
    for source in sources():
        path = place(source)
        rest, parts = split(path, _CONSOLE.sub(apart, source.read_text("utf-8")))
        for part in parts:
            links.note(path, part)
        made += [(source, path, rest), *((source, part.path, part.lines) for part in parts)]
    for source, path, lines in made:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        unsearched = UNSEARCHED if path in SETTINGS["unsearched"] else ""
        file.write_text(unsearched + links.followed(source, path, lines), "utf-8")
    for there, file in {**links.files, **{name: OWN / name for name in OWN_FILES}}.items():
        (folder / there).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / there)
    return [path for _, path, _ in made]


def navigation(pages: list[str]) -> list[Any]:
    """The order of the pages as the settings have it, `NAME/*` replaced by the pages there that are not named.

    Raises SystemExit if a page is nowhere, or one that is named is not there.
    """
    named = set(re.findall(r'"([^"]+\.md)"', json.dumps(SETTINGS["nav"])))
    left = [page for page in pages if page not in named]
    if named - set(pages):
        sys.exit(
            f"tools/website/site.toml names pages that are not there: {', '.join(sorted(named - set(pages)))}"
        )

    def laid(entries: list[Any]) -> Iterator[Any]:
        for entry in entries:
            if isinstance(entry, dict):
                ((title, below),) = entry.items()
                yield {title: below if isinstance(below, str) else [*laid(below)]}
            elif entry.endswith("*"):
                found = [page for page in left if page.startswith(entry[:-1])]
                left[:] = [page for page in left if page not in found]
                yield from found
            else:
                yield entry

    whole = [*laid(SETTINGS["nav"])]
    if left:
        sys.exit(f"tools/website/site.toml has no place for: {', '.join(left)}")
    return whole


def make(folder: Path) -> Path:
    """Make the site in a folder; its own folder there. Raises CalledProcessError if the generator warns of anything."""
    pages, site = folder / "pages", folder / "site"
    shutil.rmtree(pages, ignore_errors=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    settings = {
        **SETTINGS["zensical"],
        "site_name": f"kinspect {project['version']}",
        "site_description": project["description"],
        "docs_dir": pages.name,
        "site_dir": site.name,
        "nav": navigation(write_pages(pages)),
    }
    # The generator reads YAML, which JSON is a part of.
    file = folder / "site.yml"
    file.write_text(json.dumps(settings, indent=1), "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(file)]
    subprocess.run(command, check=True)
    for page in site.rglob("*.html"):
        own = os.path.relpath(site / "site.js", page.parent)
        page.write_text(page.read_text("utf-8").replace(FROM_THE_NETWORK, own), "utf-8")
    return site


if __name__ == "__main__":
    print(make(ROOT / "build") / "index.html")
