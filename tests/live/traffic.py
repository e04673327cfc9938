"""A client and a broker that exchange real Kafka messages over TCP.

Also run as a program, to be in a network namespace: `serve HOST PORT` until it is ended, `talk HOST PORT COUNT`.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from kinspect.protocol import Message, decode_request, encode_request, encode_response

METADATA, HEARTBEAT = 3, 12
SLOW = "slow"
SLOW_SECONDS = 0.02
MANY_TOPICS = 3000
"""In the response to a Metadata request: longer than a packet of the loopback interface."""


class Talked(NamedTuple):
    """An exchange as its client saw it."""

    api_key: int
    correlation_id: int
    client_port: int
    slow: bool
    milliseconds: float


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The broker's side of a connection."""
    try:
        while True:
            request = decode_request(await read_frame(reader))
            if request.api_key == METADATA:
                topic = {"error_code": 0, "is_internal": False, "partitions": []}
                topics = [topic | {"name": f"orders-{number:05}"} for number in range(MANY_TOPICS)]
                body = {"brokers": [], "controller_id": 1, "topics": topics}
            else:
                if request.body["member_id"] == SLOW:
                    await asyncio.sleep(SLOW_SECONDS)
                body = {"error_code": 0}
            message = Message(request.api_key, request.api_version, request.correlation_id, body)
            writer.write(framed(encode_response(message)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def broker(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """A broker at work; gives its port."""
    async with await asyncio.start_server(answer, host, port) as server:
        yield server.sockets[0].getsockname()[1]


async def talk(host: str, port: int, count: int) -> list[Talked]:
    """The client's side: every tenth exchange is a Metadata with a long response, every tenth a slow Heartbeat."""
    reader, writer = await asyncio.open_connection(host, port)
    client_port = writer.get_extra_info("sockname")[1]
    talked = []
    for number in range(count):
        slow = number % 10 == 1
        if number % 10 == 0:
            message = Message(METADATA, 1, number, {"topics": None}, "app")
        else:
            member = SLOW if slow else "m"
            body = {"group_id": "workers", "generation_id": 1, "member_id": member}
            message = Message(HEARTBEAT, 4, number, body, "app")
        start = time.perf_counter()
        writer.write(framed(encode_request(message)))
        await read_frame(reader)
        took = (time.perf_counter() - start) * 1000
        talked.append(Talked(message.api_key, number, client_port, slow, took))
    writer.close()
    await writer.wait_closed()
    return talked


async def _serve(host: str, port: int) -> None:
    async with broker(host, port):
        print("serving", flush=True)
        await asyncio.Event().wait()


async def _talk(host: str, port: int, count: int) -> None:
    await talk(host, port, count)


if __name__ == "__main__":
    command, to_host, to_port, *rest = sys.argv[1:]
    asyncio.run({"serve": _serve, "talk": _talk}[command](to_host, int(to_port), *map(int, rest)))
