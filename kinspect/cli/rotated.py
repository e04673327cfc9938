"""Output that goes into one file after the other."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import click

from kinspect.capture.rotation import FileSeries, Rotation, there_are
from kinspect.cli import complain
from kinspect.cli.archive import COMPRESSIONS, ENDINGS, Archive
from kinspect.cli.outfile import NamedFile, OpenMode, Output
from kinspect.cli.types import COUNT, DURATION, SIZE
from kinspect.errors import KinspectError
from kinspect.ownfile import check_known, make

ROTATION = (
    click.option(
        "--output-rotate-size",
        type=SIZE,
        help="Write into numbered files beside FILE; begin a new one before one gets larger (formats of lines).",
    ),
    click.option("--output-rotate-time", type=DURATION, help="Begin a new one after this time."),
    click.option(
        "--output-rotate-keep",
        type=COUNT,
        metavar="N",
        help="Delete the oldest of more than N of them, those of earlier runs too.",
    ),
    click.option(
        "--output-compress", type=click.Choice([*COMPRESSIONS]), help="Compress those that are complete."
    ),
)


class RotatedFile(NamedFile):
    """Files of whole lines, each within the limits of `rotation`; a line that is longer has one for itself.

    Numbers go on behind those of the files that are there, which count for `rotation.keep`. Where the next file cannot
    be made, lines go on into the old one up to the next turn, which is one more limit away.
    """

    def __init__(self, path: str, open_mode: OpenMode, rotation: Rotation, compression: str | None) -> None:
        """`compression`: a name of `COMPRESSIONS`, or None. Raises OSError."""
        there = there_are(path, ENDINGS)
        names = [name for _, name in there]
        foreign = _foreign(names)
        if foreign:
            (name, why), *others = foreign.items()
            more = f", as {len(others)} more are" if others else ""
            complain(f"{name}: {why}: left alone{more}")
        self._series = FileSeries(path, rotation, self._put, self._turn, there[-1][0] if there else 0)
        self._archive = Archive(
            [name for name in names if name not in foreign],
            rotation.keep,
            None if compression is None else COMPRESSIONS[compression],
        )
        self._told = False
        super().__init__(self._series.next_name, open_mode)
        self._series.begin()

    def begin(self) -> None:
        super().begin()
        self._archive.start()

    def _begin_below_header(self) -> None:
        """Its bytes count, but a file that has nothing else is an empty one."""
        self._put([self._header])

    def write(self, data: Any, /) -> int:
        self._series.write(BytesIO(data).readlines())
        return len(data)

    def _put(self, lines: Sequence[bytes]) -> None:
        self._series.size += super().write(b"".join(lines))

    def tick(self) -> None:
        self._series.tick()

    def anew(self) -> None:
        """Begin the next file, unless this one is empty. Raises OSError, and the old one stays."""
        if self._series.pieces:
            self._next()

    def _turn(self) -> None:
        """Begin the next file; if it cannot be made, say so once, and try again at the next turn."""
        try:
            self._next()
        except OSError as error:
            self._series.again()
            if not self._told:
                self._told = True
                name = error.filename or self._series.path
                complain(f"{name}: {error.strerror or error}: lines go on into {self._path}")

    def _next(self) -> None:
        name = self._series.next_name
        self._put_in_place(make(name, self._mode))
        self._archive.add(self._path)
        self._path = name
        self._series.begin()
        self._begin_below_header()
        self._told = False

    def discard(self) -> None:
        """Send all that is still written to the null device: there is no next file."""
        self._series.rotation = Rotation()
        super().discard()

    def close(self) -> None:
        self._archive.close()
        super().close()


def _foreign(names: list[str]) -> dict[str, str]:
    """Of the names, those under which something lies, plain or compressed, that is no file of this user's alone; and
    why it is none."""
    found = {}
    for name in names:
        for ending in ("", *ENDINGS):
            try:
                check_known(name + ending)
            except FileNotFoundError:
                continue
            except OSError as error:
                found[name] = error.strerror or str(error)
    return found


def open_rotated(path: str, open_mode: OpenMode, rotation: Rotation, compression: str | None) -> Output:
    """The stream to write lines to, as bytes (its `buffer`)."""
    try:
        return Output(RotatedFile(path, open_mode, rotation, compression))
    except OSError as error:
        raise KinspectError(f"-o: {error.filename or path}: {error.strerror or error}") from None
