"""Names of the tables; these need no PyArrow."""

EXCHANGES, BATCHES, RECORDS, CONNECTIONS = "exchanges", "batches", "records", "connections"
RECORD_ROWS = "record_rows"
"""The rows of `kinspect records`, which are decided by all of a capture."""
PROBLEMS = "problems"
PARQUET, DELTA = "parquet", "delta"
"""Formats of tables."""
STAGING = "_staging"
"""Folder beside the tables for what does not count yet."""
STREAM, STAGED = "_stream", "staged"
"""Folder beside the tables of a stream: its state and checkpoint; and the one in it for what does not count yet."""
DELTA_LOG = "_delta_log"
"""Folder in a table of Delta Lake that has its log."""
RUNS = "_runs"
"""Folder beside the tables in an object store: the log of the runs."""
FINISHED = "_finished"
"""Object beside it: the last run of which all is done."""
APPLICATION = "kinspect"
"""By whose numbers the logs of tables know the commits of kinspect."""
TABLES = (EXCHANGES, BATCHES, RECORDS, CONNECTIONS)
DEFAULT_TABLES = (EXCHANGES, BATCHES, CONNECTIONS)


def answer_table(answer: str) -> str:
    """Name of the table of an answer. The answer `errors` is not the aggregate of that name."""
    return f"answer_{answer}"


DATE_FOLDER, NO_DATE = "date=", "__HIVE_DEFAULT_PARTITION__"
"""A folder of a table's rows of one date: its name in front of the date, and the name for rows without one, as Hive
has them."""
