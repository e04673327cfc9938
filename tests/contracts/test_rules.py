"""Rules between options: each refuses what it says, and combinations of options are refused by rules alone."""

import ast
import sys
from typing import NamedTuple

import click
import pytest
from command_line import RULES, refused, words
from console_blocks import ROOT

from kinspect.cli import group, main
from kinspect.cli.options import FOR_LINES
from kinspect.cli.outputoptions import LINE_FORMATS
from kinspect.formats import FORMATS, TEXTS


class Given(NamedTuple):
    """Arguments beside the refused option, whether there is a terminal, and what the text names."""

    beside: str = ""
    terminal: bool = False
    named: dict[str, str] = {}  # noqa: RUF012  # read only


def shown(format_name: str, more: str = "") -> Given:
    return Given(f"{more} --format {format_name}", named={"format": format_name})


EXAMPLES = {
    "{} is for --iface: the command of --from decides what it captures and keeps": Given("--from true"),
    "--buffer is for --iface: the command of --from decides what it captures and keeps": Given("--from true"),
    "{} is not for --emit stats: what another host drops is not known": Given("--emit stats"),
    "{} is in place of --iface: give one of them": Given(),
    "{} is for --records-only": Given("-o new --payload text"),
    "{} is for --records-only and --explore": Given(),
    "{} is not for --split": Given("--records-only --split topic -o new"),
    "--format {format} is not for --records-only, which has table, jsonl, csv, kcat": shown("view"),
    "{} is not for --records-only": Given("--records-only"),
    "--format {format_name} is for --answer": Given(),
    "--format {format} is not for --answer, which has table, json, jsonl, csv": shown("view"),
    "{} is not for --answer": Given("--answer groups"),
    "{} is for --metrics": Given(),
    "--metrics is not for {}": Given("--metrics 0"),
    "the explorer draws on a terminal; without {}, `kinspect live` prints to files and pipes": Given(),
    "{} is not for --explore": Given("--explore", terminal=True),
    "{} is for --emit stats": Given("--emit gap"),
    "{} is for --format jsonl: a body in ecs is text, or there is none": shown("ecs"),
    **{
        f"{{}} is for --format {' or '.join(has)}, not {{format}}": shown("none")
        for has in FOR_LINES.values()
    },
    "{} is not for --format ecs, which has bodies only with --body text": shown("ecs"),
    **{
        f"{{}} is not for --format {{format}}, which has bodies {each.bodies}": shown(name)
        for name, each in FORMATS.items()
        if each.bodies not in ("", TEXTS)
    },
    "{} is for -o FILE": Given("-o -"),
    "{} is for --packets connection": Given("--packets exchange"),
    "{} is for whole connections: give it what --packets exchange wrote": Given("--packets exchange"),
    "{} say what --redact replaces: export again what that wrote, with {}": Given("--redact -o new"),
    "{} is for --redact": Given("-o new"),
    f"{{}} is for --format {', '.join(LINE_FORMATS[:-1])} and {LINE_FORMATS[-1]}, not {{format}}": shown(
        "table", "-o new"
    ),
    "{}: say when a new file begins: --output-rotate-size or -time": Given("-o new"),
    "{} is not for numbered files (--output-rotate-...): they go on by themselves": Given(
        "-o new --output-rotate-time 5m"
    ),
    "{} goes on with FILE, and --force overwrites it: give one of them": Given("-o new --force"),
    "{} is for --format parquet": Given(),
    "{} is for --payload auto": Given(),
    "{} writes tables: say where with -o DIR": Given(),
    "{} is not for --format {format}: only the owner may read tables": shown("parquet", "-o new"),
    "{} is not for --format {format}: the column completion sorts rows": shown("parquet", "-o new"),
    "{} is for exchange lines, and --emit leaves them out": Given("--emit gap,summary"),
    "{} needs --limit N: only the N first exchanges are kept": Given(),
    "{} keeps 10,000 exchanges at most: give a smaller --limit": Given("--limit 10001"),
    "{} is for exchange lines, and --emit asks for {other}": Given(
        "--limit 3 --emit exchange,summary,gap", named={"other": "gap"}
    ),
    "{} is for --otlp": Given(),
    "{} is not for --otlp: a collector sorts by itself": Given("--limit 3 --otlp http://127.0.0.1:1"),
    "{} is for --otlp-signals spans": Given("--otlp http://127.0.0.1:1 --otlp-signals logs"),
    "--format view draws on a terminal; there are others for files and pipes": Given(),
    "--format view: TERM={term} cannot be drawn on": Given(terminal=True, named={"term": "dumb"}),
    "{} is not for --format view": Given("--format view", terminal=True),
    "{} writes keys and values: give --payload text": Given(),
    "{} writes bytes: into a pipe, or -o FILE": Given("--payload text", terminal=True),
    "{} makes a file of each topic: say where with -o DIR": Given(),
    "{} is not for --format {format}: tables are for people": shown("table", "-o new"),
    "{} is not for --format {format}: the column topic parts rows": shown("parquet", "-o new"),
    "{} is not for --format kcat: only brokers write markers": shown("kcat", "--payload text"),
    "--rotate-... is for --save": Given(),
    "{}: needs a file of its own": Given("-o new"),
    "{}: say when a new file begins: --rotate-size, -time or -count": Given("-w new"),
    "{} and --response exclude each other": Given("--response"),
    "give a message or --file, not both": Given("--file new"),
    "{} needs --api": Given(),
    "unexpected argument {which!r}": Given("Fetch", named={"which": "1"}),
    "{} is for ecs-template": Given("Fetch"),
    "{} is for an API": Given("OffsetCommitValue"),
    "{} is for the name of a message": Given("errors"),
}
"""What makes each rule the first that is broken, by its text."""
NEEDED = {"read": ["made.pcap"], "live": ["-i", "lo"], "records": ["made.pcap"], "export": ["made.pcap"]}
VALUES = {
    "answer": "groups",
    "emit": "exchange",
    "format_name": "table",
    "max_line": "4300",
    "output_mode": "0640",
    "save": "new",
    "snaplen": "65535",
    "export split": "1GiB",
    "live payload": "text",
    "live split": "topic",
    "records split": "topic",
}
"""Values of options of which not everything is one."""
ELSEWHERE = {
    "__init__.resolve_command": "a command that there is not",
    "answerscommand.parse_args": "an option that only other answers have",
    "explorecommand.explore": "no terminal",
    "livecommand.live": "no interface",
    "options.split": "one of the names of an option",
    "options.usage": "a value that cannot be used",
    "otlpoptions.make_otlp": "a URL",
    "pipelinecommand._chosen": "one of the names of an option",
    "pipelinecommand._setting": "a setting",
    "pipelinecommand.refuse": "an option that there was",
    "schemaoption._lay_over": "definitions that cannot be read",
}
"""Functions that refuse a single value, and which."""
EACH = [
    pytest.param(
        command, rule, f"{name}={value}" if value else name, id=f"{command} {name}{value} {rule.text}"[:70]
    )
    for command, (rules, _) in RULES.items()
    for rule in rules
    for word in refused(command, rule)
    for name, _, values in [word.partition("=")]
    for value in values.split("|")
]


