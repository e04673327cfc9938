"""Resources that configs and ACLs belong to, by type and name (KIP-11, KIP-133, KIP-290)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from kinspect.protocol.schema import Field

TOPIC: Final = 2
"""Resource type of topics, in configs and in ACLs."""
BROKER_LOGGER: Final = 8
"""Resource type of a broker's loggers, whose configs are their levels."""
LITERAL: Final = 3
PREFIXED: Final = 4
ANY_NAME: Final = "*"
CONFIG_TYPES: Final = {
    TOPIC: "topic",
    4: "broker",
    BROKER_LOGGER: "broker logger",
    16: "client metrics",
    32: "group",
}
ACL_TYPES: Final = {
    1: "resource",
    TOPIC: "topic",
    3: "group",
    4: "cluster",
    5: "transactional id",
    6: "delegation token",
    7: "user",
}
TYPE_FIELD: Final = "resource_type"
"""Where messages about configs say what they belong to."""
_TYPE_FIELDS: Final = frozenset({TYPE_FIELD, "resource_type_filter"})
_NAME_FIELDS: Final = frozenset({"resource_name", "resource_name_filter"})
_PATTERN_FIELDS: Final = frozenset({"resource_pattern_type", "pattern_type", "pattern_type_filter"})


class ResourceFields(NamedTuple):
    """The fields of a struct that name a resource; `pattern` is empty where names are always literal."""

    type: str
    name: str
    pattern: str

    def topic(self, struct: dict[str, Any]) -> str | None:
        """The topic that the struct names; None for a prefix or an unknown pattern, all topics and other resources."""
        name: str | None = struct.get(self.name)
        pattern = struct.get(self.pattern) if self.pattern else LITERAL
        is_topic = struct.get(self.type) == TOPIC and pattern == LITERAL
        return name if is_topic and name and name != ANY_NAME else None

    def text(self, struct: dict[str, Any], types: dict[int, str]) -> str:
        """`broker 1`, `topic orders- (prefix)`, `any group`; not escaped. `types`: the names of types."""
        number, name = struct.get(self.type), struct.get(self.name)
        kind = types.get(number, f"resource of type {number}") if number is not None else "resource"
        if name is None:
            return f"any {kind}"
        prefix = " (prefix)" if struct.get(self.pattern) == PREFIXED else ""
        return f"{kind} {name}{prefix}".rstrip()


def is_name(field: Field) -> bool:
    """True for the name of a resource; its type stands before it."""
    return field.name in _NAME_FIELDS


def resource_fields(names: Collection[str]) -> ResourceFields | None:
    """The resource fields of a struct with fields of these names; None if it names no resource."""
    found = [
        next((name for name in names if name in known), "")
        for known in (_TYPE_FIELDS, _NAME_FIELDS, _PATTERN_FIELDS)
    ]
    return ResourceFields(found[0], found[1], found[2]) if found[0] and found[1] else None
