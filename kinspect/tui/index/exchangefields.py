"""An exchange as a tree of fields, each with the bytes it was read from."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from kinspect.kafka.bodysummary import ERRORS_SHOWN
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.placedbatches import placed_batches
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import RESPONSE
from kinspect.output.actions import refused
from kinspect.output.numbernames import number_name
from kinspect.protocol import interpreter, schema
from kinspect.protocol.interpreter import Span
from kinspect.tui.index import batches, hidden
from kinspect.tui.index.shownpayloads import ShownPayloads

SPANS_BYTES = 24 * 1024 * 1024
"""Memory for the byte ranges of a message's fields; fields beyond it have none."""
OPENED = 100
"""Approximate number of lines that an exchange is unfolded to at first."""
FAULTS_SHOWN = 10
"""Lines of errors, and of problems, before the rest of them folds into one."""
STRETCH = 1000
"""Most lines that unfold at once: a longer array is a list of stretches, each folded."""

EXCHANGE, HEADER, BODY = "exchange", "header", "body"
ERROR, PROBLEM = "error", "problem"
EXCHANGE_KEYS = """
    outcome outcome_reason latency_ms service_ms wait timestamp completed_at correlation_id kind
    api_candidates in_flight max_wait_ms throttle_time_ms tls client broker connection_id community_id topics
    topic_ids partitions groups transactional_ids record_count record_bytes
""".split()
_DERIVED = ("_decoded", "_size")


class TreeNode:
    """A line of the tree. `value`: a JSON value; `side`, `start` and `end`: the bytes it was read from, if any;
    `name`: the name of a number; `kind`: ERROR, PROBLEM, or empty; `stretch`: it is a part of an array, from the
    element `first` on; `bare`: its bytes were not looked for, as too many fields come before it; `payload`: it is, or
    stands in, a decoded payload, whose names are not Kafka's."""

    __slots__ = (
        "_children",
        "bare",
        "depth",
        "end",
        "first",
        "key",
        "kind",
        "name",
        "open",
        "parent",
        "path",
        "payload",
        "side",
        "start",
        "stretch",
        "type",
        "value",
    )

    def __init__(self, parent: TreeNode | None, key: str, value: Any, path: str = "", kind: str = "") -> None:
        self.parent = parent
        self.key = key
        self.value = value
        self.path = path
        self.kind = kind
        self.first = 0
        self.stretch = False
        self.bare = False
        self.payload: bool = parent is not None and parent.payload
        self.name: str | None = None
        self.type = ""
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.side: str = "" if parent is None else parent.side
        self.start: int = 0 if parent is None else parent.start
        self.end: int = 0 if parent is None else parent.end
        self.open = False
        self._children: list[TreeNode] | None = None

    @property
    def unfolds(self) -> bool:
        """True if it has lines below it."""
        if self._children is not None:
            return bool(self._children)
        if isinstance(self.value, dict):
            return bool(self.value)
        # The elements of an array are all of one kind.
        return isinstance(self.value, list) and bool(self.value) and isinstance(self.value[0], dict | list)

    def leads_to(self, path: str) -> bool:
        """True if the field of that path is this one, or below it."""
        if not path.startswith(self.path):
            return False
        rest = path[len(self.path) :]
        if self.stretch:
            index = int(rest[1 : rest.index("]")]) if rest.startswith("[") else -1
            return self.first <= index < self.first + len(self.value)
        return not rest or rest[0] in ".["

    def place(self, side: str, start: int, end: int, kind: str = "") -> None:
        """Set the bytes that it was read from."""
        self.side, self.start, self.end, self.type = side, start, end, kind or self.type


