"""The table of clients that a release breaks."""

from __future__ import annotations

from kinspect.output.answers.clientslayout import reading, software
from kinspect.output.answers.layout import ERROR, NOTE, AnswerLayout, known, listed
from kinspect.output.columns import Column, Row

STYLES = {"breaks": ERROR, "unknown": NOTE}


def _used(found: Row) -> str:
    used = "".join(f" {version}" for version in found["used"])
    supported = "-".join(map(str, found["supported"])) or "none"
    return f"{found['api']}{used} (has {supported})"


def _formats(row: Row) -> str:
    return listed(
        [f"{found['release']} {found['api']} {found['version']}" for found in row["down_conversion"]], 2
    )


def _more(file: str, rows: list[Row]) -> str:
    first = rows[0]
    return reading(file, first["client_id"], first["breaks"][0]["api"] if first["breaks"] else None)


LAYOUT = AnswerLayout(
    (
        Column("VERDICT", lambda row: row["verdict"], style=lambda row: STYLES.get(row["verdict"], "")),
        Column("CLIENT ID", lambda row: known(row["client_id"])),
        Column("ADDRESS", lambda row: row["client_ip"], rank=3),
        Column("SOFTWARE", software, rank=2, least=24),
        Column("TO", lambda row: row["to"], rank=4),
        Column("REQUESTS", lambda row: known(row["requests"]), True, rank=5),
        Column("BREAKS", lambda row: listed([_used(found) for found in row["breaks"]], 4), least=40),
        Column("RECORDS", _formats, rank=1),
    ),
    "no client was seen",
    _more,
)
