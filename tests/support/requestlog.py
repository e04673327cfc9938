"""Lines of a request log, a broker's or kinspect's, taken apart."""

import json
import re
from collections.abc import Iterator
from typing import Any

LINE = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}|-)\] DEBUG Completed request:(\{.*\}) \(kafka\.request\.logger\)\n?"
)

RENAMED = {"generationId": "generationIdOrMemberEpoch"}
"""Fields that Kafka has renamed since."""


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """The time of a line that kinspect wrote, and its object."""
    found = LINE.fullmatch(text)
    assert found is not None, text
    return found[1], json.loads(found[2])


def objects(log: str) -> Iterator[dict[str, Any]]:
    """The objects of the completed requests in a log, a broker's with its other lines or kinspect's."""
    for line in log.splitlines():
        _, found, text = line.partition("Completed request:")
        if found:
            yield json.JSONDecoder().raw_decode(text)[0]


def bodies(line: dict[str, Any]) -> tuple[Any, Any]:
    """Both bodies with today's names, without records: some accounts have their size, some have nothing of them."""
    return _without_records(line["request"]), _without_records(line["response"])


def _without_records(value: Any) -> Any:
    if isinstance(value, dict):
        kept = (
            item for item in value.items() if not item[0].endswith("SizeInBytes") and item != ("records", "")
        )
        return {RENAMED.get(key, key): _without_records(item) for key, item in kept}
    return [_without_records(item) for item in value] if isinstance(value, list) else value
