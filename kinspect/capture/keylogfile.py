"""The file of `--keylog`: TLS secrets, which a client may still be writing."""

from __future__ import annotations

from kinspect.capture.optionfile import read_option_file
from kinspect.errors import KinspectError

OPTION = "--keylog"
MOST_BYTES = 256 << 20
"""Largest number of bytes read at once: the secrets of 300,000 connections and more."""
BEGIN_BYTES = 4096


class KeyLogFile:
    """Reads a key log (NSS key log format), each time from the previous end on."""

    def __init__(self, path: str) -> None:
        """Raises KinspectError if the file cannot be read, or is no text."""
        self._path = path
        self._offset = 0
        # A last line without its end may go on: then it is read again.
        self._pending = self._read(all_of_it=True)
        self._closed = False
        if b"\0" in self._pending[:BEGIN_BYTES]:
            raise KinspectError(f"{OPTION}: {path}: is no text, so no key log (NSS key log format)")

    def more(self) -> bytes:
        """The whole lines added since the last call; at first, the whole text."""
        pending, self._pending = self._pending, b""
        return pending if self._closed else pending + self._read()

    def close(self) -> None:
        """Stop reading: lines written from now on are ignored."""
        self._closed = True

    def _read(self, all_of_it: bool = False) -> bytes:
        text = read_option_file(OPTION, self._path, MOST_BYTES, self._offset)
        whole = text.rfind(b"\n") + 1
        self._offset += whole
        return text if all_of_it else text[:whole]
