"""The Python interface: `for exchange in kinspect.read("capture.pcap"): ...`"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self, Unpack

from kinspect.capture.keylogfile import KeyLogFile
from kinspect.capture.pythoninput import Path, PythonInput, PythonPackets, open_input
from kinspect.errors import CaptureError, KinspectError
from kinspect.filters.filter import filter_from
from kinspect.filters.filterdefinitions import Filters
from kinspect.filters.values import PORTS
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.forms import BODY_FORMS, JSON
from kinspect.kafka.view.redact import PAYLOADS
from kinspect.kafka.view.view import INT64_FORMS, View
from kinspect.model import Caps
from kinspect.output.escape import printable
from kinspect.output.tally import Tally
from kinspect.pipeline import EXCHANGES_ONLY, Inspector
from kinspect.run import HELD_SECONDS, Run

if TYPE_CHECKING:
    from kinspect.analysis.chosenrecords import PassingRecords
    from kinspect.checks.wirerule import WireRule
    from kinspect.filters.recordfilters import RecordFilters
    from kinspect.kafka.wire.hostnames import HostPort

SWITCH = bool, "True or False"
TYPES: dict[str, tuple[Any, str]] = {
    "filter": (Mapping | None, "a dict, as {'api': 'Fetch'}"),
    "records": SWITCH,
    "once": SWITCH,
    "control": SWITCH,
    "payload": (str, f"one of {', '.join(PAYLOADS)}"),
    "show_secrets": SWITCH,
    "allow_unknown": SWITCH,
    "int64": (str, f"one of {', '.join(INT64_FORMS)}"),
    "body": (str, f"one of {', '.join(BODY_FORMS)}"),
    "keylog": (str | PathLike | bytes, "the path of a key log, or its bytes"),
    "topic_names": (Mapping | None, "a dict of topic ids and names"),
    "names": (Mapping | None, "a dict of addresses and names"),
    "caps": (Caps | None, "a kinspect.Caps"),
    "schema": (str | PathLike | None, "the path of message definitions"),
    "schema_registry": (str | PathLike | None, "the path of schemas"),
}
"""Options: the type, and its words."""


def read(
    paths: PythonInput,
    *more: Path,
    fields: str | Iterable[str] | None = None,
    filter: Filters | None = None,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    int64: str = "number",
    body: str = JSON,
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    decode_as: int | Iterable[int] = (),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
) -> Reading:
    """Exchanges of one or several captures (as one timeline), in the order in which `kinspect read` prints them.

    `paths`: a path or several (`-` is standard input); a file opened for reading bytes; packets of scapy, as a
    `PacketList` or one by one; or blocks (`Block`). Packets and blocks of an iterator or generator may come as they are
    captured: each exchange is handed on before the packet after it is asked for, not sorted by later ones. Those of a
    list are sorted as those of a file.

    `filter`: the filters of the command by name, each a value or a list: `{"topic": "orders-*", "errors_only": True}`.
    `fields`, `records`, `payload`, `show_secrets`, `int64`, `body`: the options of the command, for `Exchange.to_dict`;
    fields are a list, or text with commas. `keylog`: TLS secrets in NSS key log format, beside those in the captures:
    bytes, or the path of a file, which may still grow. `topic_names`: topic id to name. `names`: address, or address
    and port (`10.0.0.1:9092`), to name. `decode_as`: a port or ports whose traffic is Kafka whatever it looks like.
    `caps`: limits on memory. `schema`: a file or folder of message definitions that stand before kinspect's own, for
    the whole process.

    Raises `KinspectError` for options of a wrong type, or that make no sense. The input is opened when the first
    exchange is asked for. Iterating raises `CaptureError` for one that cannot be read and `TruncatedCaptureError` for
    one that ends in the middle, both after the exchanges of all that could be read.
    """
    _check_types(records=records, payload=payload, show_secrets=show_secrets, int64=int64, body=body)
    use_schema(schema)
    view = View(records, payload, show_secrets, int64, _fields(fields), body)
    begin = _beginning(paths, more, filter, keylog, topic_names, names, decode_as, caps)
    return Reading(begin, view)


def answer(
    name: str,
    paths: PythonInput,
    *more: Path,
    filter: Filters | None = None,
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    decode_as: int | Iterable[int] = (),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The object that `kinspect NAME --format json` prints: `answer("topics", "capture.pcap")["rows"]`.

    `name`: one of docs/answers.md; `options`: those of the answer's own. All others are as for `read`.

    Raises `KinspectError` as `read` does, and for an answer that there is not.
    """
    # Loaded when it is asked for.
    from kinspect.answers import open_answer
    from kinspect.answers.counter import AnswerCounter

    use_schema(schema)
    counted = AnswerCounter({name: open_answer(name, **own_options(name, options, keylog))})
    run = _beginning(paths, more, filter, keylog, topic_names, names, decode_as, caps, counted.lines)()
    counted.serve(run.filter)
    try:
        for line in run.all_lines():
            if run.filter.matches(line) if isinstance(line, Exchange) else run.filter.matches_line(line):
                counted.take(line)
    finally:
        run.packets.close()
    for error in run.packets.status.errors:
        raise error
    span = run.filter.start, run.inspector.end[0]
    (found,) = counted.objects(run.summary(), run.inspector.names, span, run.filter.options)
    return found


