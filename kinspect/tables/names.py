"""Names of the tables; these need no PyArrow."""

EXCHANGES, BATCHES, RECORDS, CONNECTIONS = "exchanges", "batches", "records", "connections"
PROBLEMS = "problems"
TABLES = (EXCHANGES, BATCHES, RECORDS, CONNECTIONS)
DEFAULT_TABLES = (EXCHANGES, BATCHES, CONNECTIONS)


def answer_table(answer: str) -> str:
    """Name of the table of an answer. The answer `errors` is not the aggregate of that name."""
    return f"answer_{answer}"
