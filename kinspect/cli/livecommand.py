"""`kinspect live`: an interface in, exchanges out as they complete."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from kinspect.answers import answers
from kinspect.answers.answerobject import JSON
from kinspect.capture.captureworker import CaptureLimits
from kinspect.capture.handover import QUEUE_BYTES
from kinspect.capture.keylogfile import KeyLogFile
from kinspect.capture.livecapture import CaptureSettings, Live, OngoingCapture, interface_names, open_rings
from kinspect.capture.privileges import drop, drop_capabilities
from kinspect.capture.ring import BLOCK_BYTES, MOST_RING_BYTES, RING_BYTES
from kinspect.capture.rotation import Rotation
from kinspect.capture.save import SaveOptions
from kinspect.cli import FAILED, complain, outfile
from kinspect.cli.completions import files, interfaces, words
from kinspect.cli.health import health
from kinspect.cli.interrupt import ENDING, Interrupt
from kinspect.cli.liveanswers import (
    ALONE,
    ANSWER_RULES,
    answer_options,
    note_counted,
    open_answers,
    print_answers,
)
from kinspect.cli.liveexplore import EXPLORE_RULES, explore_live
from kinspect.cli.livemetrics import METRICS, METRICS_RULES, LiveMetrics, open_metrics
from kinspect.cli.liveview import (
    VIEW,
    VIEW_RULES,
    answered_by,
    come_from,
    format_for_terminal,
    open_view,
    status_of,
)
from kinspect.cli.options import (
    AUTO,
    FILTER_OPTIONS,
    IN_BODIES,
    INPUT,
    LIMITS,
    LINE_TYPES,
    LINES_ALONE,
    OTLP,
    OUTPUT_FILE,
    SINKS,
    emit_option,
    format_option,
    lines_shown,
    options,
    usage,
)
from kinspect.cli.outputoptions import GOES_ON, OUTPUT_OPTIONS, input_files
from kinspect.cli.ownmetrics import decoding, own_metrics
from kinspect.cli.payloadoptions import SCHEMA_REGISTRY, form_option
from kinspect.cli.preload import preload
from kinspect.cli.readrun import RUN_FACTS, RUN_RULES, ReadRun, open_run, run_options
from kinspect.cli.recordscommand import (
    KCAT,
    LIVE_FORMATS,
    OWN_FILTERS,
    RECORD_RULES,
    SPLIT,
    WHICH,
    RecordsCommand,
    RecordSink,
    record_request,
)
from kinspect.cli.rotated import ROTATION
from kinspect.cli.rules import OptionRule, check
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.sdnotify import Notifier
from kinspect.cli.service import Hangup, Service
from kinspect.cli.stats import STATS_INTERVAL, STATS_RULES, stats_interval
from kinspect.cli.types import COUNT, DURATION, SIZE, Number, Size
from kinspect.extras import need
from kinspect.filters.recordfilters import RECORD_FILTERS, SHARED
from kinspect.formats import FORMATS
from kinspect.model import Block
from kinspect.output import JSONL, TABLE
from kinspect.output.runsummary import COUNTED, DROPS
from kinspect.payloads.payloadforms import AS_THEY_ARE
from kinspect.payloads.payloadforms import JSON as JSON_PAYLOADS
from kinspect.sink import STATS

if TYPE_CHECKING:
    from kinspect.tui.live.liveloop import LiveView

CAPTURE = (
    click.option(
        "-i",
        "--iface",
        "interfaces",
        multiple=True,
        metavar="IFACE",
        shell_complete=words(interfaces),
        help="Capture from this interface; repeatable; any: from all of them.",
    ),
    click.option(
        "--from",
        metavar="COMMAND",
        help="Read the capture that this command prints instead (ssh, kubectl exec, docker exec: tcpdump -U -w -); or"
        " connect to tcp://host:port (PCAP-over-IP). No shell runs it.",
    ),
    click.option("--duration", type=DURATION, help="Stop after this time: 60, 90s, 10m."),
    click.option("--count", type=COUNT, metavar="N", help="Stop after N packets of any kind."),
    click.option(
        "--bpf",
        metavar="FILTER",
        help="Let the kernel pass only these packets (a filter of tcpdump). Tunnels and other ports are not seen.",
    ),
    click.option(
        "--snaplen",
        type=Number(64, BLOCK_BYTES),
        default=BLOCK_BYTES,
        metavar="N",
        help=f"Take no more than N bytes of a packet.  [default: {BLOCK_BYTES}]",
    ),
    click.option(
        "--buffer",
        "ring_bytes",
        type=Size(most=MOST_RING_BYTES),
        default=RING_BYTES,
        help=f"The kernel's ring, for each interface; at most {SIZE.written(MOST_RING_BYTES)}."
        f"  [default: {SIZE.written(RING_BYTES)}]",
    ),
    click.option(
        "--queue",
        "queue_bytes",
        type=SIZE,
        default=QUEUE_BYTES,
        help=f"Packets that may wait to be decoded.  [default: {SIZE.written(QUEUE_BYTES)}]",
    ),
    click.option(
        "-w",
        "--save",
        metavar="FILE",
        shell_complete=files,
        help="Keep the packets too, in a pcapng file with the secrets of --keylog, readable by its owner alone.",
    ),
    click.option("--rotate-size", type=SIZE, help="Begin a new file before one gets larger."),
    click.option("--rotate-time", type=DURATION, help="Begin a new file after this time."),
    click.option("--rotate-count", type=COUNT, metavar="N", help="Begin a new file after N packets."),
    click.option("--rotate-keep", type=COUNT, metavar="N", help="Delete the oldest of more than N files."),
    click.option(
        "--answer",
        multiple=True,
        metavar="NAMES",
        shell_complete=words(answers),
        help="Print no exchanges, but these answers at the end: groups,errors. See `kinspect groups --help`.",
    ),
    click.option(
        "--records-only",
        is_flag=True,
        help="Print no exchanges, but their records, as `kinspect records` does.",
    ),
    click.option(
        "--explore", is_flag=True, help="Look through the exchanges as they come, as `kinspect explore` does."
    ),
)
OUTPUT = (
    *OUTPUT_FILE,
    *OUTPUT_OPTIONS,
    *ROTATION,
    format_option(
        [VIEW, *FORMATS, *ALONE, KCAT],
        f"{VIEW} on a terminal ({TABLE} where TERM=dumb), else {JSONL}; {VIEW}: the whole terminal, drawn anew as it"
        f" goes on; of answers {TABLE} on a terminal, else {JSON}, an object a line;"
        f" {KCAT}: records",
    ),
    emit_option([*LINE_TYPES, STATS]),
    *STATS_INTERVAL,
    *lines_shown(
        form_option(
            "Show records' keys and values; none: their sizes only. For --records-only and --explore also:"
        )
    ),
    SCHEMA_REGISTRY,
    *WHICH,
    SPLIT,
    *SINKS,
)
COUNTING_SECONDS = 8
"""Time to count what was captured after a SIGTERM: a little less than `docker stop` waits."""
ROTATES = ("rotate_size", "rotate_time", "rotate_count")
OF_INTERFACES = "{} is for --iface: the command of --from decides what it captures and keeps"
FROM_RULES = (
    OptionRule(("bpf", "snaplen", "save", *ROTATES, "rotate_keep"), OF_INTERFACES, "from"),
    OptionRule("ring_bytes", OF_INTERFACES.replace("{}", "--buffer"), "from"),
    OptionRule(
        "from", f"{{}} is not for --emit {STATS}: what another host drops is not known", f"types={STATS}"
    ),
    OptionRule("from", "{} is in place of --iface: give one of them", "interfaces"),
)
SAVE_RULES = (
    OptionRule((*ROTATES, "rotate_keep"), "--rotate-... is for --save", unless="save"),
    OptionRule("save", "{}: needs a file of its own", "shared"),
    OptionRule(
        "rotate_keep", "{}: say when a new file begins: --rotate-size, -time or -count", unless=ROTATES
    ),
)
RECORDS_RULES = (
    *RECORD_RULES,
    OptionRule(
        (
            *(name for name in RECORD_FILTERS if name not in SHARED),
            "control",
            "once",
            "split",
            f"format={KCAT}",
        ),
        "{} is for --records-only",
        unless="records_only",
    ),
    *(
        OptionRule(
            f"payload={form}",
            "{} is for --records-only and --explore",
            unless=("records_only", "explore"),
        )
        for form in (AS_THEY_ARE, JSON_PAYLOADS)
    ),
    OptionRule(
        "records_only",
        f"--format {{format}} is not for --records-only, which has {', '.join(LIVE_FORMATS)}",
        unless=f"format_name={'|'.join((AUTO, *LIVE_FORMATS))}",
    ),
    OptionRule(
        ("answer", "explore", "metrics", OTLP, *LINES_ALONE, "records", "int64"),
        "{} is not for --records-only",
        "records_only",
    ),
    OptionRule((*GOES_ON, "output_mode"), "{} is not for --split", "split"),
)
RULES = (
    *FROM_RULES,
    *RECORDS_RULES,
    *ANSWER_RULES,
    *METRICS_RULES,
    *EXPLORE_RULES,
    *STATS_RULES,
    *RUN_RULES,
    *VIEW_RULES,
    *SAVE_RULES,
)
FACTS = {
    **RUN_FACTS,
    "shown": lambda asked: format_for_terminal(),
    "term": lambda asked: os.environ.get("TERM", ""),
    "terminal": lambda asked: sys.stdout.isatty() and sys.stderr.isatty(),
    "view": lambda asked: (
        asked["format"] == VIEW and not any(asked[each] for each in ("answer", "explore", "records_only"))
    ),
    "shared": lambda asked: asked["save"] == outfile.STANDARD or _is_same(asked["save"], asked["output"]),
}


@click.command(cls=RecordsCommand)
@options(CAPTURE, OUTPUT, METRICS, FILTER_OPTIONS, OWN_FILTERS, INPUT, SCHEMA, LIMITS)
def live(interfaces: tuple[str, ...], **values: Any) -> int:
    """Decode live traffic of network interfaces, until Ctrl-C, --duration or --count.

    With --from it decodes that of another host, a pod or a container.

    On a terminal it shows rates, latencies, failures and the last exchanges. With --format table, or in a pipe, it
    prints every exchange as it completes; with --answer, answers at the end. Times are those of packets. Without
    packets, this host's clock applies, so that silent connections and lost packets still time out.

    Filters are those of `kinspect read`. They select what is shown, not what is captured or saved.

    It needs sudo or CAP_NET_RAW, and drops these privileges once the interfaces are open. It reads and writes files as
    the user who called sudo.

    SIGHUP reopens the FILE of -o, as logrotate needs it; without -o it ends the capture.
    """
    streamed = values["from"] is not None
    if not interfaces and not streamed:
        raise click.UsageError(
            f"choose an interface with -i: there are {', '.join(interface_names())}; or a command with --from"
        )
    counted = open_answers(values["answer"])
    check(RULES, FACTS)
    # The sockets first: they are what needs rights, and no file is touched before these are given up.
    rings = [] if streamed else open_rings(interfaces)
    metrics = open_metrics(values)
    if os.geteuid() == 0:
        preload(values)
    if os.geteuid() == 0 or not streamed:
        drop()
    else:
        drop_capabilities(for_good=False)
    if values["explore"]:
        need("explore", "the explorer")
    every = stats_interval(values)
    choice = None
    if values["records_only"]:
        requested, choice = record_request(values)
    else:
        lines = {**values, **IN_BODIES} if values["explore"] else values
        requested = answer_options(counted, values) if counted else run_options(lines, facts=FACTS)
    saving = _saving(values)
    keylog = usage(lambda: KeyLogFile(values["keylog"])) if saving and values["keylog"] else None
    limits = CaptureLimits(values["duration"], values["count"], keylog.more if keylog else bytes)
    if streamed:
        capture = _stream(values, limits)
    else:
        chosen = ("snaplen", "bpf", "ring_bytes", "queue_bytes")
        settings = CaptureSettings(**{name: values[name] for name in chosen}, saving=saving)
        capture = Live(rings, settings, limits)
    if values["explore"]:
        return explore_live(capture, requested, values["payload"], values["schema_registry"])
    into_file = requested.path is not None
    hangup = Hangup(into_file, signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
    interrupt = Interrupt(
        capture.stop,
        (*ENDING, signal.SIGHUP),
        hangup.taken if into_file else None,
        COUNTING_SECONDS if counted is not None else None,
    )
    view = open_view(requested, capture)
    if view is not None:
        requested.values["progress"] = False
    rows = None if choice is None else RecordSink(requested, choice, values, lambda: capture.status.reached)
    run = open_run(
        requested,
        capture,
        interrupt,
        shown=counted or rows or view,
        origin=capture.origin,
        beside=[metrics] if metrics is not None else [],
        own=lambda: own_metrics(decoding(run), health(capture, run)),
    )
    if counted is not None:
        note_counted(run)
    if rows is not None:
        rows.open(run)
    run.tally.interface = come_from(capture, values)
    run.tally.host, run.tally.interfaces = capture.origin.host, None if streamed else capture.files[0]
    # A stream of pcapng may bring them at any time.
    run.late_secrets = values["keylog"] is not None or streamed
    service = Service(capture, run, hangup, Notifier(), every, silent=view is not None)
    run.between = service.attend
    with interrupt:
        capture.start([each.fileno() for each in (run.stream, metrics) if each is not None])
        service.ready()
        status = FAILED
        try:
            if not values["quiet"]:
                complain(f"capturing on {', '.join(capture.files)}, Ctrl-C ends it")
                if metrics is not None:
                    complain(f"metrics at {metrics.url}")
            status = _shown(run, capture, view, metrics)
            service.end()
            if counted is not None and not status:
                print_answers(counted, run, values, saving)
            status = max(status, run.close())
            # The summary names drops alone, and in a live capture their absence matters.
            for key in () if values["quiet"] else DROPS:
                if getattr(capture.status, key) == 0:
                    click.echo(COUNTED[key].format(0), err=True)
        except OSError as error:
            _complain_unwritten(run.stream, error)
            status = FAILED
            capture.close()
    return interrupt.status if interrupt.received == signal.SIGHUP else status


def _stream(values: dict[str, Any], limits: CaptureLimits) -> OngoingCapture:
    """The capture that --from names."""
    # Only for this: these modules start processes and threads.
    from kinspect.capture.sender import sender_of
    from kinspect.capture.streamedcapture import StreamedCapture

    return StreamedCapture(sender_of(values["from"]), limits, values["queue_bytes"])


def _shown(run: ReadRun, capture: OngoingCapture, view: LiveView | None, metrics: LiveMetrics | None) -> int:
    """Show the captured exchanges, to the end or until the output fails; return the exit status."""
    try:
        with (
            metrics.served(capture, run) if metrics is not None else nullcontext(),
            view.at_work(status_of(capture, run), answered_by(run)) if view is not None else nullcontext(),
        ):
            run.run(partial(_while_taken, run.stream))
    except OSError as error:
        _complain_unwritten(run.stream, error)
        run.give_up("stopped, as the output could not be written")
        return FAILED
    return 0


def _complain_unwritten(stream: TextIO, error: OSError) -> None:
    outfile.discard(stream)
    try:
        complain(f"cannot write the output: {error.strerror or error}: the capture ends")
    except OSError:
        # It went the same way as the output.
        outfile.discard(sys.stderr)


def _while_taken(stream: TextIO, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks. Raises BrokenPipeError as soon as nobody reads the stream any more, even if nothing is written."""
    look = select.poll()
    look.register(stream.fileno(), 0)
    for block in blocks:
        if look.poll(0):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        yield block


def _saving(values: dict[str, Any]) -> SaveOptions | None:
    """Path and rotation of the files that packets are saved in; None if they are not."""
    if (path := values["save"]) is None:
        return None
    usage(lambda: outfile.check_name(path))
    rotation = Rotation(*(values[f"rotate_{name}"] for name in ("size", "time", "count", "keep")))
    if not rotation.limited:
        usage(lambda: outfile.check_overwrite(path, values["force"], input_files(values)))
    return SaveOptions(path, rotation, values["force"])


def _is_same(path: str, other: str | None) -> bool:
    """True if two names are of the same file, even one to be made."""
    return other is not None and os.path.realpath(path) == os.path.realpath(other)
