"""The command line as data, for the pages that are made of it: commands, options with their texts, exit statuses.

Texts are Markdown: words of commands are in backquotes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from kinspect.answers import answers
from kinspect.cli import decodecommand, group, livecommand, schemacommand
from kinspect.cli.exportcommand import EXPORT_RULES
from kinspect.cli.options import CAPS, LINE_FACTS
from kinspect.cli.readcommand import read
from kinspect.cli.readrun import RUN_FACTS, RUN_RULES
from kinspect.cli.recordscommand import RECORD_RULES
from kinspect.cli.rules import Facts, OptionRule, Words

EXIT_STATUSES = (
    ("0", "All input was read. `read` also ends with it if a reader such as `head` closed its pipe."),
    (
        "1",
        "An input could not be read at all; the others were. Or one is damaged: what comes before the damage was"
        " printed. Or the output could not be written; for `live`, a reader that closed the pipe counts as that. Or"
        " `--otlp` lost something ([how](otel.md#what-is-lost-is-counted)). Or a"
        " process of `--jobs` died. Or `decode` could not read its message to the end. Or"
        " `diff` found nothing to compare.",
    ),
    ("2", "The command line is wrong, or needs a library that is [not installed](install.md#elsewhere)."),
    ("3", "An input ends in the middle of a packet or block. Everything before it was printed."),
    ("4", "An [answer](answers.md) has rows that `--fail-on` names."),
    ("129", "SIGHUP stopped `live` or `explore`: the terminal went away."),
    (
        "130, 143",
        "Ctrl-C or SIGTERM stopped it. What was decoded until then was printed, with the summary. Where `--jobs` had"
        " no time for that, the output is cut, and a line says so. `live` ends with 0.",
    ),
)
"""Each exit status and its meaning."""
RULES: dict[str, tuple[tuple[OptionRule, ...], Facts]] = {
    "read": (RUN_RULES, RUN_FACTS),
    "live": (livecommand.RULES, livecommand.FACTS),
    "decode": (decodecommand.RULES, {}),
    "schema": (schemacommand.RULES, schemacommand.FACTS),
    "records": (RECORD_RULES, LINE_FACTS),
    "export": (EXPORT_RULES, LINE_FACTS),
}
"""The rules that commands check, and what these look at beside options."""

Row = tuple[str, str]
"""Names and value of an option as they are typed, and its text."""


def paragraph(text: str) -> str:
    """A help text as one line."""
    return " ".join(text.split())


def commands() -> list[tuple[str, click.Command]]:
    """All commands with their whole names, each group followed by its own commands."""
    return [*_commands(group, click.Context(group, info_name="kinspect"))]


def _commands(above: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in above.list_commands(context):
        command = above.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        yield inner.command_path, command
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def usage(command: click.Command) -> str:
    """What stands behind the name of a command."""
    words = ["[OPTIONS]"]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            name = (parameter.metavar or (parameter.name or "").upper()).strip("[]")
            words.append(name if parameter.required else f"[{name}]")
    return " ".join(words)


def options(command: click.Command) -> list[Row]:
    """All options but limits."""
    return [*_rows(command, lambda name: name not in CAPS), ("-h, --help", "Show the help and exit.")]


def shared_options() -> list[Row]:
    """The options that all answers have."""
    of_answers = [options(command) for _, command in commands() if command.name in answers()]
    return [row for row in of_answers[0] if all(row in rows for rows in of_answers)]


def limits() -> list[Row]:
    """The options that are limits: a command that has limits has all of them."""
    return [*_rows(read, lambda name: name in CAPS)]


def words(of: Words) -> tuple[str, ...]:
    """What a rule names, one by one."""
    return (of,) if isinstance(of, str) else of


def refused(command: str, rule: OptionRule) -> list[str]:
    """What a rule refuses to a command: of the options and facts that the rule names, those that the command has."""
    found = group.get_command(click.Context(group), command)
    assert found is not None
    known = {parameter.name for parameter in found.params} | RULES[command][1].keys()
    options, where = (
        [word for word in words(of) if word.partition("=")[0] in known] for of in (rule.options, rule.where)
    )
    return options if where or not rule.where else []


def rules() -> list[Row]:
    """Each rule as it is said, of all options that it refuses, and the commands that have it; `live` has those of
    `read` among its own."""
    each = dict.fromkeys(rule for name in RULES if name != "read" for rule in RULES[name][0])
    having = {
        rule: [name for name in RULES if rule in RULES[name][0] and refused(name, rule)] for rule in each
    }
    return [(_said(rule, having[rule]), ", ".join(f"`{name}`" for name in having[rule])) for rule in each]


class _Capitals(dict[str, str]):
    """What stands for a value that is not known."""

    def __missing__(self, name: str) -> str:
        return name.upper()


def _said(rule: OptionRule, commands: list[str]) -> str:
    options = [*dict.fromkeys(word for name in commands for word in refused(name, rule))]
    *most, last = (
        f"`--{word.removesuffix('_name').replace('_', '-').replace('=', ' ')}`" for word in options
    )
    listed = f"{', '.join(most)} or {last}" if most else last
    known = (word.partition("=") for word in (*options, *words(rule.where)))
    values = {name: value.replace("|", " or ") for name, _, value in known if value}
    return rule.text.replace("{}", listed).format_map(_Capitals(values))


def _rows(command: click.Command, chosen: Callable[[str], bool]) -> Iterator[Row]:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and chosen(option.name or ""):
            names = ", ".join((*option.opts, *option.secondary_opts))
            yield f"{names} {_value(option)}".strip(), paragraph(option.help or "") + _default(option)


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    if option.metavar:
        return option.metavar
    return (
        "N"
        if isinstance(option.type, (click.types.IntParamType, click.IntRange))
        else option.type.name.upper()
    )


def _default(option: click.Option) -> str:
    known = option.show_default or (isinstance(option.type, click.Choice) and isinstance(option.default, str))
    return f" Default: `{option.default}`." if known else ""