def records_of(
    paths: PythonInput,
    *more: Path,
    payload: str = "none",
    once: bool = False,
    control: bool = False,
    show_secrets: bool = False,
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    decode_as: int | Iterable[int] = (),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
    schema_registry: str | PathLike[str] | None = None,
    **filters: Unpack[RecordFilters],
) -> Generator[dict[str, Any]]:
    """The records of one or several captures, each as the object that `kinspect records` prints, in its order:
    `records_of("capture.pcap", topic="orders", key="user-*", payload="text")`. docs/records.md has the keys.

    `filters`: those of the command by name, each a value or a list. `payload`, `schema_registry`, `once`, `control`,
    `show_secrets`: the options of the command. All others, and the errors, are as for `read`.
    """
    # Loaded when it is asked for.
    from kinspect.analysis.chosenrecords import LINES, PassingRecords
    from kinspect.filters.filter import named, values_from
    from kinspect.filters.filterdefinitions import FILTERS
    from kinspect.filters.recordfilters import RECORD_FILTERS, SHARED, RecordFilter
    from kinspect.payloads.opendecoder import open_decoder
    from kinspect.payloads.payloadforms import AS_THEY_ARE, PayloadForms

    _check_types(once=once, control=control, show_secrets=show_secrets, schema_registry=schema_registry)
    if schema_registry is not None and payload != AS_THEY_ARE:
        raise KinspectError(f"schema_registry is for payload={AS_THEY_ARE!r}")
    registry = None if schema_registry is None else fspath(schema_registry)
    forms = PayloadForms(payload, open_decoder(registry))
    use_schema(schema)
    given = values_from(filters, {**FILTERS, **RECORD_FILTERS})
    exchanges: Any = {name: value for name, value in given.items() if name in FILTERS.keys() - SHARED}
    begin = _beginning(paths, more, exchanges, keylog, topic_names, names, decode_as, caps, LINES)
    begun = cache(begin)
    choice = RecordFilter(given, lambda: begun().filter.start, named)
    view = View(show_secrets=show_secrets)
    found = PassingRecords(view, choice, forms, once=once, control=control)
    return _records(begun, found)


def check(
    rules: str | PathLike[str] | Sequence[WireRule],
    paths: PythonInput,
    *more: Path,
    allow_unknown: bool = False,
    lacks: Iterable[str] = (),
    filter: Filters | None = None,
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    decode_as: int | Iterable[int] = (),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
) -> list[dict[str, Any]]:
    """The rows that `kinspect check --format jsonl` prints, one for each rule: `check("rules.toml", "capture.pcap")`.

    `rules`: the path of a file of rules (docs/check.md), or rules that were not used before. `allow_unknown`: the
    option of the command; `lacks`: what is missing in the captures without a trace in them. All others, and the errors,
    are as for `read`; raises `KinspectError` for wrong rules, too.
    """
    # Loaded when it is asked for.
    from kinspect.checks.checker import RuleChecker
    from kinspect.checks.rulesfile import load_rules

    _check_types(allow_unknown=allow_unknown)
    use_schema(schema)
    given = load_rules("rules", fspath(rules)) if isinstance(rules, str | PathLike) else rules
    checker = RuleChecker(given)
    run = _beginning(paths, more, filter, keylog, topic_names, names, decode_as, caps)()
    try:
        for line in run.all_lines():
            if isinstance(line, Exchange) and run.filter.matches(line):
                checker.take(line, run.filter.start)
    finally:
        run.packets.close()
    for error in run.packets.status.errors:
        raise error
    summary = {"unknown_to_filters": run.filter.unknown, **run.summary()}
    return checker.results(summary, lacks, allow_unknown=allow_unknown)


def own_options(
    name: str, given: Mapping[str, Any], keylog: str | PathLike[str] | bytes = b""
) -> dict[str, Any]:
    """The options of an answer's own, with what they say of a capture in place of its name. `keylog`: that capture's
    too. Raises KinspectError."""
    from kinspect.answers import definition_of

    def told(other: str, path: str) -> dict[str, Any]:
        return answer(other, path, keylog=keylog)

    readers = {
        option: own.read for option, own in definition_of(name).options.items() if own.read is not None
    }
    return {
        option: readers[option](value, told) if option in readers else value
        for option, value in given.items()
    }


