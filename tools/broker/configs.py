"""`python tools/broker/configs.py RELEASE...`: merge the configs that Kafka's own releases define into the table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from central import ToolError, program

from broker.artifacts import HERE, jars
from kinspect.protocol.importer.sources import release_key
from kinspect.protocol.schema import TABLE, Config, configs

TITLE = "# configs of Kafka's releases: name, what they belong to, first and last release; `password` if of that type\n"
PRINTED = re.compile(r"(?P<kind>[a-z-]+) (?P<type>[A-Z]+) (?P<name>\S+)")


def defined(release: str) -> dict[str, Config]:
    """The configs that a release defines."""
    java = [program("java", "openjdk-17-jdk-headless"), "-cp", jars(release), str(HERE / "Configs.java")]
    done = subprocess.run(java, check=False, capture_output=True, text=True)
    found: dict[str, Config] = {}
    # Old releases log to standard output.
    for line in filter(None, map(PRINTED.fullmatch, done.stdout.splitlines())):
        one = Config(line["name"], (line["kind"],), release, release, line["type"] == "PASSWORD")
        found[one.name] = merged(found.get(one.name, one), one)
    if done.returncode or not found:
        raise ToolError(f"{release}: its configs were not found: {done.stderr.strip()}")
    return found


def merged(one: Config, other: Config) -> Config:
    """A config as two releases define it. A secret of one of them is one of both."""
    return Config(
        one.name,
        tuple(sorted({*one.kinds, *other.kinds})),
        min(one.first, other.first, key=release_key),
        max(one.last, other.last, key=release_key),
        one.is_password or other.is_password,
    )


def text(table: dict[str, Config]) -> str:
    rows = (
        f"{name} {','.join(one.kinds)} {one.first} {one.last}{' password' if one.is_password else ''}\n"
        for name, one in sorted(table.items())
    )
    return TITLE + "".join(rows)


def main() -> int:
    table = dict(configs())
    try:
        for release in sys.argv[1:]:
            for name, one in defined(release).items():
                table[name] = merged(table.get(name, one), one)
    except ToolError as error:
        print(f"configs: {error}", file=sys.stderr)
        return 2
    Path(TABLE, "configs.txt").write_text(text(table), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
