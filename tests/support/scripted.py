"""A broker and a client of raw sockets, for what real ones would not do.

    with ScriptedBroker() as broker, RawClient(broker.address) as client:
        client.ask(3, 9, {"topics": None})

A broker answers everything, with the defaults of each field where `answers` has no body for the API.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from kinspect.protocol import Message, decode_request, decode_response, encode_request, encode_response
from support.pcap import framed

Body = dict[str, Any]
FIND_COORDINATOR, METADATA, PRODUCE = 10, 3, 0


def receive(connection: socket.socket) -> bytes | None:
    """The next message, without its size; None at the end."""
    size = _exactly(connection, 4)
    return None if size is None else _exactly(connection, int.from_bytes(size))


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


class ScriptedBroker(ThreadingTCPServer):
    """A broker on localhost. `node`: what it says of itself; `seen`: the requests that it got."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, answers: dict[int, Callable[[Message], Body | None]] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.node = {"node_id": 1, "host": "127.0.0.1", "port": self.server_address[1]}
        self.seen: list[Message] = []
        self.answers = {
            METADATA: lambda _: {"brokers": [self.node], "controller_id": 1},
            FIND_COORDINATOR: lambda message: (
                self.node
                if message.api_version < 4
                else {"coordinators": [{"key": key, **self.node} for key in message.body["coordinator_keys"]]}
            ),
            PRODUCE: lambda message: {} if message.body["acks"] else None,
            **(answers or {}),
        }
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseRequestHandler):
    def handle(self) -> None:
        broker = self.server
        assert isinstance(broker, ScriptedBroker)
        with suppress(ConnectionError):
            while (frame := receive(self.request)) is not None:
                message = decode_request(frame)
                broker.seen.append(message)
                body = broker.answers.get(message.api_key, lambda _: {})(message)
                if body is not None:
                    ids = message.api_key, message.api_version, message.correlation_id
                    self.request.sendall(framed(encode_response(Message(*ids, body))))


class RawClient:
    """A client that says what it is told to."""

    def __init__(self, address: str, name: str | None = "app") -> None:
        host, port = address.rsplit(":", 1)
        self.name = name
        self.connection = socket.create_connection((host, int(port)))
        self._asked = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, api_key: int, version: int, body: Body) -> None:
        """Send a request, and wait for no answer."""
        self._asked += 1
        message = Message(api_key, version, self._asked, body, self.name)
        self.connection.sendall(framed(encode_request(message)))

    def ask(self, api_key: int, version: int, body: Body) -> Body:
        """Send a request; the answer's body."""
        self.send(api_key, version, body)
        frame = receive(self.connection)
        assert frame is not None
        return decode_response(frame, api_key, version).body
