"""Record sets: the contents of the `records` fields of Produce, Fetch, ShareFetch and FetchSnapshot.

`batches` reads a whole record set, `summarise` only its batches' headers; both give a `RecordSet` and never raise.
`control`, `internal` and `embedded` decode keys and values whose format Kafka itself defines.
"""

from kinspect.records.recordset import RecordSet
from kinspect.records.walk import batches, summarise

__all__ = ["RecordSet", "batches", "summarise"]
