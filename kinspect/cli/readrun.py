"""Packets in, lines out: the common part of the commands that show exchanges."""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from kinspect.capture.keylogfile import KeyLogFile
from kinspect.capture.timeline import Packets
from kinspect.cli import complain, outfile, progress, topicnames
from kinspect.cli.interrupt import Interrupt, LateError
from kinspect.cli.options import (
    LINE_FACTS,
    LINES_RULES,
    SHOWN_RULES,
    given_hosts,
    line_types,
    make_caps,
    make_filter,
    make_own,
    make_style,
    make_view,
    needs_heads_only,
    needs_waits,
    usage,
)
from kinspect.cli.otlpoptions import OTLP_FACTS, OTLP_RULES, Otlp, make_otlp
from kinspect.cli.outputoptions import OUTPUT_RULES, check_kept, input_files, open_output_stream
from kinspect.cli.progress import ProgressLine
from kinspect.cli.rules import Facts, OptionValues
from kinspect.extras import need
from kinspect.filters.filter import Filter
from kinspect.formats import FOLDER, FORMATS, OutputFormat, open_sink
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.hostnames import HostPort
from kinspect.model import NOWHERE, Block, Origin
from kinspect.output import Opening
from kinspect.output.escape import escape, printable
from kinspect.output.ordered import Ordered
from kinspect.output.runsummary import summary_text
from kinspect.output.tally import LOOKED_AT, PASSED, SHOWN, Tally
from kinspect.pipeline import Inspector, relax_collector
from kinspect.run import Run, Through
from kinspect.sink import EXCHANGE, KINDS, STATS, SUMMARY, PieceSink, RunInput, Sink, SinkReport

if TYPE_CHECKING:
    from kinspect.analysis.metrics import Metric, Series
    from kinspect.filters.natcopies import NatCopies

SUMS = frozenset({SUMMARY, STATS})
"""Types of lines that count exchanges, whether or not they have lines."""
RUN_RULES = (*SHOWN_RULES, *OUTPUT_RULES, *LINES_RULES, *OTLP_RULES)
RUN_FACTS = {**LINE_FACTS, **OTLP_FACTS}


class RunOptions(NamedTuple):
    """The request that the options make, checked."""

    values: dict[str, Any]
    path: str | None
    format_name: str
    emit: frozenset[str]
    filter: Filter
    view: View
    names: dict[str, str] | None
    hosts: dict[HostPort, str]
    keylog: KeyLogFile | None
    own: Mapping[str, frozenset[str] | None] = {}
    otlp: Otlp | None = None

    @property
    def format(self) -> OutputFormat | None:
        """The format; None for one that a command alone has."""
        return FORMATS.get(self.format_name)

    @property
    def silent(self) -> bool:
        """Nothing is written of exchanges."""
        return self.format is not None and self.format.module is None

    @property
    def sort(self) -> str | None:
        """The order of `--sort`; None for that of completion."""
        order: str | None = self.values.get("sort")
        return order

    @property
    def stops_at(self) -> int | None:
        """Number of lines after which the run ends."""
        return None if self.sort else self.values["limit"]


def run_options(values: dict[str, Any], inputs: Sequence[str] = (), facts: Facts = RUN_FACTS) -> RunOptions:
    """Check each value before anything is opened. `inputs`: files that the output must not overwrite."""
    asked = OptionValues(values, facts)
    path, format_name, named = asked["path"], asked["format"], asked["topic_names"]
    check_kept(values, path, format_name, [*inputs, *input_files(values)])
    own = make_own(values, format_name)
    if format_name in FORMATS and (extra := FORMATS[format_name].extra):
        usage(lambda: need(extra, f"--format {format_name}"))
    emit = line_types(values)
    otlp = make_otlp(values, emit)
    if otlp is not None:
        usage(lambda: need("otel", "--otlp"))
    return RunOptions(
        values,
        path,
        format_name,
        emit,
        make_filter(values),
        make_view(values),
        None if named is None else usage(lambda: topicnames.load_topic_names(named)),
        given_hosts(values),
        usage(lambda: KeyLogFile(values["keylog"])) if values["keylog"] is not None else None,
        own,
        otlp,
    )