class ShownMessage:
    """A request or a response with its bytes. `hidden`: the ranges that are not drawn."""

    def __init__(self, message: WireMessage, header: list[Span], body: list[Span], all_spans: bool) -> None:
        self.raw = message.raw or b""
        self.direction = message.direction
        self.size = message.size
        self.kept = message.raw is not None
        self.header = header
        self.body = body
        self.all_spans = all_spans
        self.hidden: list[tuple[int, int]] = []
        self.inner: list[batches.BatchPart] = []
        """The parts of record sets, in order."""
        self.extents: dict[str, tuple[int, int, str]] = {}
        for span in body:
            self._extend(span)
        if body and not all_spans:
            self._forget(body[-1].path)
        self._starts = [span.start for span in (*header, *body)]
        self._spans = [*header, *body]

    def _extend(self, span: Span) -> None:
        """Note the span for its field, and for all that contain it."""
        known = self.extents.get(span.path)
        if known is None:
            self.extents[span.path] = span.start, span.end, span.type
        else:
            self.extents[span.path] = known[0], max(known[1], span.end), known[2]
        for path in _above(span.path):
            start, end, kind = self.extents.get(path, (span.start, span.end, ""))
            self.extents[path] = start, max(end, span.end), kind

    def _forget(self, path: str) -> None:
        """Remove the extents of the last field read and of all that contain it: their ends are not known."""
        for above in (path, *_above(path)):
            del self.extents[above]

    def is_hidden(self, offset: int) -> bool:
        """True if the byte is not drawn."""
        at = bisect_right(self.hidden, (offset, len(self.raw) + 1)) - 1
        return at >= 0 and self.hidden[at][0] <= offset < self.hidden[at][1]

    def path_at(self, offset: int) -> tuple[str, str] | None:
        """HEADER or BODY, and the path of the field that the byte belongs to; None if it belongs to none."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or not self._spans[at].start <= offset < self._spans[at].end:
            return None
        if at < len(self.header):
            return HEADER, self._spans[at].path
        within = bisect_right(self.inner, offset, key=lambda part: part.start) - 1
        if self._spans[at].type == hidden.RECORDS and within >= 0:
            part = self.inner[within]
            if part.start <= offset < part.end:
                return BODY, part.path
        return BODY, self._spans[at].path


class ExchangeFields:
    """The tree of an exchange. `lines` are the visible nodes, in order."""

    def __init__(self, exchange: Exchange, view: View, payloads: ShownPayloads | None = None) -> None:
        """`payloads`: converts those that the view shows. Raises KinspectError if that cannot be done."""
        self.exchange = exchange
        self.line = view.exchange(exchange)
        if payloads is not None:
            payloads.convert(self.line)
        self.messages: dict[str, ShownMessage] = {}
        for message in (exchange.request, exchange.response):
            if message is not None:
                self.messages[message.direction] = _read(exchange, message)
        for direction, read in self.messages.items():
            shown = self.line[direction]["body"]
            read.hidden = hidden.ranges(exchange, len(read.raw), read.header, read.body, shown, view)
        self._roots = [self._exchange_node(), *self._faults(), *map(self._message, self.messages)]
        self.lines: list[TreeNode] = [*self._roots]
        self._unfold_first()

    # ------------------------------------------------------------------ nodes

    def _exchange_node(self) -> TreeNode:
        line = self.line
        root = TreeNode(None, EXCHANGE, None)
        nodes = [TreeNode(root, key, line[key], key) for key in EXCHANGE_KEYS if line[key] not in (None, [])]
        root._children = nodes
        return root

    def _faults(self) -> Iterator[TreeNode]:
        """Nodes for the errors and problems, at the top level."""
        refusal = refused(self.exchange)
        if refusal is not None:
            node = TreeNode(None, ERROR, refusal, kind=ERROR)
            node.place(RESPONSE, 0, len(self.messages[RESPONSE].raw))
            yield node
        errors, problems = [*self._errors()], [*self._problems()]
        count = self.line["error_count"] if len(errors) == ERRORS_SHOWN else None
        yield from _folded(ERROR, errors, count or len(errors))
        yield from _folded(PROBLEM, problems, self.line["problem_count"])

    def _errors(self) -> Iterator[TreeNode]:
        for error in (self.line["response"] or {}).get("errors", ()):
            text = f"{error['name']} ({error['code']}) {error['path']}".rstrip()
            node = TreeNode(None, ERROR, text, kind=ERROR)
            message = self.messages.get(RESPONSE)
            path = f"{error['path']}.error_code" if error["path"] else "error_code"
            extent = (message.extents.get(path) or message.extents.get(error["path"])) if message else None
            if extent is not None:
                node.place(RESPONSE, *extent[:2])
            yield node

    def _problems(self) -> Iterator[TreeNode]:
        for problem in self.line["problems"]:
            node = TreeNode(None, PROBLEM, f"{problem['code']}: {problem['message']}", kind=PROBLEM)
            if problem["side"] in self.messages and problem["offset"] is not None:
                node.place(problem["side"], problem["offset"], problem["offset"] + (problem["bytes"] or 1))
            yield node

    def _message(self, direction: str) -> TreeNode:
        message, shown = self.messages[direction], self.line[direction]
        root = TreeNode(None, direction, None)
        root.place(direction, 0, len(message.raw))
        root.value = _message_text(shown, len(self.exchange.connection.files))
        body_start = message.header[-1].end if message.header else 0
        children = []
        if message.header:
            node = TreeNode(root, HEADER, None, HEADER)
            node.place(direction, 0, body_start)
            node._children = [self._header(node, span) for span in message.header]
            children.append(node)
        if shown["body"] is not None:
            node = TreeNode(root, BODY, shown["body"])
            node.place(direction, body_start, len(message.raw))
            children.append(node)
        elif message.kept:
            node = TreeNode(root, BODY, "not decoded")
            node.place(direction, body_start, len(message.raw))
            children.append(node)
        root._children = children
        return root

    @staticmethod
    def _header(parent: TreeNode, span: Span) -> TreeNode:
        value: Any = span.value.hex() if isinstance(span.value, bytes) else span.value
        node = TreeNode(parent, span.path, value, span.path)
        node.place(parent.side, span.start, span.end, span.type)
        if span.path == "request_api_key":
            node.name = schema.api_name(value)
        return node

    def children(self, node: TreeNode) -> list[TreeNode]:
        """The nodes below a node."""
        if node._children is None:
            node._children = list(self._made(node))
        return node._children

    def _made(self, parent: TreeNode) -> Iterator[TreeNode]:
        value, path = parent.value, parent.path
        if isinstance(value, list) and len(value) > STRETCH:
            yield from self._stretches(parent)
            return
        if isinstance(value, dict):
            items = [(key, f"{path}.{key}" if path else key, item) for key, item in value.items()]
        else:
            items = [
                (f"[{index}]", f"{path}[{index}]", item) for index, item in enumerate(value, parent.first)
            ]
        for key, below, item in items:
            node = TreeNode(parent, key, item, below)
            node.payload = parent.payload or (isinstance(value, dict) and f"{key}_encoding" in value)
            node.name = None if node.payload else number_name(key, item, self.exchange.api_key)
            extent = self._extent(parent.side, below) or self._extent(parent.side, _origin(below))
            if extent is not None:
                node.place(parent.side, *extent)
            elif parent.bare or (parent.key == BODY and self._ends_early(parent)):
                node.bare, node.end = True, node.start
            yield node

    def _stretches(self, parent: TreeNode) -> Iterator[TreeNode]:
        """Parts of an array, each of which unfolds to at most `STRETCH` lines."""
        value = parent.value
        step = STRETCH
        while step * STRETCH < len(value):
            step *= STRETCH
        for at in range(0, len(value), step):
            part = value[at : at + step]
            first, last = parent.first + at, parent.first + at + len(part) - 1
            node = TreeNode(parent, f"[{first}–{last}]", part, parent.path)
            node.first, node.stretch = first, True
            begin = self._extent(parent.side, f"{parent.path}[{first}]")
            end = self._extent(parent.side, f"{parent.path}[{last}]")
            if begin is not None and end is not None:
                node.place(parent.side, begin[0], end[1])
            else:
                node.bare = parent.bare
            yield node

    def _ends_early(self, body: TreeNode) -> bool:
        """True if not all fields of the body have their bytes."""
        return body.depth == 1 and not self.messages[body.side].all_spans

    def _extent(self, side: str, path: str) -> tuple[int, int, str] | None:
        message = self.messages.get(side)
        return None if message is None else message.extents.get(path)

    # ------------------------------------------------------------------ visible lines

    def _unfold_first(self) -> None:
        """Unfold the messages level by level, up to about `OPENED` lines."""
        level = [root for root in self._roots if root.key in self.messages]
        room = OPENED
        while level:
            below: list[TreeNode] = []
            for node in level:
                children = self.children(node) if node.unfolds else []
                if children and len(children) <= room:
                    room -= len(children)
                    node.open = True
                    below += children
            level = below
        self.lines = [line for root in self._roots for line in self._seen(root)]

    def _seen(self, node: TreeNode) -> Iterator[TreeNode]:
        yield node
        if node.open:
            for child in self.children(node):
                yield from self._seen(child)

    def toggle(self, place: int) -> None:
        """Fold or unfold the node on that line."""
        node = self.lines[place]
        if not node.unfolds:
            return
        if node.open:
            last = place + 1
            while last < len(self.lines) and self.lines[last].depth > node.depth:
                last += 1
            del self.lines[place + 1 : last]
            node.open = False
        else:
            node.open = True
            self.lines[place + 1 : place + 1] = [
                line for child in self.children(node) for line in self._seen(child)
            ]

    def walk(self) -> Iterator[tuple[tuple[int, ...], TreeNode]]:
        """All nodes from top to bottom, folded ones too; each with its place: the numbers of the nodes above it among
        those beside them, and its own. Nodes made for the walk are not kept."""
        return self._walk(self._roots, ())

    def _walk(
        self, nodes: list[TreeNode], above: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], TreeNode]]:
        for number, node in enumerate(nodes):
            places = (*above, number)
            yield places, node
            if node.unfolds:
                known = node._children is not None
                yield from self._walk(self.children(node), places)
                if not known and not node.open:
                    node._children = None

    def reveal(self, places: tuple[int, ...]) -> int:
        """The line of a node by its place, made visible by unfolding."""
        nodes = self._roots
        for number in places[:-1]:
            node = nodes[number]
            if not node.open:
                self.toggle(self.lines.index(node))
            nodes = self.children(node)
        return self.lines.index(nodes[places[-1]])

    def line_at(self, side: str, offset: int) -> int | None:
        """The line of the field that a byte belongs to, made visible by unfolding; None if it belongs to none."""
        found = self.messages[side].path_at(offset) if side in self.messages else None
        root = next((node for node in self._roots if node.key == side), None)
        if found is None or root is None:
            return None
        return self._shown_line(root, *found)

    def record_line(self, number: int) -> int | None:
        """The line of a record by its number in the exchange, made visible with what is below it."""
        for root in self._roots:
            body = self.line[root.key]["body"] if root.key in self.messages else None
            for where, batch in placed_batches(body):
                if number < len(batch["records"]):
                    path = f"{where['path']}.batches[{where['batch']}].records[{number}]"
                    place = self._shown_line(root, BODY, path)
                    if not self.lines[place].open:
                        self.toggle(place)
                    return place
                number -= len(batch["records"])
        return None

    def _shown_line(self, root: TreeNode, part: str, path: str) -> int:
        """The line of a field of a message, made visible by unfolding."""
        node = next((child for child in self.children(root) if child.key == part), None)
        chain = [root]
        while node is not None:
            chain.append(node)
            node = self._nearer(node, path)
        for above in chain[:-1]:
            if not above.open:
                self.toggle(self.lines.index(above))
        return self.lines.index(chain[-1])

    def _nearer(self, node: TreeNode, path: str) -> TreeNode | None:
        """The child that the path goes through."""
        for child in self.children(node) if node.unfolds else ():
            if child.leads_to(path):
                return child
        return None

    def root_line(self, side: str) -> int | None:
        """The first line of the request or the response."""
        return next(
            (place for place, node in enumerate(self.lines) if not node.depth and node.key == side), None
        )


def _folded(kind: str, nodes: list[TreeNode], total: int) -> Iterator[TreeNode]:
    """The first of many nodes, and one with the others below it, the last of which has the number left out."""
    yield from nodes[:FAULTS_SHOWN]
    rest = nodes[FAULTS_SHOWN:]
    if rest:
        fold = TreeNode(None, kind, f"{total - FAULTS_SHOWN:,} more", kind=kind)
        left = total - len(nodes)
        if left:
            rest.append(TreeNode(None, kind, f"and {left:,} more", kind=kind))
        for node in rest:
            node.parent, node.depth = fold, 1
        fold._children = rest
        yield fold


def _above(path: str) -> Iterator[str]:
    """The paths of the structs and arrays that contain a field, the nearest first."""
    while path := path[: path.rindex("[")] if path.endswith("]") else path.rpartition(".")[0]:
        yield path


def _origin(path: str) -> str:
    """The path of the field from which a key is derived."""
    return next((path.removesuffix(suffix) for suffix in _DERIVED if path.endswith(suffix)), path)


def _message_text(shown: dict[str, Any], files: int) -> str:
    """Text beside `request` or `response`; with several captures, it names the one in which frames are numbered."""
    frames = shown["frames"]
    first, last = frames["first"], frames["last"]
    frame = f"frame {first}" if first == last else f"frames {first}–{last}"
    if files > 1:
        frame += f" of {os.path.basename(frames['file'])}"
    layout = shown["layout"] and f"layout {shown['layout']}"
    notes = (layout, shown["inferred"] and "inferred", not shown["complete"] and "not complete")
    return ", ".join([f"{shown['size']} bytes", frame, *filter(None, notes)])


def _read(exchange: Exchange, message: WireMessage) -> ShownMessage:
    """The message with the spans of its header and body, as far as its layout is known."""
    if message.raw is None or message.api_key is None or message.api_version is None:
        return ShownMessage(message, [], [], True)
    raw = message.raw
    version = schema.header_version(message.api_key, message.api_version, message.direction)
    header = interpreter.interpret(
        schema.header_layout(message.direction, version), raw, 0, message.body_start, spans=True
    )
    layout = message.decode().layout
    if layout is None:
        return ShownMessage(message, header.spans, [], True)
    body = interpreter.interpret(
        layout, raw, message.body_start, len(raw), spans=True, max_memory=SPANS_BYTES
    )
    read = ShownMessage(message, header.spans, body.spans, not body.full)
    for span in body.spans:
        if span.type == hidden.RECORDS and span.value:
            read.inner += batches.parts(span)
            for part in batches.parts(span, shared=True):
                read.extents[part.path] = part.start, part.end, part.type
    return read
