"""Exports of the explorer: an exchange as JSON, packets as pcapng, a filter for tshark and Wireshark."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

from kinspect.capture import open_timeline
from kinspect.capture.frameoffsets import has_places
from kinspect.capture.source import can_reopen
from kinspect.capture.writer import PcapngWriter
from kinspect.errors import KinspectError
from kinspect.jsontext import escape_json
from kinspect.link import Dissector
from kinspect.model import FRAME_BITS, FRAME_MASK, Block, Caps, Counts, Segment
from kinspect.ownfile import make
from kinspect.tui.index import reread, row
from kinspect.tui.index.row import ExchangeRow
from kinspect.tui.index.store import Store, never


class PacketSpan(NamedTuple):
    """Packets by their frame references: those of a connection, with the prefixes of its keys, or all."""

    first: int
    last: int
    flows: tuple[bytes, ...]


class Saved(NamedTuple):
    """Number of packets written, number of them without a time of their own in the capture, and true if some belong to
    TLS connections."""

    packets: int
    timeless: int
    tls: bool


class Commands(NamedTuple):
    """A text to read, and the part of it to copy."""

    text: str
    copied: str


def json_line(line: dict[str, Any]) -> bytes:
    """The line of an exchange, as `--format jsonl` writes it to a terminal."""
    import orjson

    return escape_json(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def write_new(path: str) -> BinaryIO:
    """A file that was not there before, for its owner alone. Raises KinspectError."""
    try:
        return os.fdopen(make(os.path.expanduser(path)), "wb")
    except FileExistsError:
        raise KinspectError(f"{path}: exists; give another name") from None
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise KinspectError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """`write_new` as a context for the block that writes the file; if the block raises, the file is removed."""
    with write_new(path) as file:
        try:
            yield file
        except BaseException:
            os.unlink(os.path.expanduser(path))
            raise


def tshark_commands(store: Store, found: ExchangeRow) -> Commands:
    """Commands and filters that find an exchange in tshark and Wireshark."""
    filters = tshark_filters(store, found)
    commands = [f"tshark -r {shlex.quote(name)} -Y '{text}'" for name, text in filters]
    parts = [*commands]
    if len(filters) > 1:
        parts.insert(0, "Its packets lie in several captures; frame numbers are those of each:")
    alone = kafka_filter(found)
    if alone is not None:
        parts.append(f"Where Wireshark takes the port for Kafka's, this narrows it down:\n{alone}")
    # With several captures, a filter needs the name of its own.
    return Commands("\n\n".join(parts), filters[0][1] if len(filters) == 1 else "\n".join(commands))


def tshark_filters(store: Store, found: ExchangeRow) -> list[tuple[str, str]]:
    """Display filters for the packets of an exchange, each with its capture: those of its connection, from the first
    to the last of each message. Frame numbers are those of the capture.
    """
    client_ip, client_port, broker_ip, broker_port, *_ = store.connection(found)
    ip = "ipv6" if ":" in client_ip else "ip"
    ends = (
        f"{ip}.addr == {client_ip} && tcp.port == {client_port}"
        f" && {ip}.addr == {broker_ip} && tcp.port == {broker_port}"
    )
    frames: dict[int, list[str]] = {}
    for first, last in _in_files(_frames(found)):
        frames.setdefault(first >> FRAME_BITS, []).append(_between(first & FRAME_MASK, last & FRAME_MASK))
    return [(store.inputs.names[file], f"{ends} && ({' || '.join(each)})") for file, each in frames.items()]


def _between(first: int, last: int) -> str:
    """Filter for the frames of these numbers; `FRAME_MASK` as the last one: to the end of the capture."""
    if first == last:
        return f"frame.number == {first}"
    bounds = f"frame.number >= {first}"
    return bounds if last == FRAME_MASK else f"({bounds} && frame.number <= {last})"


def kafka_filter(found: ExchangeRow) -> str | None:
    """Filter for use where Wireshark itself takes the port for Kafka's; None without a correlation id."""
    if not found.flags & row.HAS_CORRELATION:
        return None
    return f"kafka.correlation_id == {found.correlation_id}"


def files_of(found: ExchangeRow) -> list[int]:
    """Numbers of the captures that the exchange's packets are in."""
    return [*dict.fromkeys(first >> FRAME_BITS for first, _ in _in_files(_frames(found)))]


def _frames(found: ExchangeRow) -> list[tuple[int, int]]:
    return [(side.first_frame, side.last_frame) for side, bits in found.sides if bits & row.PRESENT]


