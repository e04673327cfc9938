"""A client whose requests and answers are made up, one after the other on one connection.

    client = Client()
    client.ask(18, 0, {}, {"error_code": 0, "api_keys": []})
    path.write_bytes(recorded(client, other_client))

Fields that are left out have their defaults.
"""

from __future__ import annotations

from typing import Any

from kinspect.protocol import Message, encode_request, encode_response
from support.pcap import Conversation, framed, pcap

Body = dict[str, Any]


class Client:
    """A client and the connection it opened. `talk.time_us` is the time of its next packet."""

    def __init__(
        self, name: str = "app", port: int = 40000, broker: tuple[str, int] = ("10.0.0.9", 9092)
    ) -> None:
        self.name = name
        self.talk = Conversation(client=("10.0.0.1", port), broker=broker)
        self.talk.open()
        self._asked = 0

    def ask(
        self, api_key: int, version: int, request: Body, response: Body | None = None, takes: float = 0
    ) -> None:
        """Send a request, which is answered after `takes` seconds; without a `response` none comes."""
        self._asked += 1
        self.talk.client_sends(
            framed(encode_request(Message(api_key, version, self._asked, request, self.name)))
        )
        self.wait(takes)
        if response is not None:
            self.talk.broker_sends(framed(encode_response(Message(api_key, version, self._asked, response))))

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.talk.time_us += int(seconds * 1_000_000)

    def meet(self, other: Client) -> None:
        """Go on at the time of the other client, if that is later."""
        self.talk.time_us = max(self.talk.time_us, other.talk.time_us)


def recorded(*clients: Client) -> bytes:
    """A capture of all that the clients sent and got."""
    packets = [packet for client in clients for packet in client.talk.packets]
    return pcap(sorted(packets, key=lambda packet: packet.time_us))
