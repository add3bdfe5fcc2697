"""Subscriptions to the answers of a query: lines as they come, each with the instant after which a client resumes.

A client that is too slow is disconnected with an error, so that it never blocks the engine.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.serve.answer_log import AnswerLog

MAX_QUEUED_LINES = 1_000
"""Lines that wait for a client before it is disconnected."""
KEEPALIVE_S = 15.0
"""Seconds without an answer after which a client gets a sign of life."""


@dataclass(eq=False)
class Subscription:
    """The connection of a client that reads the answers of a query."""

    answers: AnswerLog
    query: str
    after: int | None = None
    """the last instant that the client has; None: answers from now on"""
    dropped: bool = False
    """whether the client was too slow"""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _queue: "asyncio.Queue[tuple[int, bytes] | None]" = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED_LINES))

    async def lines(self) -> AsyncIterator[tuple[int, bytes] | None]:
        """Yield instants and lines, and None as a sign of life, until the client is dropped or the service ends."""
        try:
            if self.after is None:
                self.answers.listen(self.query, self._on_line)
            else:
                async for line in self._missed_lines(self.after):
                    yield line
            while not self.dropped or not self._queue.empty():
                try:
                    new = await asyncio.wait_for(self._queue.get(), KEEPALIVE_S)
                except TimeoutError:
                    yield None
                    continue
                if new is None:
                    return
                if self.after is None or new[0] > self.after:
                    yield new
        finally:
            self.answers.leave(self.query, self._on_line)

    async def _missed_lines(self, after: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the lines after an instant, as fast as the client takes them; then listen for new ones."""
        tail = self.answers.tail(self.query, after)
        try:
            while lines := await asyncio.to_thread(self.answers.catch_up, self.query, tail, self._on_line):
                for line in lines:
                    yield line
                if not self._queue.empty():  # the service ends
                    return
        finally:
            tail.close()

    def close(self) -> None:
        """End the subscription."""
        self._offer(None)

    def _on_line(self, instant: int, line: bytes) -> None:
        # called by the thread that evaluates
        self._loop.call_soon_threadsafe(self._offer, (instant, line))

    def _offer(self, line: tuple[int, bytes] | None) -> None:
        if self.dropped:
            return
        try:
            self._queue.put_nowait(line)
        except asyncio.QueueFull:
            self.dropped = True
            self.answers.leave(self.query, self._on_line)
