"""The status as events: made once for all clients that follow it, at a bounded share of a core."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

POLL_INTERVAL_S = 0.3
"""The shortest time between two events."""
MAX_INTERVAL_S = 2.0
"""The longest time between two events: queries come and go, and breakers open and close, without an evaluation."""
MAX_SHARE_OF_CORE = 0.04
"""What making events may cost; a service with many queries makes them less often."""


@dataclass(eq=False)
class StatusFeed:
    """The last event and its number."""

    text: bytes = b""
    number: int = 0
    _version: int = -1
    _updated: float = float("-inf")
    _pause: float = POLL_INTERVAL_S
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def update(self, version: int, make: Callable[[], bytes]) -> None:
        """Make an event in a thread, if one is due for this version of the status."""
        if not self._is_due(version):
            return
        async with self._lock:
            if self._is_due(version):
                self.text, core_s = await asyncio.to_thread(_timed, make)
                self.number += 1
                self._version = version
                self._updated = time.monotonic()
                self._pause = max(POLL_INTERVAL_S, core_s / MAX_SHARE_OF_CORE)

    def _is_due(self, version: int) -> bool:
        since = time.monotonic() - self._updated
        return since >= self._pause and (version != self._version or since >= MAX_INTERVAL_S)


def _timed(make: Callable[[], bytes]) -> tuple[bytes, float]:
    """Return a text and the seconds of a core that it took."""
    began = time.thread_time()
    return make(), time.thread_time() - began
