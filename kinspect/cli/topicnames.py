"""The file of `--topic-names`: topic ids and their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

import orjson

from kinspect.capture.optionfile import quoted, read_option_file
from kinspect.errors import KinspectError

OPTION = "--topic-names"
MOST_BYTES = 16 << 20
"""Largest size of the file: enough for some 300,000 topics."""
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def load_topic_names(path: str) -> dict[str, str]:
    """The names by id: a JSON object, or a line `id name` each (`#` begins a comment)."""
    try:
        text = read_option_file(OPTION, path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise KinspectError(f"{OPTION}: {path}: is not UTF-8 text") from None
    pairs = _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)
    names = {}
    for topic_id, name in pairs:
        if not _TOPIC_ID.fullmatch(topic_id):
            raise KinspectError(
                f"{OPTION}: {path}: {quoted(topic_id)} is not a topic id (22 characters of base64url)"
            )
        names[topic_id] = name
    return names


def _from_json(path: str, text: str) -> Iterator[tuple[str, str]]:
    wrong = KinspectError(f"{OPTION}: {path}: must be an object of topic ids and names")
    # No name of a topic has brackets: anything nested need not be parsed to be refused.
    if text.count("{") > 1 or "[" in text:
        raise wrong
    try:
        names = orjson.loads(text)
    except ValueError as error:
        raise KinspectError(f"{OPTION}: {path}: is not JSON: {error}") from None
    for topic_id, name in names.items():
        if not isinstance(name, str):
            raise wrong
        yield topic_id, name


def _from_lines(path: str, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(StringIO(text), 1):
        words = line.split("#", 1)[0].split(maxsplit=2)
        if not words:
            continue
        if len(words) != 2:
            raise KinspectError(
                f"{OPTION}: {path}, line {number}: must be a topic id and a name, or one JSON object"
            )
        yield words[0], words[1]
