"""What compression saves: a row for each topic, direction, client id and client address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kinspect.analysis.answer import ResultContext, Row
from kinspect.answers.celltexts import NOTE, known, listed, plain
from kinspect.answers.definition import Definition, Key
from kinspect.answers.topicsanswer import RECORD_APIS, USE_KEYS, Topics, TopicUse, reading_topic
from kinspect.kafka.bodysummary import RecordField, RecordRoom
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.records.compression import codec_name
from kinspect.records.recordsetreader import RecordSetReader
from kinspect.records.v2 import HEADER
from kinspect.wording import counted

_CODECS = {codec_name(codec): codec for codec in range(8)}


@dataclass(slots=True)
class Expansion(TopicUse):
    """`expanded`: bytes of the batches as if they were not compressed; `unexpanded`: batches of which that is not
    known."""

    expanded: int = 0
    unexpanded: int = 0


class TopicCompression(Topics):
    """Accumulator of the rows."""

    exempt_apis: ClassVar[Mapping[str, frozenset[int]]] = {"--topic": RECORD_APIS}
    row_keys: ClassVar[Mapping[str, tuple[str, ...]]] = {"--topic": ("topic", "topic_id")}
    use: ClassVar[type[TopicUse]] = Expansion

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key in RECORD_APIS:
            super().add(exchange)

    def _add_records(self, use: TopicUse, exchange: Exchange, room: RecordRoom, partition: Row) -> None:
        """Count and expand the batches of a partition's record set."""
        assert isinstance(use, Expansion)
        value = partition.get("records")
        if value is None:
            return
        counts = exchange.connection.counts
        found = RecordField(value, True, room, counts).batches()
        size, _, _ = room.left(False)
        reader = RecordSetReader(size, 0, 0, False)
        use.unexpanded += sum(problem.bytes is not None for problem in found.problems)
        use.expanded += found.expanded_bytes  # wrappers of magic 0 and 1
        for position, batch in found.placed():
            use.batches += 1
            use.bytes += batch["size"]
            self.count(use.codecs, batch["compression"])
            if batch["compression"] == "none":
                use.expanded += batch["size"]
            elif batch["magic"] < 2:
                use.unexpanded += batch["count"] is None
            else:
                use.expanded += HEADER.size
                content = value[position + HEADER.size : position + batch["size"]]
                # A batch that compaction emptied has no content, whatever its codec.
                if content and reader.expand(_CODECS[batch["compression"]], content, position) is None:
                    use.unexpanded += 1
        use.expanded += reader.result.expanded_bytes
        room.spend(False, reader.result, counts)

    def result(self, context: ResultContext) -> list[Row]:
        return sorted([_row(*named) for named in self._named(context)], key=_place)


def _row(key: tuple[Any, ...], topic_id: str | None, use: TopicUse) -> Row:
    assert isinstance(use, Expansion)
    topic, direction, client_id, client_ip = key
    batches = use.batches if topic is not None and (use.seen or use.batches or use.unexpanded) else None
    expanded = None if batches is None or use.unexpanded else use.expanded
    return {
        "topic": topic,
        "topic_id": topic_id,
        "direction": direction,
        "client_id": client_id,
        "client_ip": client_ip,
        "codecs": None if batches is None else dict(sorted(use.codecs.items())),
        "batches": batches,
        "bytes": None if batches is None else use.bytes,
        "expanded_bytes": expanded,
        "ratio": round(expanded / use.bytes, 3) if expanded and use.bytes else None,
        "saved_bytes": None if expanded is None else expanded - use.bytes,
        "unexpanded": None if batches is None else use.unexpanded,
        "incomplete": use.incomplete,
    }


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: the largest first."""
    names = row["topic"] or "", row["direction"] or "", row["client_id"] or "", row["client_ip"]
    return -(row["expanded_bytes"] or row["bytes"] or 0), -(row["bytes"] or 0), *names


ANSWER = Definition(
    TopicCompression,
    help="What compression saves, by topic and client.",
    page="d",
    page_help="what record batches take, compressed and expanded",
    columns=(
        *USE_KEYS,
        Key("client_ip", "text", "", "ADDRESS", plain, rank=4, opens="client-host"),
        Key("codecs", "counts", "Batches by compression", "CODECS", listed),
        Key(
            "batches", "long", "Whole batches on the wire, with rejected ones and retries", "BATCHES", rank=3
        ),
        Key("bytes", "long", "Bytes of these batches", "BYTES"),
        Key("expanded_bytes", "long", "Size of these batches without compression", "EXPANDED", rank=2),
        Key(
            "ratio",
            "double",
            "Expanded bytes for each byte on the wire",
            "RATIO",
            lambda ratio: known(ratio and f"{ratio:.2f}"),
            style=lambda row: NOTE if (row["ratio"] or 1) < 1 else "",
        ),
        Key(
            "saved_bytes",
            "long",
            "Expanded bytes less bytes on the wire; negative if compression enlarged them",
            "SAVED",
            rank=1,
        ),
        Key(
            "unexpanded",
            "long",
            "Batches that could not be expanded: damaged, of an unknown codec, or beyond the limit",
        ),
        Key("incomplete", "long", "Requests and responses that could not be read to their end"),
    ),
    identity="topic direction client_id",
    addresses="client_ip",
    compared="codecs",
    nothing="no record batches were produced or consumed",
    folds=lambda row: row["batches"] == 0 and not row["unexpanded"] and not row["incomplete"],
    folded=lambda rows: f"and {counted(len(rows), 'row')} without batches",
    more=lambda file, rows: f"{reading_topic(file, rows)} --records",
)
