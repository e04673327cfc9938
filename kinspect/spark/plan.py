"""From the index of the captures to what tasks are told."""

from __future__ import annotations

from kinspect.model import Caps
from kinspect.spark.index import Index
from kinspect.spark.strand import Setting


def setting_of(
    index: Index,
    caps: Caps,
    emit: frozenset[str],
    *,
    names: dict[str, str] | None = None,
    keylog: bytes = b"",
    kafka_ports: frozenset[int] = frozenset(),
    heads_only: bool = False,
) -> Setting:
    """What all tasks of a run are told; `keylog`: TLS secrets beside those that the captures hold."""
    return Setting(
        caps=caps,
        files=index.files,
        clock=index.clock,
        places=index.places,
        last=index.last,
        emit=emit,
        names=names or {},
        kafka_ports=kafka_ports,
        secrets=[text for text in (keylog, *index.secrets) if text],
        heads_only=heads_only,
    )
