"""`python -m kinspect.protocol.importer`: merge Kafka's message definitions into the table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kinspect.errors import KinspectError
from kinspect.protocol.importer.schematable import add_source, files, left_out, read_table, untold
from kinspect.protocol.importer.sources import read_sources
from kinspect.protocol.schema import TABLE


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, or nothing to do · 1 `--check` found a difference · 2 a source cannot be read or merged."""
    parser = argparse.ArgumentParser(prog="python -m kinspect.protocol.importer", description=__doc__)
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="PATH",
        help="a Kafka jar, a source checkout or a directory of JSON unions, each also as RELEASE=PATH",
    )
    parser.add_argument(
        "--out", type=Path, default=TABLE, metavar="DIR", help="the table (default: kinspect's own)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; say which files would change")
    options = parser.parse_args(arguments)
    dropped: list[str] = []
    try:
        table = read_table(options.out)
        for source in read_sources(options.sources):
            dropped += left_out(table, source)
            add_source(table, source)
    except (KinspectError, OSError) as error:
        print(f"importer: {error}", file=sys.stderr)
        return 2
    for line in dropped:
        print(line)
    if dropped:
        print("The table keeps their layouts. If the release still speaks them, a source is missing.")
    for api in untold(table):
        print(f"traits.txt is to tell what {api} is.")
    changed = False
    new = files(table)
    # A renamed API has a new file.
    for path in options.out.glob("*_*.txt"):
        if path.name not in new:
            changed = True
            print(f"{'stale' if options.check else 'removed'}: {path}")
            if not options.check:
                path.unlink()
    for name, text in new.items():
        path = options.out / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        changed = True
        print(f"{'differs' if options.check else 'written'}: {path}")
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return 1 if changed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
