"""Lines come out in the order of their keys, as far as they come within the window; and the oldest request is known."""

from exchanges import bare
from hypothesis import given
from hypothesis import strategies as st

from kinspect.kafka.connection.pending import Pending
from kinspect.kafka.wire.lineorder import FIRST, WINDOW, LineOrder

arrivals = st.lists(st.tuples(st.integers(0, 40), st.integers(0, WINDOW // 2)), max_size=60)


def released(lines):
    """Keys in the order of release, by the rule in plain words: a line goes with the first one of the same or a later
    key that has waited for the window."""
    waiting, out, late, last = [], [], 0, FIRST
    for key, place in lines:
        due = max((known for known, came in waiting if came <= place - WINDOW), default=FIRST)
        gone = sorted(known for known, _ in waiting if known <= due)
        waiting = [line for line in waiting if line[0] > due]
        out += gone
        last = max(last, *gone) if gone else last
        late += key < last
        waiting.append((key, place))
    return out + sorted(known for known, _ in waiting), late


@given(arrivals, st.data())
def test_lines_wait_for_the_window(given_lines, data):
    place, lines = 0, []
    for number, (time, step) in enumerate(given_lines):
        place += step
        lines.append(((time, 0, 0, number), place))
    order, found = LineOrder(), []
    for key, place in lines:
        order.add(key, place, 1, key)
        if data.draw(st.booleans()):
            order.pass_to(place)
            found += order.ready()
    order.rest()
    assert (found + order.ready(), order.late) == released(lines)
    assert order.bytes == 0


def test_an_answer_taken_by_its_id_leaves_the_next_request_the_oldest():
    requests = []
    pending = Pending(True)
    for correlation_id in (7, 8, 9):
        request = bare(18, 3)
        request.correlation_id = correlation_id
        requests.append(request)
        pending.add(request)
    assert pending.take_next(7) is None  # requests may have been lost before
    pending.take(7)
    assert pending.take_next(8) is requests[1]
    assert pending.take_next(9) is requests[2]
