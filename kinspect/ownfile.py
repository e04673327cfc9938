"""Files that are written to, opened one way: nobody who may put something into their folder chooses where data goes.

No symbolic link is followed. What stood there before must be a regular file of this user's, without a second name.
Pipes and devices are written to only if they are named as such. Errors are OSErrors; their texts say what to do.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBADF, EPERM
from typing import NamedTuple

PRIVATE = 0o600
"""Mode of what is written: captures hold other people's data, perhaps with the secrets to read it."""

_NEW = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# So does a pipe put there meanwhile hold nothing up, and no terminal becomes this process's.
_KNOWN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_STREAMS = re.compile(r"/dev/(?:std(out|err)|fd/(\d+))|/proc/self/fd/(\d+)")
_DEVICES = "/dev/"
_NO_FILE = {
    stat.S_IFLNK: "is a symbolic link: name the file itself",
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a pipe: give --force to write into it",
}


class OpenedFile(NamedTuple):
    """What output goes to. `own`: it is a regular file of the name that was given, not a pipe, device or stream;
    `made`: it was not there before."""

    descriptor: int
    own: bool
    made: bool


def open_target(path: str, force: bool = False, goes_on: bool = False) -> OpenedFile:
    """Open what a user named, to write behind what is there.

    `force`: it may be a file that is there, or a pipe, for whose reader this waits; `goes_on`: a file that is there is
    gone on with. Raises OSError; FileExistsError for a file if neither is given.
    """
    if stream := _STREAMS.fullmatch(path):
        numbers = {"out": 1, "err": 2}
        name = stream[1] or stream[2] or stream[3]
        number = numbers[name] if name in numbers else int(name)
        try:
            return OpenedFile(os.dup(number), own=False, made=False)
        except OverflowError:
            raise OSError(EBADF, os.strerror(EBADF), path) from None
    try:
        return OpenedFile(make(path), own=True, made=True)
    except FileExistsError:
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            if not force and not goes_on:
                raise
            return OpenedFile(open_known(path), own=True, made=False)
    _check(path, found, pipe=force)
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY)
    return OpenedFile(_checked(path, descriptor, pipe=force), own=False, made=False)


def make(path: str, mode: int = PRIVATE, folder: int | None = None) -> int:
    """Make a file, to write to. `folder`: descriptor of the one in which `path` is a name. Raises OSError:
    FileExistsError if anything is there."""
    descriptor = os.open(path, _NEW, PRIVATE, dir_fd=folder)
    os.fchmod(descriptor, mode)
    return descriptor


def open_known(path: str, folder: int | None = None, flags: int = os.O_RDWR | os.O_APPEND) -> int:
    """Open a file that is there. Raises OSError, without waiting, if it is none of this user's alone."""
    check_known(path, folder)
    return _checked(path, os.open(path, flags | _KNOWN, dir_fd=folder))


def check_known(path: str, folder: int | None = None) -> None:
    """Raise OSError if there is no file, or one that is not this user's alone."""
    _check(path, os.stat(path, dir_fd=folder, follow_symlinks=False))


def remake(path: str, mode: int = PRIVATE) -> int:
    """Make a file in place of one that is there: who has that open sees nothing of the new one. Raises OSError."""
    with folder_of(path) as (folder, name):
        return remake_in(folder, name, path, mode)


def remake_in(folder: int, name: str, path: str, mode: int = PRIVATE) -> int:
    """`remake`, of a name in a folder, given its descriptor; `path`: what errors call it."""
    check_known(name, folder)
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        text = f"cannot be made anew, as --force asks for: {error.strerror}: give another name"
        raise OSError(error.errno, text, path) from None
    return make(name, mode, folder)


@contextmanager
def folder_of(path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the file's folder, which stays the same whatever is renamed, and the name in it."""
    parent, name = os.path.split(path)
    folder = os.open(parent or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder, name
    finally:
        os.close(folder)


def _checked(path: str, descriptor: int, pipe: bool = False) -> int:
    # Something else may have been put there since it was looked at.
    try:
        _check(path, os.fstat(descriptor), pipe)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: str, found: os.stat_result, pipe: bool = False) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFCHR and os.path.abspath(path).startswith(_DEVICES):
        return
    if kind != stat.S_IFREG and not (pipe and kind == stat.S_IFIFO):
        why = _NO_FILE.get(kind, "is no file")
    elif found.st_uid != os.geteuid():
        why = "belongs to another user: give another name"
    elif found.st_nlink > 1 and kind == stat.S_IFREG:
        why = "has another name too (a hard link): give another name"
    else:
        return
    raise PermissionError(EPERM, why, path)
