"""The table of clients."""

from __future__ import annotations

from shlex import quote

from kinspect.output.answers.layout import ERROR, AnswerLayout, known, listed
from kinspect.output.columns import Column, Row


def software(row: Row) -> str:
    """The software of a client; a guess has a question mark."""
    named = " ".join(filter(None, (row["software_name"], row["software_version"])))
    guess = row.get("software_inferred")
    return named or (f"{guess}?" if guess else "")


def _storms(row: Row) -> str:
    return ", ".join(_storm(storm) for storm in row["storms"])


def _storm(storm: Row) -> str:
    over = f" over {storm['addresses']:,} addresses" if storm["addresses"] > 1 else ""
    return f"{storm['api']} {storm['per_second']:.1f}/s{over}"


def _login(row: Row) -> str:
    return " ".join(
        filter(None, (row["principal"], ",".join(row["sasl_mechanisms"]), "TLS" if row["tls"] else ""))
    )


def _errors(row: Row) -> str:
    counts: dict[str, int] = {}
    for api in row["apis"].values():
        for name, times in api["errors"].items():
            counts[name] = counts.get(name, 0) + times
    return listed(dict(sorted(counts.items(), key=lambda item: -item[1])), 2)


def _apis(row: Row) -> str:
    return listed({name: api["requests"] for name, api in row["apis"].items()}, 4)


def reading(file: str, client_id: str | None, api: str | None) -> str:
    """The command that shows what a client sent."""
    client = "" if client_id is None else f" --client-id {quote(client_id)}"
    return f"kinspect read {file}{client}" + (f" --api {quote(api)}" if api else "")


def _more(file: str, rows: list[Row]) -> str:
    first = rows[0]
    return reading(file, first["client_id"], first["storms"][0]["api"] if first["storms"] else None)


LAYOUT = AnswerLayout(
    (
        Column("CLIENT ID", lambda row: known(row["client_id"])),
        Column("ADDRESS", lambda row: row["client_ip"], rank=3),
        Column("STORMS", _storms, style=lambda _: ERROR),
        Column("ROLE", lambda row: known(row["role"]), rank=1),
        Column("SOFTWARE", software, rank=1, least=24),
        Column("CONNS", lambda row: known(row["connections"]), True, rank=5),
        Column("RESETS", lambda row: known(row["resets"]), True, rank=4),
        Column("REQUESTS", lambda row: known(row["requests"]), True),
        Column("SENT", lambda row: known(row["bytes_sent"]), True, rank=6),
        Column("RECEIVED", lambda row: known(row["bytes_received"]), True, rank=6),
        Column("ERRORS", _errors, rank=2, style=lambda _: ERROR, least=20),
        Column("LOGIN", _login, rank=7),
        Column("APIS", _apis, rank=8),
    ),
    "no client was seen",
    _more,
)
