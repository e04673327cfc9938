"""Items on their way to a receiver: a bounded queue, and a thread that sends it in batches. What is lost is counted."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

QUEUE, BATCH = 4096, 512
"""Most items that wait, and most that are sent at once."""
QUEUE_SIZE, BATCH_SIZE = 32 * 1024 * 1024, 2 * 1024 * 1024
"""The sizes of items that wait have this sum at most, and from this one on a batch is full. An item that is larger goes
alone."""
BATCH_SECONDS = 1.0
"""How long items wait for others at most."""
ENDING_SECONDS = 10.0
"""How long the end waits for a batch to be delivered."""


class SendQueue(Generic[T]):
    """Sends items as they come. `send`: sends a batch, and returns why it could not. `waits`: whoever brings items to a
    full queue waits, while the receiver is there; else they are lost. `failed`: called once, with the first failure.
    `queue`, `batch`: most items that wait, and that are sent at once.

    `sent`, `lost`: number of items.
    """

    def __init__(
        self,
        send: Callable[[list[T]], str | None],
        waits: bool,
        failed: Callable[[str], None],
        queue: int = QUEUE,
        batch: int = BATCH,
    ) -> None:
        self._most, self._batch = queue, batch
        self._send = send
        self._waits = waits
        self._failed = failed
        self._told = False
        self._queue: deque[tuple[T, int]] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ends = False
        self._away = False
        self._sending = 0
        self.sent = 0
        self.lost = 0

    def put(self, item: T, size: int = 0) -> None:
        """Bring an item; `size`: what it takes of the room in the queue."""
        if self._thread is None:
            # Not sooner: processes are forked before there are threads.
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        with self._changed:
            while len(self._queue) >= self._most or (self._queue and self._size + size > QUEUE_SIZE):
                if not self._waits or self._away:
                    self.lost += 1
                    return
                self._changed.wait()
            self._queue.append((item, size))
            self._size += size
            if self._is_full:
                self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """True if nothing is on its way."""
        return not self._queue and not self._sending

    @property
    def _is_full(self) -> bool:
        """True if a batch waits."""
        return len(self._queue) >= self._batch or self._size >= BATCH_SIZE

    def end(self) -> None:
        """Nothing more comes: what waits need not wait for others."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    def close(self) -> None:
        """Send what waits, as long as batches are delivered in time; the rest is lost."""
        self.end()
        with self._changed:
            due, sent = time.monotonic() + ENDING_SECONDS, self.sent
            while self._queue or self._sending:
                if self.sent > sent:
                    due, sent = time.monotonic() + ENDING_SECONDS, self.sent
                left = due - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._drop()

    def discard(self) -> None:
        """End at once: what waits or is on its way is lost."""
        with self._changed:
            self._ends = True
            self._drop()
            self._changed.notify_all()

    def _drop(self) -> None:
        self.lost += len(self._queue) + self._sending
        self._queue.clear()
        # A batch that is delivered later must not count twice.
        self._sending = 0

    def _work(self) -> None:
        while batch := self._next():
            why = self._send(batch)
            with self._changed:
                if not self._sending:
                    return
                self._sending = 0
                self._away = why is not None
                if why is None:
                    self.sent += len(batch)
                else:
                    self.lost += len(batch)
                self._changed.notify_all()
            if why is not None and not self._told:
                self._told = True
                self._failed(why)

    def _next(self) -> list[T]:
        """The next batch; empty at the end."""
        with self._changed:
            due = time.monotonic() + BATCH_SECONDS
            while not self._is_full and not self._ends:
                left = due - time.monotonic()
                if left <= 0:
                    if self._queue:
                        break
                    left = BATCH_SECONDS
                self._changed.wait(left)
            batch: list[T] = []
            taken = 0
            while self._queue and len(batch) < self._batch and taken < BATCH_SIZE:
                item, size = self._queue.popleft()
                batch.append(item)
                taken += size
            self._size -= taken
            self._sending = len(batch)
            self._changed.notify_all()
            return batch
