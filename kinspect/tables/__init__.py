"""Tables of exchanges, record batches, records and connections: lines made columns of Arrow. All but their names
need PyArrow."""