def open_run(
    options: RunOptions,
    packets: Packets,
    interrupt: Interrupt,
    shown: Sink | None = None,
    origin: Origin = NOWHERE,
    beside: Sequence[Sink] = (),
    own: "Callable[[], Iterable[tuple[Metric, Series]]]" = tuple,
) -> "ReadRun":
    """Open the output and make the run. `shown`: used in place of the format's sink; `origin`: where the packets come
    from; `beside`: other sinks; `own`: gives the metrics of kinspect itself."""
    values, made = options.values, options.format
    stream = open_output_stream(
        values, os.devnull if made is not None and made.writes == FOLDER else options.path, made
    )
    sinks = [*beside]
    if options.otlp is not None:
        from kinspect.cli.otlpsink import OtlpSink

        sinks.append(OtlpSink(options.otlp, origin == NOWHERE, shown is not None, own))
    if shown is not None:
        sinks.append(shown)
    elif not options.silent:
        sinks.append(usage(lambda: _format_sink(options, stream, packets.status.bytes_total is None)))
    for sink in sinks:
        # However the command ends; nothing is left to do once the run is closed.
        click.get_current_context().call_on_close(sink.discard)
    gc.freeze()
    relax_collector()
    return ReadRun(
        packets,
        make_inspector(options, packets, sinks, origin=origin),
        options,
        interrupt,
        stream,
        sinks,
        progress.of_reading(packets) if _shows_progress(options, packets, shown) else None,
        filter=options.filter,
        keylog=options.keylog,
    )


def _format_sink(options: RunOptions, stream: outfile.Output, rolls: bool) -> Sink:
    """The sink of the format, with `--sort` behind one that keeps the first exchanges."""
    values = options.values
    opening = Opening(
        stream,
        options.view,
        make_style(values),
        options.emit.intersection(KINDS.values()),
        options.own,
        options.path,
        values["force"],
        rolls,
    )
    sink = open_sink(options.format_name, opening)
    stream.file.put_header(sink.header)
    # A format without pieces refuses --sort.
    return sink if options.sort is None else Ordered(cast(PieceSink, sink), options.sort, values["limit"])


def make_inspector(options: RunOptions, packets: Packets, sinks: Sequence[Sink], **more: Any) -> Inspector:
    """The inspector that the options and the sinks ask for."""
    whole = any(sink.whole for sink in sinks)
    # The summary covers exchanges whether or not they have lines.
    covered = {EXCHANGE} if options.emit & SUMS else set()
    return Inspector(
        caps=make_caps(options.values),
        names=options.names,
        hosts=options.hosts,
        kafka_ports=frozenset(options.values["decode_as"]),
        heads_only=not whole and needs_heads_only(options.view, options.filter, options.silent),
        waits=whole or needs_waits(options.view, options.filter, options.silent),
        emit=options.emit.union(covered, *(sink.lines for sink in sinks)),
        files=[printable(name) for name in packets.files],
        **more,
    )


class LimitReachedError(Exception):
    """`--limit` is reached: all requested lines are written."""


