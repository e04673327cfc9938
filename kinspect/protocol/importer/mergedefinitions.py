"""Merges one message's definitions from several releases, field by field, and stops where their bytes disagree."""

from __future__ import annotations

from collections.abc import Iterable

from kinspect.errors import KinspectError
from kinspect.protocol.tabletext import FieldDefinition, LayoutVariant, MessageDefinition


class ShapeConflictError(KinspectError):
    """Two releases give one version different bytes, and the table records no variant of it."""


def shape(fields: Iterable[FieldDefinition], version: int, flexible: bool) -> str:
    """Wire shape of one version, without nulls and tagged fields: equal text means compatible bytes."""
    parts = []
    for item in fields:
        if version not in item.versions or version in item.tagged:
            continue
        compact = "c" if flexible and item.compact else ""
        text = item.element
        if item.is_struct:
            inner = shape(item.fields, version, flexible)
            # A nullable struct has a marker in front; any other adds nothing of its own.
            marked = version in item.nullable and not item.is_array
            text = f"{'?' if marked else ''}({inner})"
        elif text in ("string", "bytes", "records"):
            # On the wire, records are bytes.
            text = compact + ("bytes" if text == "records" else text)
        parts.append(f"{compact}[{text}]" if item.is_array else text)
    return " ".join(parts) + (" T" if flexible else "")


def message_shape(message: MessageDefinition, version: int) -> str:
    return shape(message.fields, version, version in message.flexible)


def check_shared(known: MessageDefinition, other: MessageDefinition, release: str) -> frozenset[int]:
    """Versions that both messages have with the same bytes.

    A version whose bytes match a recorded variant is left out. Raises ShapeConflictError with both shapes for any other
    difference.
    """
    same = set()
    for version in sorted(known.versions & other.versions):
        ours, theirs = message_shape(known, version), message_shape(other, version)
        if ours == theirs:
            same.add(version)
            continue
        variants = (
            shape(variant.fields, version, variant.flexible)
            for variant in known.variants
            if variant.version == version
        )
        if theirs not in variants:
            raise ShapeConflictError(
                f"{known.name} version {version} differs:\n  table:     {ours}\n  {release}: {theirs}\n"
                "Record the older layout as a `variant` of this version, or correct the source."
            )
    return frozenset(same)


def unite(newer: MessageDefinition, older: MessageDefinition, shared: frozenset[int]) -> MessageDefinition:
    """Return `newer` with the versions that only `older` has; names, order and defaults are those of `newer`.

    `shared` are the versions of equal bytes. Raises ShapeConflictError if the result changed any version.
    """
    dropped = older.versions - newer.versions
    if not dropped:
        extra = _with_tags(newer.fields, older.fields, shared)
        return newer._replace(fields=extra, variants=_variants(newer, older))
    fields = _unite(newer.fields, older.fields, dropped, shared)
    result = newer._replace(
        versions=newer.versions | dropped,
        flexible=newer.flexible | (older.flexible & dropped),
        fields=_with_tags(fields, older.fields, shared),
        variants=_variants(newer, older),
    )
    for source, versions in ((newer, newer.versions), (older, dropped)):
        for version in sorted(versions):
            if message_shape(result, version) != message_shape(source, version):
                raise ShapeConflictError(f"{newer.name} version {version} cannot be united: fields moved")
    return result


def in_order(message: MessageDefinition, known: MessageDefinition) -> MessageDefinition:
    """The message with its fields in the order of `known`, unless a version would have other bytes."""
    ordered = message._replace(fields=_in_order(message.fields, known.fields))
    same = all(message_shape(ordered, one) == message_shape(message, one) for one in message.versions)
    return ordered if same else message


def _in_order(
    fields: tuple[FieldDefinition, ...], known: tuple[FieldDefinition, ...]
) -> tuple[FieldDefinition, ...]:
    """A field that is not known stands behind the one that it followed."""
    below = {item.name: item.fields for item in known}
    found = {
        item.name: item._replace(fields=_in_order(item.fields, below.get(item.name, ()))) for item in fields
    }
    order = [name for name in below if name in found]
    place = 0
    for name in found:
        if name not in below:
            order.insert(place, name)
        place = order.index(name) + 1
    return tuple(found[name] for name in order)


def _variants(newer: MessageDefinition, older: MessageDefinition) -> tuple[LayoutVariant, ...]:
    kept = {(variant.version, variant.releases): variant for variant in (*older.variants, *newer.variants)}
    return tuple(kept.values())


def _unite(
    newer: tuple[FieldDefinition, ...],
    older: tuple[FieldDefinition, ...],
    dropped: frozenset[int],
    shared: frozenset[int],
) -> tuple[FieldDefinition, ...]:
    """Extend `newer` to `dropped`; a field that only `older` has is inserted after the one it followed."""
    partners = _partners(newer, older, shared)
    result = {item.name: item for item in newer}
    order = [item.name for item in newer]
    place = 0
    for item in older:
        if not item.versions & dropped:
            continue
        name = partners.get(item.name, item.name)
        if name in result:
            result[name] = _stretch(result[name], item, dropped, shared)
            place = order.index(name) + 1
        else:
            result[name] = restricted(item, dropped)
            order.insert(place, name)
            place += 1
    return tuple(result[name] for name in order)


def _partners(
    newer: tuple[FieldDefinition, ...], older: tuple[FieldDefinition, ...], shared: frozenset[int]
) -> dict[str, str]:
    """Map older names to newer ones: in a version of equal bytes the same position (or tag) is the same field."""
    found: dict[str, str] = {}
    for version in sorted(shared):
        plain = [
            [item.name for item in fields if version in item.versions and version not in item.tagged]
            for fields in (older, newer)
        ]
        tags = [
            {item.tag: item.name for item in fields if version in item.tagged} for fields in (older, newer)
        ]
        found.update(zip(*plain, strict=True))
        found.update((name, tags[1][tag]) for tag, name in tags[0].items() if tag in tags[1])
    return found


def _stretch(
    item: FieldDefinition, older: FieldDefinition, dropped: frozenset[int], shared: frozenset[int]
) -> FieldDefinition:
    return item._replace(
        versions=item.versions | (older.versions & dropped),
        nullable=item.nullable | (older.nullable & dropped),
        tagged=item.tagged | (older.tagged & dropped),
        fields=_unite(item.fields, older.fields, dropped, shared & item.versions & older.versions),
    )


def restricted(item: FieldDefinition, versions: frozenset[int]) -> FieldDefinition:
    return item._replace(
        versions=item.versions & versions,
        nullable=item.nullable & versions,
        tagged=item.tagged & versions,
        fields=tuple(restricted(part, versions) for part in item.fields if part.versions & versions),
    )


def _with_tags(
    newer: tuple[FieldDefinition, ...], older: tuple[FieldDefinition, ...], shared: frozenset[int]
) -> tuple[FieldDefinition, ...]:
    """In shared versions, allow nulls that either of both allows, and keep tagged fields of either."""
    partners = _partners(newer, older, shared)
    theirs = {partners.get(item.name, item.name): item for item in older}
    result = []
    for item in newer:
        other = theirs.pop(item.name, None)
        if other is None:
            result.append(item)
            continue
        both = shared & item.versions & other.versions
        result.append(
            item._replace(
                nullable=item.nullable | (other.nullable & both),
                fields=_with_tags(item.fields, other.fields, both),
            )
        )
    result += [restricted(item, item.tagged & shared) for item in theirs.values() if item.tagged & shared]
    return tuple(result)
