"""Names that bodies can have in JSON: the fields of every message, and keys derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from kinspect.errors import KinspectError
from kinspect.kafka.view.fieldselection import DECODED, SIZE, Tree
from kinspect.model import REQUEST
from kinspect.protocol import schema
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.primitives import UNKNOWN_TAGS
from kinspect.protocol.tabletext import FieldDefinition, MessageDefinition
from kinspect.wording import did_you_mean

SUFFIXES: Final = (DECODED, SIZE)
OF_STRUCTS: Final = ("topic_name_resolved", UNKNOWN_TAGS)
"""Names that any struct may have."""
RECORDS: Final = "records"
DERIVED_TYPE: Final = ""
DERIVED: Final = frozenset(
    # Record sets, batches and records; decoded bytes, the message inside an Envelope, and pushed metrics.
    f"""
    topic_name_resolved {UNKNOWN_TAGS} tag bytes
    batches partial_bytes base_offset last_offset magic compression count size crc_ok timestamp_type
    base_timestamp_ms max_timestamp_ms delete_horizon_ms producer_id producer_epoch base_sequence
    partition_leader_epoch is_transactional is_control records offset timestamp_ms key key_encoding value
    value_encoding headers
    type version data api api_key api_version correlation_id client_id body
    resource scope metric temporality monotonic unit points attributes start_time_ns time_ns histogram
    """.split()
)


def check_names(tree: Tree, prefix: str) -> None:
    """Raise KinspectError for a name in the tree that no body has. `prefix`: the tree's path (`request.body`)."""
    for name, below in tree.items():
        if not _is_known(name):
            close = did_you_mean(name, zip(names(), names(), strict=True))
            hint = close or "see `kinspect schema API --version N`"
            raise KinspectError(f"unknown field '{prefix}.{name}': no message has such a field; {hint}")
        check_names(below, f"{prefix}.{name}")


def _is_known(name: str) -> bool:
    stems = (name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix))
    return name in names() or any(stem in names() for stem in stems)


@cache
def names() -> frozenset[str]:
    """All names but for those with one of `SUFFIXES`. Reads the whole schema table."""
    messages = [message for api in schema.apis() for message in (api.request, api.response)]
    messages += [message for file in schema.record_files().values() for message in file]
    return DERIVED.union(
        schema.snake_case(each.name)
        for message in messages
        for fields in _layouts(message)
        for _, each, _ in each_field(fields)
    )


def types_at(apis: Iterable[schema.Api], side: str, path: Sequence[str]) -> set[str]:
    """Types of the field at a path from the bodies of requests or responses (`side`), as definitions have them without
    `[]`, in all versions of some APIs; none if there is no such field. `DERIVED_TYPE` is that of what kinspect adds."""
    messages = (api.request if side == REQUEST else api.response for api in apis)
    return {kind for message in messages for fields in _layouts(message) for kind in _types(fields, path)}


def _layouts(message: MessageDefinition) -> Iterator[Sequence[FieldDefinition]]:
    yield message.fields
    yield from (variant.fields for variant in message.variants)


def _types(fields: Sequence[FieldDefinition], path: Sequence[str]) -> Iterator[str]:
    name, *below = path
    if name in OF_STRUCTS:
        yield DERIVED_TYPE
    for field in fields:
        own = schema.snake_case(field.name)
        if name == own and field.fields and below:
            yield from _types(field.fields, below)
        elif name == own and (not below or field.element == RECORDS):
            yield DERIVED_TYPE if below else field.element
        elif name in (own + DECODED, own + SIZE):
            yield DERIVED_TYPE