def _beginning(
    paths: PythonInput,
    more: tuple[Path, ...],
    filter: Filters | None,
    keylog: str | PathLike[str] | bytes,
    topic_names: Mapping[str, str] | None,
    names: Mapping[str, str] | None,
    decode_as: int | Iterable[int],
    caps: Caps | None,
    emit: frozenset[str] = EXCHANGES_ONLY,
) -> Callable[[], Run]:
    """Check the options; return the function that opens the input."""
    _check_types(filter=filter, keylog=keylog, topic_names=topic_names, names=names, caps=caps)
    chosen, topics, ports = filter_from(filter or {}), _topic_names(topic_names or {}), _ports(decode_as)
    hosts = _hosts(names or {})
    text, file = (keylog, None) if isinstance(keylog, bytes) else (b"", KeyLogFile(fspath(keylog)))

    def begin() -> Run:
        given: Any = [paths, *more] if more else paths
        packets = open_input(given, (caps or Caps()).skew_ns)
        files = [printable(name) for name in packets.files]
        inspector = Inspector(names=topics, hosts=hosts, kafka_ports=ports, caps=caps, files=files, emit=emit)
        if text:
            inspector.add_secrets(text)
        # Those handed over are no file: the next packet may come much later.
        held_seconds = 0 if isinstance(packets, PythonPackets) else HELD_SECONDS
        return Run(
            packets,
            inspector,
            filter=chosen,
            keylog=file,
            late_secrets=file is not None,
            held_seconds=held_seconds,
        )

    return begin


class Reading(Iterator[Exchange]):
    """Iterator of the exchanges that `read` finds, and the summary of what was read.

    `close`, or the end of a `with` block, ends it before the end of the input.
    """

    def __init__(self, begin: Callable[[], Run], view: View) -> None:
        """`begin` opens the input; `view` has the options of `Exchange.to_dict`."""
        self._begun = cache(begin)
        self._tally = Tally(unchecked=True)
        self._exchanges = _exchanges(self._begun, self._tally, view)

    def __next__(self) -> Exchange:
        return next(self._exchanges)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the input. Connections are counted as far as they were read."""
        self._exchanges.close()

    @property
    def errors(self) -> list[CaptureError]:
        """Errors of inputs that could not be read at all, or not to the end, met so far; the first one is raised."""
        return [*self._begun().packets.status.errors]

    @property
    def summary(self) -> dict[str, Any]:
        """The `summary` line's object: the counts up to here, keys and meanings are in docs/output.md."""
        run = self._begun()
        self._tally.unknown, self._tally.twins = run.filter.unknown, run.filter.translations
        self._tally.first, self._tally.last = run.filter.start, run.last
        return self._tally.completed(run.summary())


def _exchanges(begun: Callable[[], Run], tally: Tally, view: View) -> Generator[Exchange]:
    run = begun()
    ended = False
    try:
        for line in run.all_lines():
            if isinstance(line, Exchange) and run.filter.matches(line):
                tally.shown += 1
                tally.count(line)
                line.view = view
                yield line
        ended = True
    finally:
        run.packets.close()
        if not ended:
            run.inspector.abandon()
    for error in run.packets.status.errors:
        raise error


def _records(begun: Callable[[], Run], records: PassingRecords) -> Generator[dict[str, Any]]:
    run = begun()
    chosen = run.filter
    # What it leaves out says something about others.
    chosen.exempt_all()
    try:
        for line in run.all_lines():
            if chosen.matches(line) if isinstance(line, Exchange) else chosen.matches_line(line):
                for rows in records.take(line, not chosen.let):
                    yield from rows
        for rows in records.finish():
            yield from rows
    finally:
        records.close()
        run.packets.close()
    for error in run.packets.status.errors:
        raise error


def use_schema(schema: str | PathLike[str] | None) -> None:
    """Lay message definitions over the table, for the whole process. Raises KinspectError."""
    _check_types(schema=schema)
    if schema is not None:
        from kinspect.protocol.overlay import lay_over

        lay_over(fspath(schema))


def _check_types(**options: Any) -> None:
    """Raise KinspectError for an option of a wrong type. Its value is not shown, because it may be a secret."""
    for name, value in options.items():
        expected, words = TYPES[name]
        if not isinstance(value, expected):
            raise KinspectError(f"{name}: cannot be of type {type(value).__name__}: give {words}")


def _fields(fields: str | Iterable[str] | None) -> list[str] | None:
    if fields is None:
        return None
    given = fields.split(",") if isinstance(fields, str) else _items(fields)
    if not all(isinstance(field, str) and field.strip() for field in given):
        raise KinspectError("fields: must be keys of lines, in a list or as text with commas")
    return [field.strip() for field in given]


def _items(value: Any) -> list[Any]:
    """The items of an iterable; of text and of anything else itself."""
    return [*value] if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]


def _topic_names(names: Mapping[str, str]) -> dict[str, str]:
    if not all(isinstance(text, str) for pair in names.items() for text in pair):
        raise KinspectError("topic_names: must be topic ids and names")
    return dict(names)


def _hosts(names: Mapping[str, str]) -> dict[HostPort, str]:
    if not names:
        return {}
    from kinspect.capture.hostfiles import host_names

    return host_names(names)


def _ports(ports: int | Iterable[int]) -> frozenset[int]:
    given = _items(ports)
    for port in given:
        if isinstance(port, bool) or port not in PORTS:
            raise KinspectError(
                f"decode_as: {port!r} is not a port: give numbers from {PORTS[0]} to {PORTS[-1]}"
            )
    return frozenset(given)
