"""Captures and made conversations, read for answers: the exchanges, and the rows that an answer makes of them."""

from contextlib import suppress
from functools import lru_cache

from support.pcap import Conversation, framed, pcap

import kinspect
from kinspect.analysis.answer import ResultContext
from kinspect.answers import open_answer
from kinspect.errors import KinspectError
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.protocol import Message, encode_request, encode_response

MS_US = 1000


def exchanges(path):
    """The exchanges of a capture, as far as it can be read."""
    found = []
    with suppress(KinspectError):
        found.extend(kinspect.read(path))
    return found


exchanges_of = lru_cache(maxsize=64)(exchanges)
"""The same for captures of the repository, of which the last folder's are kept: do not change them."""


def rows_of(name, found, *, lossy=False, **options):
    """The rows of an answer to exchanges of one run. `lossy`: something of it was lost."""
    answer = open_answer(name, **options)
    names, end = LearnedNames(), None
    for exchange in found:
        names = exchange.connection.names
        end = max((time for time in (end, exchange.completed_at) if time is not None), default=None)
        answer.add(exchange)
    assert answer.left_out == 0
    return answer.result(ResultContext(names, None, end, lossy))


class Talk:
    """A client and a broker that speak Kafka; times in milliseconds."""

    def __init__(self, **ends):
        self.conversation = Conversation(**ends)
        self.conversation.open()
        self.number = 0
        self.asked = {}

    def asks(self, key, version, body, client="c-1"):
        """Send a request; return its correlation id."""
        self.number += 1
        self.asked[self.number] = key, version
        self.conversation.client_sends(
            framed(encode_request(Message(key, version, self.number, body, client)))
        )
        return self.number

    def answers(self, number, body, after=0):
        """Answer a request so many milliseconds later."""
        self.waits(after)
        key, version = self.asked[number]
        self.conversation.broker_sends(framed(encode_response(Message(key, version, number, body))))

    def waits(self, ms):
        self.conversation.time_us += ms * MS_US

    def repeats(self, ms):
        """The client's last packet comes again so many milliseconds later, as no acknowledgment came."""
        packets = self.conversation.packets
        del packets[-1]
        self.waits(ms)
        packets.append(packets[-1]._replace(time_us=self.conversation.time_us))

    def read(self, folder, *others):
        """The exchanges of this talk and others, in the order of their times."""
        packets = [packet for talk in (self, *others) for packet in talk.conversation.packets]
        path = folder / "talk.pcap"
        path.write_bytes(pcap(sorted(packets, key=lambda packet: packet.time_us)))
        return [*kinspect.read(path)]


def fetch_of_a_topic_without_a_name(folder):
    """A capture of a Fetch that asks for a topic with an empty name."""
    talk = Talk()
    topic = {"topic": "", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 9}]}
    asked = {"replica_id": -1, "max_wait_ms": 9, "min_bytes": 1, "max_bytes": 9, "isolation_level": 0}
    talk.answers(talk.asks(1, 4, {**asked, "topics": [topic]}), {"throttle_time_ms": 0, "responses": []})
    talk.read(folder)
    return folder / "talk.pcap"
