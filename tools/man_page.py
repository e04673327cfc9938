"""`kinspect(1)` in the language of man(7), from the same commands and texts as `docs/cli.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import click
from command_line import (
    EXIT_STATUSES,
    Row,
    commands,
    limits,
    options,
    paragraph,
    shared_options,
    usage,
)

from kinspect import __version__
from kinspect.answers import answers
from kinspect.cli import group
from kinspect.cli.options import ABOUT_LIMITS

NAME = "decode captured Apache Kafka traffic"
EXAMPLES = (
    ("What is in a capture, and what is wrong", "kinspect capture.pcap"),
    ("Exchanges with errors, as JSON lines", "kinspect read capture.pcap --errors-only --format jsonl"),
    ("The ten slowest of a topic", "kinspect read capture.pcap --topic orders --sort latency --limit 10"),
    ("What passes an interface, until Ctrl-C", "kinspect live -i eth0"),
)
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_CODE = re.compile(r"`([^`]+)`")


def man_page() -> str:
    """The page, which tests hold against groff's warnings."""
    shared = shared_options()
    return "\n".join(
        (
            r".\" Made by `make docs`. Do not edit.",
            f'.TH KINSPECT 1 "" "kinspect {__version__}" "User Commands"',
            ".SH NAME",
            rf"kinspect \- {NAME}",
            ".SH SYNOPSIS",
            *_synopsis(),
            ".SH DESCRIPTION",
            _text(paragraph(group.help or "")),
            ".PP",
            _text("Captures without a command are summed up, as by `kinspect summary`."),
            ".SH OPTIONS",
            *_tagged(options(group)),
            ".SH COMMANDS",
            *(line for name, command in commands() for line in _command(name, command, shared)),
            ".SH OPTIONS OF ALL ANSWERS",
            *_tagged(shared),
            ".SH LIMITS",
            _text(ABOUT_LIMITS),
            *_tagged(limits()),
            ".SH EXIT STATUS",
            "The highest wins.",
            *_tagged(EXIT_STATUSES),
            ".SH EXAMPLES",
            *(line for what, typed in EXAMPLES for line in (".TP", _text(f"{what}:"), _bold(typed))),
            ".SH SEE ALSO",
            ".BR tcpdump (1),",
            ".BR tshark (1)",
            "",
        )
    )


def _synopsis() -> Iterator[str]:
    yield rf"{_bold('kinspect')} {_text('[OPTIONS] COMMAND [ARGS]...')}"
    yield ".br"
    yield rf"{_bold('kinspect')} {_text('CAPTURE...')}"


def _command(name: str, command: click.Command, shared: Sequence[Row]) -> Iterator[str]:
    yield f".SS {_quoted(f'{name} {usage(command)}')}"
    for number, text in enumerate((command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        yield _text(paragraph(text))
    rows = options(command)
    if command.name in answers():
        rows = [row for row in rows if row not in shared]
        yield ".PP"
        yield "The options of all answers are below."
    yield from _tagged(rows)


def _tagged(rows: Iterable[Row]) -> Iterator[str]:
    for typed, text in rows:
        yield ".TP"
        yield _bold(typed)
        yield _text(text)


def _text(markdown: str) -> str:
    """A paragraph: its words that are typed are bold, and links are their texts."""
    plain = _LINK.sub(r"\1", markdown)
    return "".join(
        _bold(part) if number % 2 else _escaped(part) for number, part in enumerate(_CODE.split(plain))
    )


def _bold(typed: str) -> str:
    # A line may break between the values of an option.
    return rf"\fB{_escaped(typed)}\fR".replace("|", r"|\:")


def _quoted(title: str) -> str:
    return f'"{_escaped(title)}"'


def _escaped(text: str) -> str:
    r"""Text that man takes as it is: `-` stays the sign that is typed, and no line begins as a request does."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("~", r"\(ti")
    text = text.replace("^", r"\(ha").replace("'", r"\(aq").replace("`", r"\(ga")
    return rf"\&{text}" if text.startswith(".") else text
