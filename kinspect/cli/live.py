"""`kinspect live`: an interface in, exchanges out as they complete."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from types import FrameType
from typing import Any

import click

from kinspect.capture.handover import QUEUE_BYTES
from kinspect.capture.live import Live, Settings, open_rings
from kinspect.capture.privileges import drop, will_become
from kinspect.capture.ring import BLOCK_BYTES, MOST_RING_BYTES, RING_BYTES
from kinspect.capture.save import Rotation, Saving
from kinspect.capture.worker import Plan
from kinspect.cli import complain, outfile
from kinspect.cli.interrupt import SIGNALS
from kinspect.cli.keylog import KeyLogFile
from kinspect.cli.liveexplore import check_explorer, explore_live
from kinspect.cli.liveview import VIEW, check, come_from, format_for_terminal, open_view, status_of
from kinspect.cli.options import (
    FILTERS,
    FORMATS,
    INPUT,
    LIMITS,
    OUTPUT_FILE,
    SHOWN,
    Sectioned,
    format_option,
    options,
    usage,
)
from kinspect.cli.run import open_run, wanted
from kinspect.cli.types import COUNT, DURATION, SIZE, Size
from kinspect.output import JSONL, TABLE
from kinspect.output.summary import COUNTED, DROPS

LOADED_LATE = (
    *(f"kinspect.output.{name}" for name in ("console", "detail", "jsonl", "table")),
    *("kinspect.kafka.bodynames", "kinspect.tls.protection", "kinspect.tls.keys"),
    *(f"kinspect.tui.live.{name}" for name in ("screen", "view")),
    *("cramjam", "crc32c", "rich.progress", "scapy.arch.common"),
    *("ctypes.util", "shutil", "subprocess", "tempfile"),
)

CAPTURE = (
    click.option(
        "-i",
        "--iface",
        "interfaces",
        required=True,
        multiple=True,
        metavar="IFACE",
        help="Capture from this interface; repeatable; any: from all of them.",
    ),
    click.option("--duration", type=DURATION, help="Stop after so long: 60, 90s, 10m."),
    click.option("--count", type=COUNT, metavar="N", help="Stop after N packets of any kind."),
    click.option(
        "--bpf",
        metavar="FILTER",
        help="Let the kernel pass only these packets, as tcpdump's filter; tunnels and other ports are not seen.",
    ),
    click.option(
        "--snaplen",
        type=click.IntRange(64, BLOCK_BYTES),
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
        help="Keep the packets too: a pcapng file, readable by its owner alone, with the secrets of --keylog.",
    ),
    click.option("--rotate-size", type=SIZE, help="Begin a new file before one gets larger."),
    click.option("--rotate-time", type=DURATION, help="Begin a new file after so long."),
    click.option("--rotate-count", type=COUNT, metavar="N", help="Begin a new file after N packets."),
    click.option("--rotate-keep", type=COUNT, metavar="N", help="Delete the oldest of more than N files."),
    click.option(
        "--explore", is_flag=True, help="Look through the exchanges as they come, as `kinspect explore` does."
    ),
)
OUTPUT = (
    *OUTPUT_FILE,
    format_option(
        [VIEW, *FORMATS],
        f"{VIEW} on a terminal ({TABLE} where TERM=dumb), else {JSONL}; {VIEW}: the whole terminal, drawn anew as it"
        " goes on",
    ),
    *SHOWN,
)


@click.command(cls=Sectioned)
@options(CAPTURE, OUTPUT, FILTERS, INPUT, LIMITS)
def live(interfaces: tuple[str, ...], **values: Any) -> int:
    """Decode what passes network interfaces, until Ctrl-C, --duration or --count.

    On a terminal it shows rates, latencies, failures and the last exchanges; with --format table, or in a pipe, every
    exchange is printed as it completes. Times are those of packets: a silent connection is flushed, and a
    lost packet given up, when a later packet shows how much time has passed.

    Filters are those of `kinspect read`: they choose what is shown, not what is captured or saved.

    The right to capture is needed: sudo, or CAP_NET_RAW. It is given up once the interfaces are open: files are
    read and written as the user who called sudo.
    """
    # The sockets first: they are what needs rights, and no file is touched before these are given up.
    rings = open_rings(interfaces)
    if will_become():
        _load_beforehand()
        if values["explore"]:
            import_module("kinspect.tui.app")
    drop()
    asked = wanted(values, shown=format_for_terminal())
    check(asked)
    if values["explore"]:
        check_explorer(values)
    saving = _saving(values)
    keylog = usage(lambda: KeyLogFile(values["keylog"])) if saving and values["keylog"] else None
    chosen = ("snaplen", "bpf", "ring_bytes", "queue_bytes")
    capture = Live(
        rings,
        Settings(**{name: values[name] for name in chosen}, saving=saving),
        Plan(values["duration"], values["count"], keylog.more if keylog else bytes),
    )
    if values["explore"]:
        return explore_live(capture, asked)
    view = open_view(asked, capture)
    run = open_run(asked, capture, writer=view)
    run.tally.interface = come_from(capture, values)
    if values["keylog"] is not None:
        run.inspector.expect_secrets()
    with Ending(capture.stop):
        capture.start()
        if not values["quiet"]:
            complain(f"capturing on {', '.join(interfaces)}, Ctrl-C ends it")
        with view.at_work(status_of(capture, run)) if view is not None else nullcontext():
            run.run(iter(capture))
    status = run.close()
    if not values["quiet"]:
        _tell_no_drops(capture)
    return status


def _load_beforehand() -> None:
    """What is else loaded when it is first needed: the user may have no right to read where Python lies."""
    for name in LOADED_LATE:
        import_module(name)
    # How wide characters are is loaded with the first one beyond ASCII.
    import_module("rich.cells").cell_len("…")


def _saving(values: dict[str, Any]) -> Saving | None:
    """Where and how packets are kept."""
    path = values["save"]
    rotation = Rotation(*(values[f"rotate_{name}"] for name in ("size", "time", "count", "keep")))
    if path is None:
        if rotation != Rotation():
            raise click.UsageError("--rotate-... is for --save")
        return None
    if path == outfile.STANDARD or _is_same(path, values["output"]):
        raise click.UsageError("--save: needs a file of its own")
    if rotation.keep is not None and not rotation.wanted:
        raise click.UsageError("--rotate-keep: say when a new file begins: --rotate-size, -time or -count")
    if not rotation.wanted:
        inputs = [values[option] for option in ("keylog", "topic_names") if values[option]]
        usage(lambda: outfile.check(path, values["force"], inputs))
    return Saving(path, rotation, values["force"])


def _is_same(path: str, other: str | None) -> bool:
    """Whether two names are of one file, also of one to be made."""
    return other is not None and os.path.realpath(path) == os.path.realpath(other)


def _tell_no_drops(capture: Live) -> None:
    """The summary names drops alone; of a live capture it is worth knowing that there were none."""
    for key in DROPS:
        if not getattr(capture, key):
            click.echo(COUNTED[key].format(0), err=True)


class Ending:
    """Within it, the first Ctrl-C or SIGTERM calls `stop`. A second one is not held back."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._asked = False

    def __enter__(self) -> None:
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._stop()
