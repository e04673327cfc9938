import json
from io import BytesIO
from types import SimpleNamespace

from kinspect.kafka.view.view import View
from kinspect.output import Opening
from kinspect.output.jsonl import open_sink
from kinspect.output.linesink import BATCH_BYTES
from kinspect.sink import WrittenLine

HEARTBEAT = 12


class Pipe(BytesIO):
    """Counts what is written and flushed."""

    def __init__(self):
        super().__init__()
        self.writes = 0
        self.flushes = 0

    def write(self, data):
        self.writes += 1
        return super().write(data)

    def flush(self):
        self.flushes += 1


def written_to(pipe):
    return open_sink(Opening(SimpleNamespace(buffer=pipe), View()))


def test_one_object_a_line(exchanges):
    request = {"group_id": "g\n\x1b", "generation_id": 1, "member_id": "m"}
    pipe = Pipe()
    writer = written_to(pipe)
    for exchange in exchanges((HEARTBEAT, 0, request, {"error_code": 27}), (HEARTBEAT, 0, request, None)):
        writer.take(exchange)
    assert pipe.writes == 0
    writer.flush()
    assert (pipe.writes, pipe.flushes) == (1, 1)
    lines = pipe.getvalue().splitlines()
    assert len(lines) == 2
    first = json.loads(lines[0])
    assert first["api"] == "Heartbeat"
    assert first["groups"] == ["g\n\x1b"]
    assert first["error_names"] == ["REBALANCE_IN_PROGRESS"]
    assert json.loads(lines[1])["outcome"] == "unanswered"


def test_a_flush_with_nothing_to_write_touches_nothing():
    pipe = Pipe()
    written_to(pipe).flush()
    assert (pipe.writes, pipe.flushes) == (0, 0)


def test_large_lines_are_not_held_back():
    pipe = Pipe()
    writer = written_to(pipe)
    writer.put(WrittenLine(b"x" * BATCH_BYTES))
    assert pipe.writes == 1
