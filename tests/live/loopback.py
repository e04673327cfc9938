"""Traffic of the test's own on the loopback interface."""

from __future__ import annotations

import asyncio
import socket

from . import traffic


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def talk(port, count, connections=1):
    """Exchange with a broker on that port; gives what the clients saw."""

    async def run():
        async with traffic.broker(port=port):
            found = await asyncio.gather(
                *(traffic.talk("127.0.0.1", port, count) for _ in range(connections))
            )
        return [exchange for talked in found for exchange in talked]

    return asyncio.run(run())
