"""Output of a command: a file made for it, or standard output."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

from kinspect.errors import KinspectError

PRIVATE = 0o600
"""Mode of output files: captures hold other people's data, so only the owner may read them."""


STANDARD = "-"
"""The name of standard output."""


def check_overwrite(path: str, force: bool, inputs: Sequence[str]) -> None:
    """Raise KinspectError if the output would overwrite a file without --force, or an input. Devices and pipes may be
    written to."""
    if not os.path.isfile(path):
        return
    if not force:
        raise KinspectError(f"{path}: exists; give --force to overwrite it")
    if any(os.path.exists(i) and os.path.samefile(i, path) for i in inputs):
        raise KinspectError(f"{path}: is one of the inputs")


def open_output(path: str | None, force: bool) -> TextIO:
    """The stream to write to, as text or (its `buffer`) bytes; None is standard output.

    A file keeps its contents until `begin`.
    """
    if path is None:
        # A name that the terminal cannot show must not end the run.
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return sys.stdout
    try:
        over = force or (os.path.exists(path) and not os.path.isfile(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (0 if over else os.O_EXCL), PRIVATE)
    except FileExistsError:
        raise KinspectError(f"{path}: exists; give --force to overwrite it") from None
    except OSError as error:
        raise KinspectError(f"-o: {path}: {error.strerror or error}") from None
    return os.fdopen(descriptor, "w", encoding="utf-8")


def discard(stream: TextIO) -> None:
    """Send unwritten and later output of the stream to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def begin(stream: TextIO) -> None:
    """Empty the file that was opened, and make it private, before the first byte goes into it."""
    descriptor = stream.fileno()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, PRIVATE)  # refused for another's file, which then keeps its contents
        os.ftruncate(descriptor, 0)
