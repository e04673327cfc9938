"""HTTP for metrics: a few pages, answered in a thread of its own.

Clients are not trusted to be quick or polite. A connection is for one request of so many bytes. There are so many
seconds for that to come, and for its answer to be taken. There are so many connections at once: a further one takes the
place of the oldest whose request has not come, else of the oldest. So who is slow keeps nobody out.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, cast

MOST_CONNECTIONS = 16
"""Connections at once."""
REQUEST_BYTES = 8192
REQUEST_SECONDS, ANSWER_SECONDS = 2.0, 10.0
"""Time for a request to come, and for its answer to be made and taken."""
METHODS = ("GET", "HEAD")


class Page(NamedTuple):
    """An answer: its status, its text, and the type of that."""

    status: HTTPStatus
    text: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Awaitable[Page]]]
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
        self._asking: dict[Client, None] = {}
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
        server = loop.run_until_complete(
            asyncio.start_server(self._answer, sock=self._listener, limit=REQUEST_BYTES)
        )
        loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._asking) + len(self._answered) >= MOST_CONNECTIONS:
            oldest = next(iter(self._asking or self._answered))
            self._forget(oldest)
            oldest.cancel()
        client = cast("Client", asyncio.current_task())
        self._asking[client] = None
        try:
            async with asyncio.timeout(self._request_seconds):
                head = await reader.readuntil(b"\r\n\r\n")
            self._answered[client] = self._asking.pop(client)
            async with asyncio.timeout(self._answer_seconds):
                await self._serve(head, reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            self._forget(client)
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

    async def _page(self, words: list[str]) -> tuple[str, Page]:
        """The method of a request's first line, and the page for it."""
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", _plain(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method not in METHODS:
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        make = self._pages.get(target.partition("?")[0])
        return method, _plain(HTTPStatus.NOT_FOUND) if make is None else await make()


def _plain(status: HTTPStatus) -> Page:
    return Page(status, f"{status.value} {status.phrase}\n".encode())
