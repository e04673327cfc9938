"""`--split topic`: rows in a file for each topic."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote

from kinspect.cli.outfile import Descriptor
from kinspect.errors import KinspectError
from kinspect.output.linesink import BATCH_BYTES, LineSink
from kinspect.ownfile import make, open_known, remake_in
from kinspect.sink import RunInput, Sink, SinkReport
from kinspect.wording import counted

MOST_FILES: Final = 10_000
"""Files that a run makes at most: which topics there are is what a capture says."""
MOST_WAITING: Final = 256 * BATCH_BYTES
"""Bytes that wait for their files, those of all topics."""
LONGEST: Final = 249
"""Characters of the longest name that a topic can have, and of a file's before its ending."""
_SHORTENED: Final = 200
_FOLDER_MODE: Final = 0o700


def file_name(row: dict[str, Any]) -> str:
    """The name of the file of a row's topic. What stands in no topic's name is escaped as in URLs, and a dot that would
    hide the file; `=` is only in names that are made here."""
    topic = row["topic"]
    name = f"id={row['topic_id'] or ''}" if topic is None else quote(topic, safe="", errors="replace")
    name = f"%2E{name[1:]}" if name.startswith(".") else name or "="
    if len(name) <= LONGEST:
        return name
    return f"{name[:_SHORTENED]}={blake2b(name.encode(), digest_size=16).hexdigest()}"


class TopicFiles(Sink):
    """Writes what `rows` makes of rows to files in a folder, each of which is open only while it is written to.

    `path`: the folder; `suffix`: what names end with; `replaces`: files of the same names are replaced. Else the folder
    must be empty, or not be there. Raises KinspectError for one that cannot be used.
    """

    def __init__(self, rows: LineSink, path: str, suffix: str, replaces: bool) -> None:
        self._rows, self._path, self._suffix, self._replaces = rows, path, suffix, replaces
        self._waiting: dict[str, list[bytes]] = {}
        self._bytes = self._left_out = 0
        # Whether there is a file of this name already.
        self._files: dict[str, bool] = {}
        try:
            with suppress(FileExistsError):
                os.mkdir(path, _FOLDER_MODE)
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            has_files = bool(os.listdir(self._folder))
        except OSError as error:
            raise KinspectError(f"-o: {path}: {error.strerror or error}") from None
        if has_files and not replaces:
            raise KinspectError(f"-o: {path}: is not empty; give --force to replace files of topics in it")

    def tell(self, row: dict[str, Any]) -> None:
        text = self._rows.other(row)
        if not text:
            return
        name = file_name(row)
        if name not in self._files:
            if len(self._files) == MOST_FILES:
                self._left_out += 1
                return
            self._files[name] = False
            text = self._rows.header + text
        self._waiting.setdefault(name, []).append(text)
        self._bytes += len(text)
        if self._bytes >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        for name, texts in waiting.items():
            file = Descriptor(self._open(name))
            file.ending = self._rows.ending
            try:
                file.write(b"".join(texts))
            finally:
                file.close()

    def _open(self, topic: str) -> int:
        name = topic + self._suffix
        try:
            if self._files[topic]:
                return open_known(name, self._folder, os.O_WRONLY | os.O_APPEND)
            self._files[topic] = True
            try:
                return make(name, folder=self._folder)
            except FileExistsError:
                if not self._replaces:
                    raise
                return remake_in(self._folder, name, name)
        except OSError as error:
            raise KinspectError(f"-o: {self._path}/{name}: {error.strerror or error}") from None

    def close(self, read: RunInput) -> SinkReport:
        told = [f"{counted(len(self._files), 'file')} written"]
        if self._left_out:
            told.append(f"left out by --split, as there are {MOST_FILES:,} files: {self._left_out:,}")
        return SinkReport(told + self._rows.close(read).messages)

    def discard(self) -> None:
        os.close(self._folder)
