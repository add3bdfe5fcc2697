"""The status for those who follow it: made once for all of them, beside the engine, and at a small cost."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

OFTEN = 0.3
"""Seconds between two documents at least."""
SELDOM = 2.0
"""Seconds between two at most: queries come and go, and breakers open and close, without an evaluation."""
COST = 0.04
"""The share of a core that documents may take; where there are many queries they come less often."""


@dataclass(eq=False)
class StatusFeed:
    """The last document, and which one it is."""

    text: bytes = b""
    number: int = 0
    _version: int = -1
    _made: float = float("-inf")
    _pause: float = OFTEN
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look(self, version: int, make: Callable[[], bytes]) -> None:
        """Make one where it is time for it."""
        if not self._due(version):
            return
        async with self._one:
            if self._due(version):
                self.text, took = await asyncio.to_thread(_timed, make)
                self.number, self._version, self._made = self.number + 1, version, time.monotonic()
                self._pause = max(OFTEN, took / COST)

    def _due(self, version: int) -> bool:
        since = time.monotonic() - self._made
        return since >= self._pause and (version != self._version or since >= SELDOM)


def _timed(make: Callable[[], bytes]) -> tuple[bytes, float]:
    """With the time of a core that it took."""
    began = time.thread_time()
    return make(), time.thread_time() - began