def _nothing() -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class ReadRun(Run):
    """Reads packets and gives the lines that pass the filter to its sinks. `between`: called behind each block, when
    its lines are written; `takes`: what takes a line, by its class; `asked`: the classes of those that are asked
    for; `copies`: tells exchanges that were seen before, where they are shown."""

    options: RunOptions
    interrupt: Interrupt
    stream: outfile.Output
    sinks: list[Sink]
    progress: ProgressLine | None = None
    between: Callable[[], None] = field(init=False, default=_nothing)
    takes: dict[type[Line], list[Callable[[Line], bool | None]]] = field(init=False)
    asked: frozenset[type[Line]] = field(init=False)
    tally: Tally = field(init=False)
    counts_errors: bool = field(init=False)
    filtered: bool = field(init=False)
    lines: int = field(init=False, default=0)
    keylog_begun: bool = field(init=False, default=False)
    begun: bool = field(init=False, default=False)
    follows: bool = field(init=False, default=False)
    copies: "NatCopies | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        chosen, partial = self.filter, self.options.view.fields is not None
        self.filtered = chosen.active
        self.asked = frozenset({line for line, kind in KINDS.items() if kind in self.options.emit})
        self.give_to(self.sinks)
        # Error codes in bodies that are not decoded are needed only for the summary.
        self.counts_errors = not partial or bool(self.options.emit & SUMS)
        self.tally = Tally(
            filtered=self.filtered,
            called=_called(self.options),
            unknown=chosen.unknown,
            options=chosen.wanted,
            seen=chosen.seen,
            utc=self.options.values["utc"],
            unchecked=self.options.silent or (partial and self.counts_errors),
            omits_because=self.options.format.omits_because if self.options.format is not None else "",
            twins=chosen.translations,
        )
        if self.tally.called == SHOWN:
            self.tell_copies()

    def tell_copies(self) -> None:
        """Let the summary say what is shown twice."""
        if self.tally.twins is None:
            from kinspect.filters.natcopies import NatCopies

            self.copies = NatCopies()

    def give_to(self, sinks: Iterable[Sink]) -> None:
        """Let these sinks take the lines."""
        self.sinks = [*sinks]
        self.takes = {
            line: [sink.take for sink in self.sinks if kind in sink.lines] for line, kind in KINDS.items()
        }

    def run(self, through: Through[Block] = iter) -> None:
        """Show the lines of all packets, to their end, to the limit, or until there is no more time."""
        try:
            with self.interrupt.breakable():
                for lines in self.fed(lambda blocks: self.interrupt.guard(through(blocks))):
                    self.show(lines)
                    self.between()
                if not self.nothing_read:
                    self._begin()
                    self.show(self.rest())
        except LimitReachedError:
            self.give_up(f"stopped at --limit {self.options.values['limit']}")
        except LateError:
            self.give_up(f"stopped by {self.interrupt.name}: there was no time for all that was read")
        finally:
            self.stop()

    def give_up(self, why: str) -> None:
        """End the run before the packets end, for the reason `why`."""
        self.tally.stopped = why
        self.inspector.abandon()

    def note_stop(self) -> None:
        """Let the summary say that the run was interrupted."""
        if self.interrupt.received and not self.tally.stopped:
            self.tally.stopped = f"stopped by {self.interrupt.name}"

    @property
    def ended(self) -> list[str]:
        """Why not all was read; empty if all was."""
        stopped = [self.tally.stopped] if self.tally.stopped else []
        return stopped + [str(error) for error in self.packets.status.errors]

    def follow(self) -> None:
        """Be a process beside the first one, which alone writes output and messages."""
        self.follows = self.begun = True
        self.progress = None

    def begin(self) -> None:
        """Begin the output, once there is something to show that other processes read."""
        if not self.begun:
            self._begin()
            self.add_secrets()

    def feed(self, piece: Block) -> list[Line]:
        self._begin()
        if self.progress is not None:
            self.progress.update()
        lines = Run.feed(self, piece)
        self.tally.first, self.tally.last = self.filter.start, self.last
        return lines

    def stop(self) -> None:
        """Close the input and take the progress away."""
        self.packets.close()
        if self.progress is not None:
            self.progress.stop()

    def close(self, found: dict[str, Any] | None = None) -> int:
        """Print the summary and the errors of inputs; return the exit status for them. `found`: the summary's object,
        if other processes made it. Raises the first error of a sink, once all are closed."""
        if found is None:
            found = self.summary()
        if hit := {limit: count for sink in self.sinks for limit, count in sink.caps_hit.items()}:
            found["caps_hit"] = dict(sorted({**found["caps_hit"], **hit}.items()))
        self.note_stop()
        summary = self.tally.completed(found)
        # A file of an earlier run stays as it is if there is nothing to put in its place.
        shows = SUMMARY in self.options.emit and (self.begun or self.options.path is None)
        if shows:
            self.tell(summary)
        try:
            with self.interrupt.breakable():
                if shows or self.begun:
                    for sink in self.sinks:
                        sink.finish()
                self.stream.flush()
        except LateError:
            # Nobody reads it.
            outfile.discard(self.stream)
        if self.options.path is not None:
            self.stream.close()
        for error in self.packets.status.errors:
            complain(str(error))
        if self.keylog is not None and self.begun:
            self.note_secrets(0)
        # Not breakable: what was read for them would be lost.
        read = RunInput(self.packets.files, self.packets.status.errors, self.begun, self.tally.first)
        closed, failures = _close_all(self.sinks, read)
        if not self.options.values["quiet"] and not self.nothing_read:
            click.echo(summary_text(found, self.tally), nl=False, err=True)
            for text in [text for sink in closed for text in sink.messages]:
                click.echo(escape(text), err=True)
        if failures:
            raise failures[0]
        statuses = [error.status for error in self.packets.status.errors] + [sink.status for sink in closed]
        return max(statuses, default=0)

    def tell(self, line: dict[str, Any]) -> None:
        """Give the sinks a line on the run itself."""
        for sink in self.sinks:
            sink.tell(line)

    def flush(self) -> None:
        """Let the sinks write what they took."""
        for sink in self.sinks:
            sink.flush()

    @property
    def nothing_read(self) -> bool:
        """True if no input could be read."""
        return bool(self.packets.status.errors) and not self.inspector.counts.packets

    def _begin(self) -> None:
        """Empty the output file: only now is there something to write."""
        if not self.begun:
            self.begun = True
            self.stream.file.begin()

    def note_secrets(self, new: int) -> None:
        """Complain of a key log that begins without secrets, or stays without them."""
        # Lines written later may be of no use here.
        if not new and not self.keylog_begun and not self.follows:
            complain(f"{self.options.values['keylog']}: no TLS secrets in it (NSS key log format)")
        self.keylog_begun = True

    def show(self, lines: Iterable[Line]) -> None:
        """Write the lines that pass the filter. Raises LimitReachedError."""
        stops_at = self.options.stops_at
        try:
            for line in lines:
                if self.show_one(line):
                    self.lines += 1
                    if self.lines == stops_at:
                        raise LimitReachedError
        finally:
            self.flush()

    def show_one(self, line: Line) -> bool:
        """Give a line to the sinks if it passes the filter; return True if it is one of those that are asked for."""
        chosen, kind, tally = self.filter, type(line), self.tally
        if isinstance(line, Exchange):
            if self.filtered and not chosen.matches(line):
                return False
            if self.copies is not None and not chosen.let and self.copies.seen(line):
                tally.twins_shown += 1
        elif not chosen.matches_line(line):
            return False
        shown = kind in self.asked
        for take in self.takes[kind]:
            if take(line) is False:
                tally.without_line += 1
                shown = False
        if isinstance(line, Exchange):
            # What only serves rows of an answer did not pass by itself.
            tally.shown += not chosen.let
            if self.counts_errors:
                tally.count(line)
        return shown


def _close_all(sinks: Sequence[Sink], read: RunInput) -> tuple[list[SinkReport], list[Exception]]:
    """Close each sink, whatever becomes of the others: what they report, and the errors of those that fail."""
    closed: list[SinkReport] = []
    failures: list[Exception] = []
    for sink in sinks:
        try:
            closed.append(sink.close(read))
        except Exception as error:
            failures.append(error)
    return closed, failures


def _called(options: RunOptions) -> str | None:
    """The summary's word for the exchanges that pass the filters; None where they are not counted."""
    if options.emit.isdisjoint({EXCHANGE, *SUMS}):
        return None
    if EXCHANGE in options.emit and not options.silent and not options.sort:
        return SHOWN
    return PASSED if options.filter.active else LOOKED_AT


def _shows_progress(options: RunOptions, packets: Packets, shown: Sink | None) -> bool:
    """True if progress is to be shown: not where lines that come at any time are enough of it."""
    lines_come = (
        packets.status.bytes_total is None and shown is None and options.path is None and sys.stdout.isatty()
    )
    return progress.wanted(
        False if options.values["progress"] is None and lines_come else options.values["progress"]
    )
