from kinspect.protocol import schema
from kinspect.protocol.describe import describe


def test_rows_of_a_layout():
    rows = describe(schema.layout(1, 15, "request"))
    assert rows[0] == (0, "max_wait_ms", "MaxWaitMs", "int32", False, None, 0, None)
    topics = next(index for index, row in enumerate(rows) if row.name == "topics")
    assert [(row.depth, row.type) for row in rows[topics : topics + 3]] == [
        (0, "[]struct"),
        (1, "uuid"),
        (1, "[]struct"),
    ]
    tagged = [(row.name, row.tag) for row in rows if row.tag is not None]
    assert tagged == [("cluster_id", 0), ("replica_state", 1)]


def test_every_layout_can_be_described(layouts):
    assert all(row.type for layout in layouts for row in describe(layout))
