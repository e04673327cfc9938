"""Captures by local path or URL, read from any offset."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pyarrow import ArrowException, NativeFile, fs

from kinspect.capture.source import input_size, unreadable
from kinspect.errors import CaptureError, KinspectError, UnreadableError
from kinspect.extras import need
from kinspect.output.escape import printable
from kinspect.tables.parquet import OpenFile
from kinspect.tables.tablenames import DELTA, PARQUET

_WILD = frozenset("*?[")
# In a URL a question mark begins the settings of its file system.
_WILD_IN_URL = frozenset("*[")
# Characters of Hadoop's path patterns.
_PATTERN = frozenset("*?[]{}")
# User and password. A password may have a slash, but a port (digits and a slash) is none.
_USER = re.compile(r"^([^/@:]*:(?!\d*/).*?@|[^/]*@)")
# Characters that need no escape in a URL's path (RFC 3986 pchar), beside letters and digits.
_AS_THEY_ARE = "-._~!$&'()*+,;=:@"
_OBJECTS = "s3"
_STORES = {
    PARQUET: {"file": "a disk", "hdfs": "hdfs://"},
    DELTA: {"file": "a disk", _OBJECTS: "s3://"},
}
"""Stores of tables by format, by the scheme of their URLs. PyArrow writes to them; where Parquet is put in place a file
is renamed in one step, and in object stores a log of Delta Lake has a new version by a conditional put."""


def expand(paths: list[str]) -> list[str]:
    """Paths of the captures that paths, globs and URLs name, in that order; matches of a glob are sorted.

    Raises CaptureError for a glob without matches.
    """
    found: list[str] = []
    for path in paths:
        if is_url(path):
            matches = _url_glob(path)
        elif _WILD.isdisjoint(path) or os.path.exists(path):
            matches = [path]
        else:
            matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise CaptureError(f"{shown(path)}: no file has such a name")
        found += matches
    return found


def is_url(path: str) -> bool:
    return "://" in path


def everywhere(path: str) -> str:
    """The path in a form that does not depend on the working directory: absolute, or a URL."""
    return path if is_url(path) else os.path.abspath(path)


def shown(path: str) -> str:
    """Name of a capture in rows and messages: a path with U+FFFD for bytes that are no text, a URL without user,
    password and settings."""
    if not is_url(path):
        return printable(path)
    scheme, _, rest = path.partition("?")[0].partition("://")
    return f"{scheme}://{_USER.sub('', rest, 1)}"


def check_store(folder: str, scheme: str, table_format: str) -> None:
    """Raises KinspectError if tables of a format cannot be put in place in a store, by the scheme of its URLs."""
    if scheme not in _STORES[table_format]:
        stores = " or ".join(_STORES[table_format].values())
        raise KinspectError(
            f"{shown(folder)}: {scheme} is no store for tables of the format {table_format}, which need {stores};"
            " choose another --out"
        )


def check_out(folder: str, table_format: str) -> None:
    """Raises KinspectError for an output path that is not a folder, for one that Spark would read as a pattern, and for
    one in a store where tables of the format cannot be put in place; and if what the format needs is not installed."""
    if table_format == DELTA:
        need(DELTA, f"--table-format {DELTA}")
    if not is_url(folder):
        there = next(
            path for path in (Path(folder), *Path(folder).parents) if path.exists() or path == path.parent
        )
        if not there.is_dir() and there.exists():
            raise KinspectError(f"{folder}: {there} is no folder; choose another --out")
    if is_url(folder):
        check_store(folder, _scheme(folder), table_format)
    if is_object_store(folder):
        _check_place(folder)
        delta_options(folder)
    elif not _PATTERN.isdisjoint(folder):
        raise KinspectError(
            f"{shown(folder)}: Spark takes {' '.join(sorted(_PATTERN))} in a path for a pattern; choose another --out"
        )


def _check_place(url: str) -> None:
    """Raises KinspectError for a URL in a store that PyArrow and delta-rs would read as two places."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/").removesuffix("/")
    names = path.split("/") if path else []
    strange = any(name in ("", ".", "..") or not {"#", "?"}.isdisjoint(name) for name in names)
    if strange or parts.fragment or not url.startswith(f"{_OBJECTS}://"):
        raise KinspectError(
            f"{shown(url)}: is no folder as {_OBJECTS}://bucket/folder, without # and ?, and names that are empty,"
            " . or .."
        )


def check_checkpoint(out: str, checkpoint: str | None) -> None:
    """Raises KinspectError unless a stream has one place for its checkpoint."""
    if is_object_store(out) and checkpoint is None:
        raise KinspectError(
            f"{shown(out)}: is no place for the checkpoint of a stream; name a folder on a disk by --checkpoint"
        )
    if checkpoint is not None and is_object_store(checkpoint):
        raise KinspectError(
            f"{shown(checkpoint)}: Spark renames files of a checkpoint; name a folder on a disk"
        )
    if checkpoint is not None and not is_object_store(out):
        raise KinspectError(f"{shown(checkpoint)}: --checkpoint is for an --out in an object store")


