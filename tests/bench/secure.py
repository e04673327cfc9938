"""TLS connections, both ends in memory."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tls"))

import talks
from messages import BROKER, CLIENT


class Peers:
    """A client and a broker that speak TLS 1.2 and 1.3, and the secrets of their connections."""

    def __init__(self) -> None:
        self.versions = [talks.Peers(version) for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)]

    def secrets(self) -> bytes:
        """A key log."""
        return "".join(peers.keys() for peers in self.versions).encode()


class Ends:
    """The ends of a connection: two of four speak TLS 1.3, the others 1.2. `handshake`: what they send first."""

    def __init__(self, peers: Peers, connection: int) -> None:
        of = peers.versions[connection // 2 % 2]
        wires = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in (CLIENT, BROKER)]
        self._sent = [outgoing for _, outgoing in wires]
        self._ends = [
            of.client.wrap_bio(*wires[CLIENT], server_hostname="broker.test"),
            of.server.wrap_bio(*wires[BROKER], server_side=True),
        ]
        self.handshake: list[tuple[int, bytes]] = []
        done = [False, False]
        while not all(done):
            for direction in (CLIENT, BROKER):
                try:
                    self._ends[direction].do_handshake()
                    done[direction] = True
                except ssl.SSLWantReadError:
                    pass
                if data := self._sent[direction].read():
                    self.handshake.append((direction, data))
                    wires[1 - direction][0].write(data)

    def seal(self, direction: int, data: bytes | bytearray) -> bytes:
        """The records that carry these bytes."""
        self._ends[direction].write(data)
        return self._sent[direction].read()
