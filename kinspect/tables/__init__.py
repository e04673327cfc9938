"""Tables of exchanges, record batches, records and connections: lines as columns of Arrow. Only their names do not need
PyArrow."""