def command_of(name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


def arguments(command: str, word: str) -> tuple[str, list[str]]:
    """The option as it is typed, and with a value."""
    name, _, value = {"view": "format=view"}.get(word, word).partition("=")
    options = {(each.name or "").removesuffix("_name"): each for each in command_of(command).params}
    option = options[name.removesuffix("_name")]
    typed = option.opts[-1]
    if isinstance(option, click.Argument):
        return typed, ["1"]
    assert isinstance(option, click.Option)
    if option.is_flag:
        return typed, [typed]
    any_value = option.type.choices[-1] if isinstance(option.type, click.Choice) else "1"
    return typed, [typed, value or VALUES.get(name) or VALUES.get(f"{command} {name}", any_value)]


@pytest.mark.parametrize(("command", "rule", "word"), EACH)
def test_a_rule_says_what_it_refuses(monkeypatch, tmp_path, capsys, command, rule, word):
    given = EXAMPLES[rule.text]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", given.named.get("term", "xterm"))
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: given.terminal)
    typed, option = arguments(command, word)
    typed = f"{typed} {option[-1]}" if "=" in word else typed
    said = rule.text.replace("{}", typed).format_map({**given.named, "format_name": option[-1]})
    assert main([command, *NEEDED.get(command, []), *given.beside.split(), *option]) == 2
    assert capsys.readouterr().err.endswith(f"Error: {said}\n")
    assert not [*tmp_path.iterdir()]


def test_every_rule_has_an_example():
    assert {rule.text for rules, _ in RULES.values() for rule in rules} == EXAMPLES.keys()


@pytest.mark.parametrize("command", RULES)
def test_rules_name_what_there_is(command):
    rules, facts = RULES[command]
    params = {each.name for name in RULES for each in command_of(name).params}
    for rule in rules:
        for name in (
            word.partition("=")[0] for of in (rule.options, rule.where, rule.unless) for word in words(of)
        ):
            assert name in params or name in facts, rule


@pytest.mark.big
def test_usage_errors_elsewhere_are_about_one_value():
    found = set()
    for path in (ROOT / "kinspect").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Raise) and "UsageError" in ast.unparse(node):
                    found.add(f"{path.stem}.{function.name}")
    assert found - {"pipelinecommand.refused", "rules.check"} == ELSEWHERE.keys()
