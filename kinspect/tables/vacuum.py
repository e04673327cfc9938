"""Files that no version of tables needs any more, deleted: what runs replaced, and what killed ones left."""

from __future__ import annotations

from pathlib import Path

from kinspect.errors import KinspectError
from kinspect.extras import need
from kinspect.model import NS_PER_SECOND
from kinspect.tables.committedfolder import MANIFEST, CommittedFolder
from kinspect.tables.lock import LOCK, FileLock
from kinspect.tables.openfolder import OpenFolder
from kinspect.tables.tablenames import DELTA, DELTA_LOG, STAGED, STAGING, STREAM

_HOUR_NS = 3600 * NS_PER_SECOND


def vacuum(path: str, keep_ns: int, dry_run: bool) -> list[str]:
    """Deletes from a folder of tables on a disk what counts no more, and returns its paths below the folder, sorted.

    In tables of Delta Lake these are files that no version since `keep_ns` ago has, in whole hours, upwards. In all
    tables, what runs left that were killed before their rows counted; one that was killed later is finished.
    `dry_run`: nothing is deleted or finished. Raises KinspectError, also if a run or stream writes there.
    """
    try:
        folder = OpenFolder(Path(path))
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror}") from None
    try:
        names = folder.names(folders=True)
        logged = [name for name in names if folder.exists(name, DELTA_LOG)]
        if not logged and not any(map(folder.days, names)):
            raise KinspectError(f"{path}: has no tables")
        if logged:
            need(DELTA, "pipeline vacuum")
            folder.table_format = DELTA
        home, above = (STREAM, (STREAM, STAGED)) if folder.exists(STREAM) else (STAGING, (STAGING,))
        lock = FileLock(Path(path, home, LOCK), f"{path}: a run or stream writes there; wait for its end")
        found = _left(folder, above)
        if not dry_run:
            folder.stage_in(*above)
        if logged:
            found += delete_old(folder, logged, keep_ns, dry_run)
        if home == STAGING and not {*folder.names(STAGING)} - {LOCK}:
            folder.delete(STAGING)
        lock.release()
    finally:
        folder.close()
    return sorted(found)


def delete_old(folder: CommittedFolder, tables: list[str], keep_ns: int, dry_run: bool) -> list[str]:
    """Deletes the files of tables of Delta Lake that no version since `keep_ns` ago has, and returns their paths."""
    from kinspect.tables import deltalog

    found: list[str] = []
    for name in tables:
        for file in deltalog.old_files(folder.logged(name), -(-keep_ns // _HOUR_NS)):
            found.append(f"{name}/{file}")
            if not dry_run:
                *day, last = file.split("/")
                folder.delete(name, *day, last)
                folder.delete(name, *day, f".{last}.crc")
    return found


def _left(folder: OpenFolder, above: tuple[str, ...]) -> list[str]:
    """Files that are staged and will not count."""
    found: list[str] = []
    for name in folder.names(*above, folders=True):
        if not folder.exists(*above, name, MANIFEST):
            found += _files(folder, (*above, name))
    return found


def _files(folder: OpenFolder, names: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for name, size in folder.sizes(*names).items():
        found += _files(folder, (*names, name)) if size is None else ["/".join((*names, name))]
    return found