def _in_files(frames: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same ranges split by file: a message that lies in several has a range from its first packet to the end of
    that file, all of the files between, and a range up to its last packet."""
    for first, last in frames:
        for file in range(first >> FRAME_BITS, (last >> FRAME_BITS) + 1):
            low = file << FRAME_BITS
            yield max(first, low + 1), min(last, low + FRAME_MASK)


def stretches(store: Store, indexes: Iterable[int]) -> list[PacketSpan]:
    """The packets of exchanges: of each connection, those from the first to the last of each message. With TLS, from
    the beginning of the captures: without the handshake no secret would decrypt them."""
    found = []
    for index in indexes:
        each = store[index]
        client_ip, client_port, broker_ip, broker_port, _, _, tls, _ = store.connection(each)
        if not client_ip:
            raise KinspectError("the addresses of an exchange were not kept: there were too many")
        client, broker = (client_ip, client_port), (broker_ip, broker_port)
        flows = reread.flow_key((client, broker)), reread.flow_key((broker, client))
        frames = _frames(each)
        if tls:
            frames.append((1, max(last for _, last in frames)))
        found += [PacketSpan(first, last, flows) for first, last in _in_files(frames)]
    return sorted(found)


def check_kept(store: Store, wanted: Iterable[PacketSpan]) -> None:
    """Raise KinspectError if packets of these stretches cannot be read again."""
    for number in {stretch.first >> FRAME_BITS for stretch in wanted}:
        if not can_reopen(store.inputs.paths[number]):
            if store.inputs.interface is not None:
                raise KinspectError("packets are not kept here: -w/--save FILE of `kinspect live` keeps them")
            raise KinspectError("the packets were not kept, and their input can be read only once")


def save(store: Store, indexes: Iterable[int], file: BinaryIO, stopped: Callable[[], bool] = never) -> Saved:
    """Write the packets of exchanges to `file` as pcapng, in the order of the captures.

    TLS stays encrypted; secrets that were given or found are not written. Raises KinspectError (an input that can be
    read only once), OSError, StoppedError.
    """
    chosen = [*indexes]
    tls = any(store.connection(store[index])[6] for index in chosen)
    wanted = stretches(store, chosen)
    check_kept(store, wanted)
    needed = {stretch.first >> FRAME_BITS for stretch in wanted}
    writer = PcapngWriter(file)
    interfaces: dict[int, int] = {}
    written = timeless = time = 0
    for block, inside in _chosen_packets(store, wanted, needed, stopped):
        for place in inside:
            link_type = block.link_types[place]
            if link_type not in interfaces:
                interfaces[link_type] = writer.interface(link_type)
            own = block.times[place]
            timeless += own is None
            time = time if own is None else max(own, 0)
            data = block.data[block.starts[place] : block.ends[place]]
            writer.packet(interfaces[link_type], time, data, block.wire_lengths[place])
            written += 1
    return Saved(written, timeless, tls)


def _chosen_packets(
    store: Store, wanted: list[PacketSpan], needed: set[int], stopped: Callable[[], bool]
) -> Iterator[tuple[Block, list[int]]]:
    """The blocks with packets of the stretches, each with the indexes of these packets in it."""
    for block, segments, active in near_packets(store, wanted, needed, stopped):
        inside: set[int] = set()
        for key, _, _, _, _, _, _, _, _, frame, _ in segments:
            for stretch in active:
                if stretch.first <= frame <= stretch.last and key.startswith(stretch.flows):
                    inside.add(frame - block.first_frame)
                    break
        if inside:
            yield block, sorted(inside)


def near_packets(
    store: Store,
    wanted: list[PacketSpan],
    needed: set[int],
    stopped: Callable[[], bool],
    quotes: bool = False,
) -> Iterator[tuple[Block, list[Segment], list[PacketSpan]]]:
    """The blocks that stretches reach into, with all segments in them, and these stretches. `wanted`: in order;
    `quotes`: as of `Dissector`."""
    dissector = Dissector(Caps(), Counts(), quotes=quotes)
    pending = 0
    active: list[PacketSpan] = []
    for block in _blocks(store, wanted, needed, stopped):
        end = block.first_frame + len(block)
        while pending < len(wanted) and wanted[pending].first < end:
            active.append(wanted[pending])
            pending += 1
        if active:
            yield block, dissector.segments(block), active
        active = [stretch for stretch in active if stretch.last >= end]


def _blocks(
    store: Store, wanted: list[PacketSpan], needed: set[int], stopped: Callable[[], bool]
) -> Iterator[Block]:
    """The blocks that may hold packets of the stretches, each once; of plain files only those that are needed."""
    for number in sorted(needed):
        low, high = number << FRAME_BITS, (number + 1) << FRAME_BITS
        mine = [stretch for stretch in wanted if stretch.first < high and stretch.last >= low]
        first, last = min(s.first for s in mine), max(s.last for s in mine)
        if has_places(store.inputs.paths[number]):
            yield from reread.packets(store.places, max(first, low + 1), min(last, high - 1), stopped)
            continue
        timeline = open_timeline(store.inputs.paths[number : number + 1])
        for block in timeline:
            if stopped():
                timeline.close()
                raise reread.StoppedError
            block.first_frame += low
            if block.first_frame > last:
                timeline.close()
                break
            yield block
