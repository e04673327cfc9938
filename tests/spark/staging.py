"""Files that are staged as tasks stage them, but copied from elsewhere."""

from pathlib import Path

from kinspect.tables.parquet import PartFile


def stage(output, table, day, paths, mark):
    """Copies of files as staged ones of a table's date, with `mark` in front of their names, taken as of no rows."""
    folder = Path(output.staging.path, table, day)
    folder.mkdir(parents=True)
    files = []
    for path in paths:
        name = f"{mark}-{path.name}"
        folder.joinpath(name).write_bytes(path.read_bytes())
        files.append(PartFile(table, day, name, path.stat().st_size, 0))
    output.take(files, {table: 0})
