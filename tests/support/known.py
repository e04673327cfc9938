"""Unexpected contents of the captures, each with its reason."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from support.lines import Line
from support.manifest import Row

UNANSWERED = frozenset({"capture_end", "closed", "reset"})
"""Reasons that are the clients' and brokers' own: they close, or the recording ends, with requests in flight."""

ORPHANS = {
    "web_java": "a web server answers",
    "sarama": "begins with stray packets of connections from before the recording",
    "console-none": "begins with stray packets of connections from before the recording",
    "realmid": "begins with an answer to a request from before the recording",
    "midstream": "begins with an answer to a request from before the recording",
}


class Explained(NamedTuple):
    """A problem that is right to be reported. None stands for any capture, `bytes` or correlation id."""

    reason: str
    capture: str | None
    api: str | None
    code: str
    bytes: int | None = None
    correlation_id: int | None = None


PROBLEMS = (
    Explained("librdkafka 1.0.1 sends four bytes too many", None, "ApiVersions", "trailing_bytes", 4),
    Explained(
        "librdkafka 2 closes a third struct that is not there",
        None,
        "AlterUserScramCredentials",
        "trailing_bytes",
        1,
    ),
    Explained("a wrong CRC on purpose", "errors", "Produce", "crc_mismatch", correlation_id=2),
    Explained("version 99 on purpose", "raw", "ApiVersions", "unknown_version", correlation_id=991),
    Explained("key 999 on purpose", "raw", None, "unknown_api", correlation_id=1002),
    Explained("a web server answers", "web_java", None, "cap"),
    Explained(
        "an array longer than its message on purpose", "raw", "Metadata", "malformed", correlation_id=1003
    ),
)


def short_name(row: Row) -> str:
    """The capture's name without folder, scenario number, recording's suffix and extension."""
    name = row.file.rsplit("/", 1)[-1].split(".pcap")[0]
    return re.sub(r"^(?:s\d+_|k\d+-)|_p[a-g]$", "", name)


def explains_problem(row: Row, line: Line, problem: dict[str, Any]) -> bool:
    if problem["code"] == "negative_latency":
        return bool(
            re.search("swapped|delayed", row.what)
        )  # packets change places, and their times with them
    if problem["code"] == "truncated_capture":
        return row.is_cut
    name = short_name(row)
    return any(
        entry.capture in (None, name)
        and entry.api == line["api"]
        and entry.code == problem["code"]
        and entry.bytes in (None, problem["bytes"])
        and entry.correlation_id in (None, line["correlation_id"])
        for entry in PROBLEMS
    )
