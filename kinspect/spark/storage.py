"""Where the captures of a Spark job lie: local paths and URLs, read from any offset."""

from __future__ import annotations

import glob
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import quote

from pyarrow import ArrowException, fs

from kinspect.capture.source import FileSource, Source, size_of
from kinspect.errors import CaptureError, KinspectError, UnreadableError
from kinspect.output.escape import printable

_WILD = frozenset("*?[")
# In a URL a question mark begins the settings of its file system.
_WILD_IN_URL = frozenset("*[")
# What Hadoop reads as one.
_PATTERN = frozenset("*?[]{}")
# What stands for itself in a path of a URL, beside letters and digits.
_AS_THEY_ARE = "-._~!$&'()*+,;=:@"


def expand(paths: list[str]) -> list[str]:
    """The captures that paths, globs and URLs name, in the order of the names; those of a glob sorted.

    Raises CaptureError for a glob that names nothing.
    """
    found: list[str] = []
    for path in paths:
        if is_url(path):
            matches = _url_glob(path)
        else:
            matches = (
                [path]
                if _WILD.isdisjoint(path) or os.path.exists(path)
                else sorted(glob.glob(path, recursive=True))
            )
        if not matches:
            raise CaptureError(f"{shown(path)}: no file has such a name")
        found += matches
    return found


def is_url(path: str) -> bool:
    return "://" in path


def shown(path: str) -> str:
    """How a capture is called in rows and messages: a path with U+FFFD for bytes that are no text, a URL without user,
    password and settings."""
    if not is_url(path):
        return printable(path)
    scheme, _, rest = path.partition("?")[0].partition("://")
    host, slash, name = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{name}"


def check_out(folder: str) -> None:
    """Raises KinspectError for a folder that Spark could write to, but not read again, and for one that is none."""
    if not is_url(folder):
        there = next(
            path for path in (Path(folder), *Path(folder).parents) if path.exists() or path == path.parent
        )
        if not there.is_dir() and there.exists():
            raise KinspectError(f"{folder}: {there} is no folder; choose another --out")
    if not _PATTERN.isdisjoint(folder):
        raise KinspectError(
            f"{shown(folder)}: Spark takes {' '.join(sorted(_PATTERN))} in a path for a pattern; choose another --out"
        )


class Listed(NamedTuple):
    """A file of a folder: its path, its bytes, and when it was last written, in nanoseconds since the epoch."""

    path: str
    size: int
    changed: int


def listing(folder: str) -> list[Listed]:
    """The files of a folder, but for hidden ones. Raises CaptureError."""
    try:
        if not is_url(folder):
            with os.scandir(folder) as entries:
                shown_ones = [entry for entry in entries if entry.is_file() and _is_shown(entry.name)]
            return [listed for entry in shown_ones if (listed := _listed(entry)) is not None]
        path, mark, settings = folder.partition("?")
        system, name = _file_system(folder)
        infos = system.get_file_info(fs.FileSelector(name))
    except (OSError, ArrowException) as error:
        raise _clear(folder, error) from error
    return [
        Listed(
            f"{path.rstrip('/')}/{_in_url(system, info.base_name)}{mark}{settings}",
            int(info.size),
            int(info.mtime_ns or 0),
        )
        for info in infos
        if info.type == fs.FileType.File and _is_shown(info.base_name)
    ]


def _listed(entry: os.DirEntry[str]) -> Listed | None:
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None  # Files of a ring go at any moment.
    return Listed(entry.path, status.st_size, status.st_mtime_ns)


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def length(path: str) -> int:
    """The bytes of a capture. Raises CaptureError if it cannot be looked at."""
    if not is_url(path):
        return size_of(path) or 0
    system, name = _file_system(path)
    try:
        info = system.get_file_info(name)
    except (OSError, ArrowException) as error:
        raise _clear(path, error) from error
    if info.type != fs.FileType.File:
        raise CaptureError(f"{shown(path)}: no such file")
    return int(info.size)


def open_at(path: str, offset: int) -> Source:
    """The capture from `offset` on; nothing is opened before the first read."""
    if is_url(path):
        return _Remote(path, offset)
    source = FileSource(path)
    source.position = offset
    return source


class Part:
    """A source: `prefix`, then the bytes of a capture from `start` to before `end` (None: to its end)."""

    def __init__(self, path: str, prefix: bytes, start: int, end: int | None) -> None:
        self.name = shown(path)
        self._prefix = prefix
        self._source = open_at(path, start)
        self._end = end

    @property
    def position(self) -> int:
        return self._source.position

    def read(self, size: int) -> bytes:
        if self._prefix:
            data, self._prefix = self._prefix[:size], self._prefix[size:]
            return data
        if self._end is not None:
            size = min(size, self._end - self._source.position)
        return self._source.read(size) if size > 0 else b""

    def release(self) -> None:
        self._source.release()

    def close(self) -> None:
        self._source.close()


class _Remote:
    """A file of an object store or HDFS."""

    def __init__(self, url: str, offset: int) -> None:
        self.name = shown(url)
        self._url = url
        self.position = offset
        self._file: BinaryIO | None = None

    def read(self, size: int) -> bytes:
        try:
            if self._file is None:
                system, name = _file_system(self._url)
                self._file = cast(BinaryIO, system.open_input_file(name))
                self._file.seek(self.position)
            data = self._file.read(size)
        except (OSError, ArrowException) as error:
            raise _clear(self._url, error) from error
        self.position += len(data)
        return data

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the name in it: PyArrow's own, for other schemes fsspec's."""
    try:
        return cast(tuple[Any, str], fs.FileSystem.from_uri(url))
    except (OSError, ArrowException) as error:
        try:
            import fsspec
        except ImportError:
            raise CaptureError(
                f"{shown(url)}: PyArrow cannot open it ({error}); with fsspec installed more kinds of URLs can be read"
            ) from error
    try:
        system, name = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise _clear(url, error) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), name


def _url_glob(url: str) -> list[str]:
    path, mark, settings = url.partition("?")
    if _WILD_IN_URL.isdisjoint(path):
        return [url]
    folder, _, pattern = path.rpartition("/")
    if not _WILD_IN_URL.isdisjoint(folder):
        raise CaptureError(f"{shown(url)}: only the last part of a URL can have wildcards")
    system, name = _file_system(folder + mark + settings)
    try:
        infos = system.get_file_info(fs.FileSelector(name))
    except (OSError, ArrowException) as error:
        raise _clear(folder, error) from error
    names = (info.base_name for info in infos if info.type == fs.FileType.File)
    return sorted(
        f"{folder}/{_in_url(system, name)}{mark}{settings}" for name in names if fnmatchcase(name, pattern)
    )


def _in_url(system: Any, name: str) -> str:
    """A file's name as a part of a URL: PyArrow takes URLs as RFC 3986 has them, fsspec takes names as they are."""
    return name if isinstance(system, fs.PyFileSystem) else quote(name, safe=_AS_THEY_ARE)


def _clear(path: str, error: Exception) -> UnreadableError:
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    return UnreadableError(f"{shown(path)}: cannot be read: {' '.join(text.split())}")
