"""Who listens to the answers of a query: lines as they come, each with the number from which one goes on after a break.

Somebody who is too slow is told so and left behind, and nobody waits for him.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.serve.answer_log import AnswerLog

MOST_BEHIND = 1_000
"""Lines that wait for a listener before it is let go."""
PULSE = 15.0
"""Seconds of silence after which a connection gives a sign of life."""


@dataclass(eq=False)
class Listening:
    """One listener of one query."""

    answers: AnswerLog
    query: str
    after: int | None = None
    """the last instant it has seen; None: what comes from now on"""
    dropped: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _coming: "asyncio.Queue[tuple[int, bytes] | None]" = field(default_factory=lambda: asyncio.Queue(MOST_BEHIND))

    async def lines(self) -> AsyncIterator[tuple[int, bytes] | None]:
        """Instants and lines; None is a sign of life, and the end is when it was let go or the service ends."""
        try:
            for before in await asyncio.to_thread(self.answers.listen, self.query, self.after, self._hear):
                yield before
            while not self.dropped or not self._coming.empty():
                line: tuple[int, bytes] | None
                try:
                    line = await asyncio.wait_for(self._coming.get(), PULSE)
                except TimeoutError:
                    yield None
                    continue
                if line is None:
                    return
                if self.after is None or line[0] > self.after:
                    yield line
        finally:
            self.answers.leave(self.query, self._hear)

    def close(self) -> None:
        """There is no more to come."""
        self._offer(None)

    def _hear(self, instant: int, line: bytes) -> None:
        """From the thread that evaluates."""
        self._loop.call_soon_threadsafe(self._offer, (instant, line))

    def _offer(self, line: tuple[int, bytes] | None) -> None:
        if self.dropped:
            return
        try:
            self._coming.put_nowait(line)
        except asyncio.QueueFull:
            self.dropped = True
            self.answers.leave(self.query, self._hear)
