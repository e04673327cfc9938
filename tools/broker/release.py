"""`make import`: what a Kafka release defines goes into the table, and into the pages that are made of it.

Definitions of messages, configs and error codes come from the release's own jars. What somebody has to tell is printed,
and has a `?` in the table.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from central import ToolError, program
from console_blocks import ROOT

from broker.artifacts import HERE, RELEASE, jars
from kinspect.protocol.importer.__main__ import main as import_definitions
from kinspect.protocol.importer.sources import release_key
from kinspect.protocol.schema import TABLE, Config, configs
from kinspect.protocol.tabletext import minor_release

TITLE = (
    "# configs up to {}: name, what has it, first and last release (-: this one), password if of that type\n"
)
# Old releases log to standard output, too.
CONFIG = re.compile(r"^config (?P<kind>[a-z-]+) (?P<type>[A-Z]+) (?P<name>\S+)$", re.MULTILINE)
ERROR = re.compile(r"^error (-?\d+) ([A-Z0-9_]+) (retriable|final)$", re.MULTILINE)
NEWEST = re.compile(r"(?<=releases 0\.8\.0 to )\S+")


def defined(release: str) -> str:
    """What Definitions.java prints of a release."""
    java = [program("java", "openjdk-17-jdk-headless"), "-cp", jars(release), str(HERE / "Definitions.java")]
    done = subprocess.run(java, check=False, capture_output=True, text=True)
    if done.returncode or not CONFIG.search(done.stdout) or not ERROR.search(done.stdout):
        raise ToolError(f"{release}: its configs and errors were not found: {done.stderr.strip()}")
    return done.stdout


def merged(one: Config, other: Config) -> Config:
    """A config as two releases define it. A secret of one of them is one of both."""
    return Config(
        one.name,
        tuple(sorted({*one.kinds, *other.kinds})),
        min(one.first, other.first, key=release_key),
        max(one.last, other.last, key=release_key),
        one.is_password or other.is_password,
    )


def configs_text(table: Mapping[str, Config]) -> str:
    """The text of configs.txt."""
    newest = max((one.last for one in table.values()), key=release_key)
    rows = (
        f"{name} {','.join(one.kinds)} {one.first} {'-' if one.last == newest else one.last}"
        f"{' password' if one.is_password else ''}\n"
        for name, one in sorted(table.items())
    )
    return TITLE.format(newest) + "".join(rows)


def with_configs(known: Mapping[str, Config], release: str, printed: str) -> str:
    """The text of configs.txt with what a release defines."""
    table = dict(known)
    for found in CONFIG.finditer(printed):
        one = Config(found["name"], (found["kind"],), release, release, found["type"] == "PASSWORD")
        table[one.name] = merged(table.get(one.name, one), one)
    return configs_text(table)


def with_errors(known: str, release: str, printed: str) -> str:
    """The text of errors.txt with the codes that a release has first. Prints what it calls otherwise."""
    lines = {line.split()[0]: line for line in known.splitlines()}
    for code, name, retriable in ERROR.findall(printed):
        line = lines.get(code)
        if line is None:
            known += f"{code} {name} {retriable} since={minor_release(release)}\n"
        elif f"{code} {name} {retriable} " not in line and f" old={name}:" not in line:
            print(f"errors.txt is to tell what {release} means by {code} {name}, {retriable}: it has {line}")
    return known


def with_advice(known: str, errors: str) -> str:
    """The text of advice.txt with all codes of errors.txt. Prints those whose meaning is to be told."""
    there = {line.split()[0] for line in known.splitlines()}
    for code, name, *_ in map(str.split, errors.splitlines()):
        if code not in there:
            known += f"{code} {name}\n  meaning: ?\n  advice: ?\n  source: ?\n"
            print(f"advice.txt is to tell what {code} {name} means.")
    return known


def main(release: str) -> int:
    """Exit status: 0 done · 2 the release cannot be had, or merged."""
    try:
        printed = defined(release)
    except ToolError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    found = sorted(Path(jars(release)).parent.glob("kafka-*.jar"))
    if status := import_definitions([*map(str, found)]):
        return status
    table, readme = Path(TABLE), ROOT / "README.md"
    errors = with_errors((table / "errors.txt").read_text("utf-8"), release, printed)
    texts = {
        table / "configs.txt": with_configs(configs(), release, printed),
        table / "errors.txt": errors,
        table / "advice.txt": with_advice((table / "advice.txt").read_text("utf-8"), errors),
        readme: NEWEST.sub(lambda found: max(found[0], release, key=release_key), readme.read_text("utf-8")),
    }
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    # The table is read anew.
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_docs.py", "--examples"], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(RELEASE))
