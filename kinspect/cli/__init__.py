"""The command line: one file a command, loaded when it is called."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, TextIO

import click

from kinspect import __version__, extensions
from kinspect.answers import added_answers, answer_modules, help_lines
from kinspect.cli import completions
from kinspect.errors import KinspectError, shortened
from kinspect.form import COMPILED
from kinspect.wording import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "kinspect"
FAILED, INTERRUPTED = 1, 130
SUMMARY = "summary"
"""The command of captures alone."""
HELP = frozenset({"-h", "--help"})
HAVE_FORMATS = ("read", "live")
"""Commands that print exchanges in any format."""

ANSWERS = "Answers"
SECTIONS: dict[str, dict[str, str]] = {
    "Look": {
        "read": "Decode captures into exchanges, each a request with its response.",
        "live": "Decode live traffic of network interfaces, until Ctrl-C, --duration or --count.",
        "records": "Print the records that captures hold: produced, consumed and replicated, a row each.",
        "export": "Write the packets of what passes the filters into a capture of its own.",
        "diff": "Compare two captures: what appeared, went, changed or moved beyond chance, by their answers.",
        "check": "Check captures against rules: what clients must say, must not say, and how often.",
        "report": "Write a page of HTML that stands alone: findings, plots over time, and the table of each answer.",
        "telemetry": "Print the metrics that clients pushed to brokers, and what brokers asked for.",
        "explore": "Look through captures in the terminal: exchanges, their fields and bytes.",
        "decode": "Decode one message, with the offsets of each field.",
        "schema": "Show what Kafka's messages look like.",
        "mcp": "Offer captures to programs that read, as tools of the Model Context Protocol.",
    },
    ANSWERS: {},
    "Many captures": {"pipeline": "Decode many captures into Parquet tables, on Apache Spark."},
    "Shell": {
        "completion": "Print the script that completes kinspect's commands, options and values in a shell."
    },
}
"""Each command and its line in `--help`, but for answers; command `x` is the function `x` in the module
`kinspect.cli.xcommand`."""


def sections() -> dict[str, dict[str, str]]:
    """Each command and its line in `--help`."""
    return {**SECTIONS, ANSWERS: help_lines()}


def commands() -> dict[str, str]:
    """The same without sections."""
    return {name: line for section in sections().values() for name, line in section.items()}


def _has_a_module(name: str) -> bool:
    """True for a command that is no answer."""
    return any(name in section for section in SECTIONS.values())


def _is_command(name: str) -> bool:
    return _has_a_module(name) or name in answer_modules()


CAPTURE_NAME = re.compile(r".+\.(?:pcap|pcapng|cap|snoop|erf)(?:\.?\d+)?(?:\.(?:gz|zst|lz4))?", re.IGNORECASE)


def _looks_for_formats(ctx: click.Context, args: list[str]) -> bool:
    """True if all formats are shown, or one is asked for that is not kinspect's own: the options of the command are
    made of those there are."""
    from kinspect.formats import NAMES

    behind = [argument for option, argument in pairwise(args) if option == "--format"]
    joined = [argument.partition("=")[2] for argument in args if argument.startswith("--format=")]
    return ctx.resilient_parsing or not NAMES.issuperset(behind + joined) or not HELP.isdisjoint(args)


class NoCommandError(click.UsageError):
    """A capture or an option stands in place of a command, and the message names the one that is meant."""

    def show(self, file: IO[Any] | None = None) -> None:
        complain(self.message)


def _may_be_capture(name: str) -> bool:
    """True if it is a file, or has the name of one."""
    if os.path.exists(name):
        return not os.path.isdir(name)
    return name == "-" or os.sep in name or CAPTURE_NAME.fullmatch(name) is not None


def _loaded(name: str) -> ModuleType:
    """The module of a command. What it loads stays: the collector would look for garbage in it time and again."""
    gc.disable()
    try:
        return import_module(f"kinspect.cli.{name}command")
    finally:
        gc.freeze()
        gc.enable()


class LazyGroup(click.Group):
    """Imports a command when it is called: `--help` and `--version` load none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if _has_a_module(cmd_name):
            command: click.Command = getattr(_loaded(cmd_name), cmd_name)
            return command
        if cmd_name in answer_modules() or cmd_name in added_answers():
            made: click.Command = _loaded("answers").answer_command(cmd_name)
            return made
        return None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {name for option in self.params for name in option.opts}
        name = next((argument for argument in args if _is_command(argument)), "read")
        behind = [name, *(argument for argument in args if argument not in {*flags, name})]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = self.get_command(ctx, name)
            if meant is None or not any(error.option_name in option.opts for option in meant.params):
                raise
            import shlex

            raise NoCommandError(
                f"{error.option_name} stands behind a command: kinspect {shlex.join(behind)}"
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not _is_command(args[0]) and _may_be_capture(args[0]):
            return SUMMARY, self.get_command(ctx, SUMMARY), args
        if args[0] in HAVE_FORMATS and _looks_for_formats(ctx, args):
            from kinspect.formats import add_formats

            add_formats()
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], ((name, name) for name in self.list_commands(ctx)), " or ")
            if not hint:
                raise
            raise click.UsageError(f"{error.message} {hint.capitalize()}", ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options; else files, as captures may stand alone."""
        return super().shell_complete(ctx, incomplete) or completions.files(ctx, None, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # One column of names for all sections.
        widest = max(map(len, commands()))
        for title, section in sections().items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in section.items()])


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        form = "compiled" if COMPILED else "interpreted"
        click.echo(f"kinspect {__version__} ({form})")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": sorted(HELP)})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and the form: compiled or interpreted.",
)
@click.option("--debug", is_flag=True, help="Print tracebacks.")
def group(debug: bool) -> None:
    """Read captured Apache Kafka traffic as decoded request/response exchanges."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    # Started with a stream closed: nobody listens, which is no error. This one stays open to the end, and so keeps a
    # file that is opened later from getting the descriptor where libraries expect the stream.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    try:
        asked = os.environ.get(completions.VARIABLE)
        status = (
            _execute(sys.argv[1:] if arguments is None else list(arguments))
            if asked is None
            else _complete(asked)
        )
        # Here and not at interpreter exit, where a closed pipe could no longer be caught.
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return 0
    except OSError as error:
        complain(f"cannot write the output: {error.strerror or error}")
        _silence()
        return FAILED
    return status


def _complete(asked: str) -> int:
    """Print the words that a shell asks for; it has put the line into the environment too."""
    from click.shell_completion import shell_complete

    # Nothing but words belongs on the line that is being typed.
    extensions.tell = extensions.kept.append
    return shell_complete(group, {}, PROGRAM, completions.VARIABLE, asked)


def _execute(arguments: list[str]) -> int:
    debug = False
    extensions.tell = complain

    def invoke() -> int | None:
        nonlocal debug
        with group.make_context(PROGRAM, arguments) as context:
            debug = context.params["debug"]
            status: int | None = group.invoke(context)
        return status

    try:
        return click_status(invoke)
    except OSError:
        if debug:
            _print_traceback()
        raise
    except Exception as error:
        if debug:
            _print_traceback()
        if isinstance(error, KinspectError):
            complain(str(error))
            return error.status
        complain(f"internal error: {error!r}; `kinspect --debug ...` says where")
        return FAILED


def click_status(invoke: Callable[[], int | None]) -> int:
    """The exit status of a command that click runs; what it has to say of its usage is printed."""
    try:
        return invoke() or 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def complain(message: str) -> None:
    """Print an error in one line, escaped: names of files can hold control sequences."""
    from kinspect.cli.progress import make_way
    from kinspect.output.escape import escape

    make_way()
    click.echo(f"kinspect: {escape(shortened(message))}", err=True)


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _silence() -> None:
    """Make the interpreter flush the rest of both streams into the null device."""
    from kinspect.cli.outfile import discard

    for stream in (sys.stdout, sys.stderr):
        discard(stream)
