"""`make docs`: write the pages that are made from the code.

`docs/cli.md` and `docs/man/kinspect.1` come from the commands' own options, `docs/protocol-support.md` and
`docs/error-codes.md` from the schema table, `docs/schema/keys.csv` and the schemas of lines with `--fields` and
`--no-nulls` from the other schemas and the tables. With `--check` nothing is written; the differences are printed, and
the exit status is 1 if there are any. With `--examples` the console examples of the pages written by hand are run
too, and those shown whole are brought up to date.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence

import contract
from command_line import (
    EXIT_STATUSES,
    Row,
    commands,
    limits,
    options,
    paragraph,
    rules,
    shared_options,
    usage,
)
from console_blocks import ELLIPSIS, ROOT, Example, examples, matches, run
from man_page import man_page

from kinspect.answers import answers
from kinspect.cli import group
from kinspect.cli.options import ABOUT_LIMITS
from kinspect.protocol import schema
from kinspect.protocol.schema import Api
from kinspect.protocol.versions import format_versions
from kinspect.records import internal
from kinspect.records.compression import CODECS

DOCS = ROOT / "docs"
NOTE = "<!-- Made by `make docs`. Do not edit. -->\n\n"
ABOUT_RULES = (
    "Some options need others, or do not go with them. A command looks at that first, in this order. It says the first"
    " line that applies, and ends with status 2. Words in capitals stand for what was given."
)
HAND_WRITTEN = (
    ROOT / "README.md",
    DOCS / "guide.md",
    DOCS / "answers.md",
    DOCS / "records.md",
    DOCS / "telemetry.md",
    DOCS / "export.md",
    DOCS / "diff.md",
    DOCS / "check.md",
)
# ---------------------------------------------------------------------- Markdown


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


# ---------------------------------------------------------------------- cli.md


def cli_page() -> str:
    parts = [
        NOTE,
        "# Commands\n\n",
        f"{paragraph(group.help or '')}\n\n",
        option_table(options(group), "option of `kinspect` itself"),
    ]
    shared = shared_options()
    for name, command in commands():
        parts.append(f"\n## {name}\n\n")
        parts.append(f"`{name} {usage(command)}`\n\n")
        parts += [f"{paragraph(text)}\n\n" for text in (command.help or "").split("\n\n")]
        rows = options(command)
        if command.name in answers():
            rows = [row for row in rows if row not in shared]
            parts.append(
                f"{'Also the' if rows else 'The'} [options of all answers](#options-of-all-answers).\n"
            )
            parts += ["\n"] if rows else []
        if rows:
            parts.append(option_table(rows))
    parts += ["\n## Options of all answers\n\n", option_table(shared)]
    parts += ["\n## Limits\n\n", f"{ABOUT_LIMITS} `--help-limits` shows them.\n\n", option_table(limits())]
    parts += ["\n## Options together\n\n", f"{ABOUT_RULES}\n\n", table(("what is said", "by"), rules())]
    parts += ["\n## Exit status\n\n", "The highest wins.\n\n", table(("status", "meaning"), EXIT_STATUSES)]
    return "".join(parts)


def option_table(rows: Iterable[Row], title: str = "option") -> str:
    return table((title, "meaning"), ((f"`{typed}`", text) for typed, text in rows))


# ---------------------------------------------------------------------- protocol-support.md


def protocol_page() -> str:
    apis = list(schema.apis())
    versions = sum(len(api.versions) for api in apis)
    releases = schema.releases()
    first, last = next(iter(releases)), list(releases)[-1]
    return "".join(
        (
            NOTE,
            "# Protocol support\n\n",
            f"kinspect knows {len(apis)} APIs in {versions} versions, requests and responses:"
            f" all that the releases {first} to {last} speak. `kinspect schema` shows any of their layouts.\n\n",
            "## APIs\n\n",
            "*Flexible*: the first version with tagged fields and compact lengths. *Since*: the release of the first"
            " and of the newest version. *Unstable*: versions that these releases speak only if unstable versions are"
            " enabled.\n\n",
            table(
                ("key", "API", "versions", "flexible", "since", "removed", "unstable", "earlier names"),
                map(_api_row, apis),
            ),
            "\n## Early-access layouts\n\n",
            "Some versions had another layout before they were final. The stable layout is tried first. The other one"
            " is taken if it alone fits the bytes, and `layout` of the exchange says so.\n\n",
            table(("message", "version", "releases"), _early_access(apis)),
            "\n## Releases\n\n",
            "How many APIs the brokers of each release speak.\n\n",
            table(("release", "APIs"), ((name, str(len(spoken))) for name, spoken in releases.items())),
            "\n## Error codes\n\n",
            f"{len(schema.errors())} codes have a name: [all of them](error-codes.md). Any other code is called"
            " `UNKNOWN_CODE_` and its number.\n",
            "\n## Records\n\n",
            "Record sets hold message sets of magic 0 and 1, or batches of magic 2. Compressed sets may be nested, with"
            f" absolute or relative offsets. Compression: {', '.join(CODECS)}.\n",
            "\n## Topics that Kafka keeps for itself\n\n",
            "`key_decoded` and `value_decoded` are what the keys and values of their records say.\n\n",
            table(("topic", "messages"), _internal_topics()),
        )
    )


def _api_row(api: Api) -> tuple[str, ...]:
    oldest, newest = api.since[api.versions[0]], api.since[api.versions[-1]]
    return (
        str(api.key),
        api.name,
        format_versions(api.versions),
        "" if api.flexible_from is None else f"{api.flexible_from}",
        oldest if oldest == newest else f"{oldest}, {newest}",
        _by_release(api.removed),
        _by_release(api.unstable),
        ", ".join(name for name in api.old_names if not name.isupper()),
    )


def _by_release(marked: dict[int, str]) -> str:
    """Versions by release: `0-3 in 4.0`."""
    by_release: dict[str, list[int]] = {}
    for version, release in marked.items():
        by_release.setdefault(release, []).append(version)
    return ", ".join(f"{format_versions(versions)} in {release}" for release, versions in by_release.items())


def _early_access(apis: Sequence[Api]) -> Iterator[tuple[str, str, str]]:
    for api in apis:
        for version in api.versions:
            for direction in ("request", "response"):
                for layout in schema.layouts(api.key, version, direction):
                    if layout.label:
                        yield layout.name, str(version), layout.label


def _internal_topics() -> Iterator[tuple[str, str]]:
    topics: dict[str, list[str]] = {}
    for topic in sorted(internal.TOPICS):
        kinds = schema.record_types(internal.METADATA_TOPICS.get(topic, topic))
        names = dict.fromkeys(
            name for kind in kinds.values() for name in ((kind.key,) if kind.key else ()) + kind.values
        )
        topics.setdefault(", ".join(names), []).append(f"`{topic}`")
    for messages, named in topics.items():
        yield ", ".join(named), messages


# ---------------------------------------------------------------------- error-codes.md


def errors_page() -> str:
    return "".join(
        (
            NOTE,
            "# Error codes\n\n",
            "All error codes that Kafka has had, with what they mean and what to do. `kinspect errors CAPTURE` counts"
            " those of a capture, by API and client; `kinspect schema NAME` prints one. *Earlier names* are those of"
            " other releases.\n\n",
            table(
                ("code", "name", "earlier names", "retriable", "since", "meaning", "what to do"), _errors()
            ),
        )
    )


def _errors() -> Iterator[tuple[str, ...]]:
    for code, error in sorted(schema.errors().items()):
        told = schema.advice_for(code, None)
        earlier = ", ".join((*error.old_names, *error.scala_names))
        retriable = "yes" if error.retriable else "no"
        yield str(code), error.name, earlier, retriable, error.since, told.meaning, told.advice


# ---------------------------------------------------------------------- the command


def pages() -> dict[str, str]:
    """The generated pages by name."""
    return {
        "cli.md": cli_page(),
        "man/kinspect.1": man_page(),
        "protocol-support.md": protocol_page(),
        "error-codes.md": errors_page(),
        **contract.derived(),
        contract.KEYS: contract.keys_file(),
    }


def differences() -> str:
    """Differences between the pages on disk and the generated ones, as a unified diff."""
    found = ""
    for name, new in pages().items():
        path = DOCS / name
        old = path.read_text("utf-8") if path.exists() else ""
        diff = difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"docs/{name}", f"docs/{name} (new)"
        )
        found += "".join(diff)
    return found


def refresh_examples() -> None:
    """Run the examples; where the output is shown whole, replace it with the current one."""
    for page in HAND_WRITTEN:
        lines = page.read_text("utf-8").splitlines()
        for example in reversed(list(examples(page))):
            real = run(example.command)
            if matches(example.shown, real):
                continue
            if any(line.strip() == ELLIPSIS for line in example.shown):
                print(
                    f"{example.page}:{example.line}: shown in part; compare it by hand:\n  "
                    + "\n  ".join(real)
                )
                continue
            _replace(lines, example, real)
            print(f"{example.page}:{example.line}: written anew")
        page.write_text("\n".join(lines) + "\n", "utf-8")


def _replace(lines: list[str], example: Example, real: Sequence[str]) -> None:
    start = example.line - 1
    while lines[start].endswith("\\"):
        start += 1
    start += 1
    lines[start : start + len(example.shown)] = [line.rstrip() for line in real]


def main(arguments: Sequence[str]) -> int:
    if "--check" in arguments:
        found = differences()
        print(found, end="")
        return 1 if found else 0
    for name, text in pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, "utf-8")
    if "--examples" in arguments:
        refresh_examples()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
