"""HTTP for metrics: a few pages, answered in a thread of its own.

Clients are not trusted to be quick or polite. A connection is for one request of so many bytes. There are so many
seconds for that to come, and for its answer to be taken. Only so many are waited for at once: a further one takes the
place of the oldest that has sent nothing more by then. Connections are accepted one by one, and what has come is read
before the next one. So who is slow keeps nobody out, however many they are.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import NamedTuple, cast

MOST_ASKING, MOST_ANSWERED = 64, 16
"""Connections at once whose request has not come, and whose request has."""
MOST_WAITING = 1024
"""Connections that the system holds until they are accepted; it may hold fewer."""
REQUEST_BYTES = 8192
REQUEST_SECONDS, ANSWER_SECONDS = 2.0, 10.0
"""Time for a request to come, and for its answer to be made and taken."""
PAUSE_SECONDS = 0.05
METHODS = ("GET", "HEAD")


class HttpAnswer(NamedTuple):
    """An answer: its status, its text, and the type of that."""

    status: HTTPStatus
    text: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Awaitable[HttpAnswer]]]
"""By path, what gives the page."""


Client = asyncio.Task[None]
"""What reads a client's request and answers it."""


class MetricServer:
    """Serves pages from a listening socket, in a context: from its start to its end."""

    def __init__(
        self,
        listener: socket.socket,
        pages: Pages,
        request_seconds: float = REQUEST_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._listener = listener
        self._pages = pages
        self._request_seconds = request_seconds
        self._answer_seconds = answer_seconds
        # The oldest first.
        self._asking: dict[Client, socket.socket] = {}
        self._answered: dict[Client, None] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        # What goes wrong with a client is nothing to print between the lines of the capture.
        loop.set_exception_handler(lambda *_: None)
        self._listener.setblocking(False)
        self._listener.listen(MOST_WAITING)
        accepting = loop.create_task(self._accept())
        loop.run_forever()
        accepting.cancel()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                # It went away again, or no descriptor is free.
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if len(self._asking) >= MOST_ASKING:
                self._leave(next((one for one in self._asking if not _has_more(self._asking[one])), None))
            client = self._loop.create_task(self._answer(connection))
            client.add_done_callback(partial(self._end, connection))
            self._asking[client] = connection
            await asyncio.sleep(0)

    def _leave(self, client: Client | None) -> None:
        """Leave a client alone; None: the one whose request is waited for longest."""
        client = client or next(iter(self._asking))
        self._forget(client)
        client.cancel()

    def _end(self, connection: socket.socket, client: Client) -> None:
        self._forget(client)
        connection.close()

    async def _answer(self, connection: socket.socket) -> None:
        client = cast("Client", asyncio.current_task())
        reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES)
        try:
            async with asyncio.timeout(self._request_seconds):
                head = await reader.readuntil(b"\r\n\r\n")
            if len(self._answered) >= MOST_ANSWERED:
                self._leave(next(iter(self._answered)))
            self._answered[client] = None
            del self._asking[client]
            async with asyncio.timeout(self._answer_seconds):
                await self._serve(head, reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.transport.abort()

    def _forget(self, client: Client) -> None:
        self._asking.pop(client, None)
        self._answered.pop(client, None)

    async def _serve(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, page = await self._page(head.split(b"\r\n", 1)[0].decode("latin-1").split(" "))
        allowed = f"Allow: {', '.join(METHODS)}\r\n" if page.status == HTTPStatus.METHOD_NOT_ALLOWED else ""
        writer.write(
            f"HTTP/1.1 {page.status} {page.status.phrase}\r\nContent-Type: {page.content_type}\r\n"
            f"Content-Length: {len(page.text)}\r\n{allowed}Connection: close\r\n\r\n".encode()
        )
        if method != "HEAD":
            writer.write(page.text)
        writer.write_eof()
        await writer.drain()
        # Closed at once, what the client sent beyond its request could take the answer from it.
        while await reader.read(REQUEST_BYTES):
            pass

    async def _page(self, words: list[str]) -> tuple[str, HttpAnswer]:
        """The method of a request's first line, and the page for it."""
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", _plain(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method not in METHODS:
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        make = self._pages.get(target.partition("?")[0])
        return method, _plain(HTTPStatus.NOT_FOUND) if make is None else await make()


def _has_more(connection: socket.socket) -> bool:
    """True if bytes of a client have come that were not read yet."""
    look = select.poll()
    look.register(connection, select.POLLIN)
    return bool(look.poll(0))


def _plain(status: HTTPStatus) -> HttpAnswer:
    return HttpAnswer(status, f"{status.value} {status.phrase}\n".encode())
