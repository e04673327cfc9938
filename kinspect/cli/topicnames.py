"""The file of `--topic-names`: topic ids and their names."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kinspect.errors import KinspectError

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def load(path: str) -> dict[str, str]:
    """The names by id: a JSON object, or a line `id name` each (`#` begins a comment)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise KinspectError(f"--topic-names: {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise KinspectError(f"--topic-names: {path}: is not UTF-8 text") from None
    names = _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)
    for topic_id in names:
        if not _TOPIC_ID.fullmatch(topic_id):
            raise KinspectError(
                f"--topic-names: {path}: {topic_id!r} is not a topic id (22 characters of base64url)"
            )
    return names


def _from_json(path: str, text: str) -> dict[str, str]:
    try:
        names = json.loads(text)
    except ValueError as error:
        raise KinspectError(f"--topic-names: {path}: is not JSON: {error}") from None
    if not all(isinstance(name, str) for name in names.values()):
        raise KinspectError(f"--topic-names: {path}: must be an object of topic ids and names")
    return dict(names)


def _from_lines(path: str, text: str) -> dict[str, str]:
    names = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise KinspectError(
                f"--topic-names: {path}, line {number}: must be a topic id and a name, or one JSON object"
            )
        names[words[0]] = words[1]
    return names
