"""Tables of exchanges, record batches, records and connections: lines made columns of Arrow. Needs PyArrow."""
