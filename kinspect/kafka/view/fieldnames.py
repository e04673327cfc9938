"""Names that bodies can have in JSON: the fields of every message, and keys derived from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import Final

from kinspect.errors import KinspectError
from kinspect.kafka.view.fieldselection import DECODED, SIZE, Tree
from kinspect.model import REQUEST
from kinspect.protocol import schema
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.primitives import UNKNOWN_TAGS
from kinspect.protocol.tabletext import MessageDefinition
from kinspect.wording import did_you_mean

SUFFIXES: Final = (DECODED, SIZE)
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
        if not is_one_of(name, names()):
            close = did_you_mean(name, zip(names(), names(), strict=True))
            hint = close or "see `kinspect schema API --version N`"
            raise KinspectError(f"unknown field '{prefix}.{name}': no message has such a field; {hint}")
        check_names(below, f"{prefix}.{name}")


def is_one_of(name: str, known: Collection[str]) -> bool:
    """True if a name is one of those known, without one of `SUFFIXES` or with it."""
    stems = (name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix))
    return name in known or any(stem in known for stem in stems)


@cache
def names() -> frozenset[str]:
    """All names but for those with one of `SUFFIXES`. Reads the whole schema table."""
    messages = [message for api in schema.apis() for message in (api.request, api.response)]
    return _names_in([*messages, *(message for file in schema.record_files().values() for message in file)])


def names_of(apis: Iterable[schema.Api], side: str) -> frozenset[str]:
    """The names in the requests or responses (`side`) of some APIs, of all versions, and those of `DERIVED`."""
    return _names_in(api.request if side == REQUEST else api.response for api in apis)


def _names_in(messages: Iterable[MessageDefinition]) -> frozenset[str]:
    layouts = [
        fields for message in messages for fields in (message.fields, *(v.fields for v in message.variants))
    ]
    return DERIVED.union(
        schema.snake_case(each.name) for fields in layouts for _, each, _ in each_field(fields)
    )
