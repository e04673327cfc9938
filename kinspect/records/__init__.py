"""Record sets: what the `records` fields of Produce, Fetch, ShareFetch and FetchSnapshot hold.

`batches` reads a record set whole, `summarise` only its batches' headers. `control`, `internal` and
`embedded` read the keys and values whose format Kafka itself defines.
"""

from kinspect.records.recordset import RecordSet
from kinspect.records.walk import batches, summarise

__all__ = ["RecordSet", "batches", "summarise"]