def is_object_store(folder: str) -> bool:
    """True for a URL of a store that does not rename in one step, in which tables count by their logs."""
    return is_url(folder) and _scheme(folder) == _OBJECTS


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def delta_options(url: str) -> dict[str, str]:
    """What delta-rs must know of a store, by its URL for PyArrow. Raises KinspectError for a setting that delta-rs has
    not."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    if unknown := given.keys() - {"endpoint_override", "region", "scheme"}:
        raise KinspectError(f"{shown(url)}: {min(unknown)} is no setting of an --out; leave it away")
    scheme, place = given.get("scheme", "https"), given.get("endpoint_override")
    found = {
        # Of two that write the same version of a log, one is refused.
        "AWS_CONDITIONAL_PUT": "etag",
        "AWS_ENDPOINT_URL": place and (place if is_url(place) else f"{scheme}://{place}"),
        "AWS_ALLOW_HTTP": "true" if scheme == "http" else None,
        "AWS_REGION": given.get("region"),
        "AWS_ACCESS_KEY_ID": parts.username and unquote(parts.username),
        "AWS_SECRET_ACCESS_KEY": parts.password and unquote(parts.password),
    }
    return {name: value for name, value in found.items() if value}


class Target(NamedTuple):
    """A folder for files of tables: the URL of its store, None for disks, and its path there."""

    store: str | None
    path: str


def opening_in(target: Target) -> OpenFile:
    """Makes files in a folder of a store. Raises CaptureError for a store that PyArrow does not know."""
    system = system_of(target)
    has_folders = target.store is None or not is_object_store(target.store)

    def open_file(*names: str) -> NativeFile:
        path = "/".join((target.path, *names))
        if has_folders:
            system.create_dir(path.rpartition("/")[0])
        return system.open_output_stream(path)

    return open_file


@contextmanager
def written_to(target: Target) -> Iterator[None]:
    """Context in which errors of writing are KinspectErrors."""
    try:
        yield
    except (OSError, ArrowException) as error:
        raise KinspectError(f"{target.path}: cannot be written: {_told(error)}") from error


class ListedFile(NamedTuple):
    """A file of a folder: name, path, size in bytes, and time of the last write in ns since the epoch."""

    name: str
    path: str
    size: int
    changed: int


def listing(folder: str) -> list[ListedFile]:
    """Files of a folder without hidden ones. Raises CaptureError."""
    if is_url(folder):
        return [file for file in _files(folder) if _is_shown(file.name)]
    try:
        with os.scandir(folder) as entries:
            return [file for file in map(_listed, entries) if file is not None]
    except OSError as error:
        raise _clear(folder, error) from error


def _listed(entry: os.DirEntry[str]) -> ListedFile | None:
    try:
        if _is_shown(entry.name) and entry.is_file():
            status = entry.stat()
            return ListedFile(entry.name, entry.path, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        pass  # A ring may delete files at any moment.
    return None


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def _files(folder: str) -> Iterator[ListedFile]:
    """Files of the folder that a URL names."""
    path, mark, settings = folder.partition("?")
    try:
        system, name = file_system(folder)
        found = system.get_file_info(fs.FileSelector(name))
    except (OSError, ArrowException) as error:
        raise _clear(folder, error) from error
    # PyArrow takes escaped URLs (RFC 3986), fsspec takes names as they are.
    safe = None if isinstance(system, fs.PyFileSystem) else _AS_THEY_ARE
    for info in found:
        if info.type == fs.FileType.File:
            name = info.base_name if safe is None else quote(info.base_name, safe=safe)
            url = f"{path.rstrip('/')}/{name}{mark}{settings}"
            yield ListedFile(info.base_name, url, int(info.size), int(info.mtime_ns or 0))


def length(path: str) -> int:
    """Size of a capture in bytes. Raises CaptureError if the system cannot know."""
    if not is_url(path):
        return input_size(path) or 0
    system, name = file_system(path)
    try:
        info = system.get_file_info(name)
    except (OSError, ArrowException) as error:
        raise _clear(path, error) from error
    if info.type != fs.FileType.File:
        raise CaptureError(f"{shown(path)}: no such file")
    return int(info.size)


class CaptureBytes:
    """Source of `prefix` and then the bytes of a capture from offset `start` to before `end` (None: to its end).

    The capture is opened at the first read.
    """

    def __init__(self, path: str, prefix: bytes = b"", start: int = 0, end: int | None = None) -> None:
        self.name = shown(path)
        self.position = start
        self._path = path
        self._prefix = prefix
        self._end = end
        self._file: BinaryIO | None = None

    def read(self, size: int) -> bytes:
        if self._prefix:
            data, self._prefix = self._prefix[:size], self._prefix[size:]
            return data
        if self._end is not None:
            size = min(size, self._end - self.position)
        if size <= 0:
            return b""
        try:
            self._file = self._file or self._open()
            data = self._file.read(size)
        except (OSError, ArrowException) as error:
            told = _clear if is_url(self._path) else unreadable
            raise told(self.name, error) from error
        self.position += len(data)
        return data

    def _open(self) -> BinaryIO:
        system, name = file_system(self._path) if is_url(self._path) else (None, self._path)
        file = FileIO(name) if system is None else system.open_input_file(name)
        if self.position:
            file.seek(self.position)
        return cast(BinaryIO, file)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    release = close


def system_of(target: Target) -> fs.FileSystem:
    """File system of a folder for files of tables. Raises CaptureError for a store that PyArrow does not know."""
    return fs.LocalFileSystem() if target.store is None else file_system(target.store)[0]


def file_system(url: str) -> tuple[Any, str]:
    """File system of a URL, by PyArrow or for other schemes by fsspec, and the path in it."""
    try:
        return cast(tuple[Any, str], fs.FileSystem.from_uri(url))
    except (OSError, ArrowException) as error:
        try:
            import fsspec
        except ImportError:
            told = str(error).replace(url, shown(url))
            raise CaptureError(
                f"{shown(url)}: PyArrow cannot open it ({told}); with fsspec installed more kinds of URLs can be read"
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
    files = _files(folder + mark + settings)
    return sorted(file.path for file in files if fnmatchcase(file.name, pattern))


def _told(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _clear(path: str, error: Exception) -> UnreadableError:
    text = " ".join(_told(error).replace(path, shown(path)).split())
    return UnreadableError(f"{shown(path)}: cannot be read: {text}")
