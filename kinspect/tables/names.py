"""Names of the tables; these need no PyArrow."""

EXCHANGES, BATCHES, RECORDS, CONNECTIONS = "exchanges", "batches", "records", "connections"
PROBLEMS = "problems"
TABLES = (EXCHANGES, BATCHES, RECORDS, CONNECTIONS)
DEFAULT_TABLES = (EXCHANGES, BATCHES, CONNECTIONS)
