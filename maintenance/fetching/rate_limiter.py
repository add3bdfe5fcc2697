"""Limits that every request to a source passes: rate limits, the source's own Retry-After, the circuit breaker.

Times are those of a monotonic clock. The state that survives a restart is in wall clock time; a time in the future was
written by a clock that was wrong.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from freshkeeper.maintenance.fetching.breaker import LONGEST_WAIT, Breaker
from freshkeeper.maintenance.fetching.rate import Limit

LOGGER = logging.getLogger("freshkeeper")
SET = 10.0
"""Seconds by which the wall clock jumps when somebody sets it; less is drift."""


@dataclass(eq=False)
class RateLimiter:
    """Limits, pause and breaker of one source; threads may share it."""

    limits: Sequence[Limit] = ()
    breaker: Breaker = field(default_factory=Breaker)
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    paused: tuple[float, float] | None = None
    """since and until when the source wants no request"""
    sent: int = 0
    """requests so far"""
    _ahead: float = field(init=False)
    """how far the wall clock is ahead of the other"""
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._ahead = self.wall() - self.clock()

    def room(self, patience: float = 0.0) -> float:
        """Return how many requests may be sent now, or within `patience` seconds."""
        with self._lock:
            now = self.clock()
            if self._pause(now) > patience:
                return 0
            return min([self.breaker.room(now), *(limit.free(now + patience) for limit in self.limits)])

    def take(self) -> bool:
        """Count a request as sent, if one may be sent now; return whether it may."""
        with self._lock:
            now = self.clock()
            if self._wait(now) > 0:
                return False
            for limit in self.limits:
                limit.take(now)
            self.breaker.take(now)
            self.sent += 1
            return True

    def wait(self) -> float:
        """Return the seconds until the next request may be sent."""
        with self._lock:
            return self._wait(self.clock())

    def succeeded(self) -> None:
        """Note that a request was answered."""
        with self._lock:
            self.breaker.succeeded()

    def failed(self, wait: float | None = None) -> None:
        """Note that a request failed; a source that says how long to wait is not down."""
        with self._lock:
            now = self.clock()
            if wait is None:
                self.breaker.failed_once(now)
            else:
                self.breaker.probing = None
                self.paused = now, now + max(wait, self._pause(now))

    def why(self) -> str:
        """Return in words why nothing may be sent."""
        with self._lock:
            now = self.clock()
            if (pause := self._pause(now)) > 0:
                return f"the source wants no request for {pause:.0f} s"
            if self.breaker.wait(now) > 0:
                return f"the source failed {self.breaker.failed} times in a row"
            return "the rate limit is reached"

    def state(self, ahead: int = 0) -> dict[str, Any]:
        """Return what survives a restart, with `ahead` requests more that may have been sent by then."""
        with self._lock:
            add = self._wall_ahead()
            more = [[self.clock() + add, ahead]] if ahead else []
            limits = {limit.rate.written: limit.state(add) + more for limit in self.limits}
            paused = [at + add for at in self.paused] if self.paused else None
            return {"limits": limits, "paused": paused, "breaker": self.breaker.state(add)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume with the state of an earlier run; limits are found by how they are written."""
        with self._lock:
            less = -self._wall_ahead()
            for limit in self.limits:
                limit.restore(state.get("limits", {}).get(limit.rate.written, ()), less)
            self.paused = self._restored(state.get("paused"), less)
            self.breaker.restore(state.get("breaker", {}), less)

    def _restored(self, paused: Sequence[float] | float | None, less: float) -> tuple[float, float] | None:
        """Return a pause that was saved, no longer than it was then; earlier versions saved its end alone."""
        if not paused:
            return None
        now = self.clock()
        since, until = (at + less for at in (paused if isinstance(paused, Sequence) else (now - less, paused)))
        if since > now + SET or until > now + LONGEST_WAIT:
            LOGGER.warning("the clock was set back since a source said how long to wait: it is not waited for longer")
        back = max(0.0, since - now)
        return since - back, min(until - back, now + LONGEST_WAIT)

    def _wall_ahead(self) -> float:
        """Return how far the wall clock is ahead; constant until it is set, so that an unchanged state stays equal."""
        ahead = self.wall() - self.clock()
        if abs(ahead - self._ahead) > SET:
            if ahead < self._ahead:
                LOGGER.warning("the clock was set back by %.0f s: waits for sources do not change", self._ahead - ahead)
            self._ahead = ahead
        return self._ahead

    def _pause(self, now: float) -> float:
        """Return the seconds that are left of a pause."""
        since, until = self.paused or (now, now)
        if since <= now < until:
            return until - now
        return 0.0

    def _wait(self, now: float) -> float:
        waits = (limit.wait(now) for limit in self.limits)
        longest = max([0.0, self._pause(now), self.breaker.wait(now), *waits])
        if longest > 0:
            return longest
        return 0.0
