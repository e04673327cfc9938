"""A forwarder on localhost: clients connect to it in place of brokers, and all that it forwards is recorded."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, TypeVar

from kinspect.errors import KinspectError
from kinspect.wiretest.advertised import AdvertisedAddresses, Place
from kinspect.wiretest.recording import BROKER, CLIENT, RecordedStream, Recording

T = TypeVar("T")
LOCAL: Final = "127.0.0.1"
BROKERS_MOST: Final = 1_000
"""Listeners, one for each broker that is named."""
AT_ONCE: Final = 1 << 16
AGAIN_SECONDS: Final = 0.05
TURNS: Final = 10
"""Turns of the loop in which nothing comes, after which all that was sent by then has come."""
SETTLE_SECONDS: Final = 10.0
"""Longest time in which brokers take what clients sent."""


class Forwarder:
    """Listens in a thread of its own, for each broker at a port of its own. `elsewhere`: where brokers can be reached
    that advertise an address which cannot be; `unreachable`: those that could not, and why; `passed`: responses that
    may name other brokers, to which clients then connect themselves; `held_up`: brokers did not take all that clients
    had sent as it was to be recorded."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.elsewhere: dict[Place, Place] = {}
        self.unreachable: dict[Place, str] = {}
        self.passed = 0
        self.held_up = False
        self._held = 0
        """Connections that are being made, and those whose broker is to take bytes."""
        self._moved = 0
        self._listeners: dict[Place, socket.socket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka_wire", daemon=True)
        self._thread.start()

    def listen(self, broker: Place) -> Place:
        """Where clients reach a broker through this."""
        return self._in_loop(self._listening(broker))

    def settle(self) -> None:
        """Wait until what clients have sent by now is recorded."""
        self._in_loop(self._settled())

    def close(self) -> None:
        """End all connections, and the thread."""
        self._in_loop(self._closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listening(self, broker: Place) -> Place:
        return self._listener(broker)

    async def _settled(self) -> None:
        until = self._loop.time() + SETTLE_SECONDS
        quiet, moved = 0, self._moved
        while quiet < TURNS and self._loop.time() < until:
            await asyncio.sleep(AGAIN_SECONDS if self._held else 0)
            quiet = 0 if self._held or moved != self._moved else quiet + 1
            moved = self._moved
        self.held_up = quiet < TURNS
        self._recording.flush()

    async def _closed(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._recording.flush()

    def _listener(self, broker: Place) -> Place:
        found = self._listeners.get(broker)
        if found is None:
            if len(self._listeners) >= BROKERS_MOST:
                raise KinspectError(f"more than {BROKERS_MOST:,} brokers are named")
            found = socket.create_server((LOCAL, 0))
            found.setblocking(False)
            self._listeners[broker] = found
            self._begin(self._accept(found, broker))
        port: int = found.getsockname()[1]
        return LOCAL, port

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """Context in which a client has to wait for its broker."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def _pass(self) -> None:
        self.passed += 1

    async def _accept(self, listener: socket.socket, broker: Place) -> None:
        while listener.fileno() >= 0:
            try:
                client, _ = await self._loop.sock_accept(listener)
            except OSError:  # a client that is gone already, or too many open files
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._begin(self._forward(client, broker))

    async def _forward(self, client: socket.socket, broker: Place) -> None:
        """Forward a connection to its end."""
        try:
            ends = client.getpeername()[:2], client.getsockname()[:2]
        except OSError:  # it is gone already
            client.close()
            return
        stream = self._recording.open(*ends)
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            with self._holding():
                there, to = await asyncio.open_connection(*self.elsewhere.get(broker, broker))
        # A name may be none that there can be.
        except (OSError, ValueError) as error:
            self.unreachable[broker] = getattr(error, "strerror", None) or str(error)
            stream.reset(BROKER)
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        addresses = AdvertisedAddresses(self._listener, self._pass)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(CLIENT, reader, to, addresses.request, stream))
                both.create_task(self._pump(BROKER, there, writer, addresses.response, stream))
        except* OSError:
            pass
        finally:
            stream.end(CLIENT)
            stream.end(BROKER)
            to.transport.abort()
            writer.close()

    async def _pump(
        self,
        direction: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handed: Callable[[bytes], bytes],
        stream: RecordedStream,
    ) -> None:
        """Forward what one side sends. `handed`: what is handed on of bytes that came; of none, at the end."""
        data = b"more"
        while data:
            try:
                data = await reader.read(AT_ONCE)
            except ConnectionResetError:
                stream.reset(direction)
                raise
            self._moved += len(data)
            if passing := handed(data):
                stream.data(direction, passing)
                writer.write(passing)
                with self._holding() if direction == CLIENT else nullcontext():
                    await writer.drain()
        stream.end(direction)
        writer.write_eof()
