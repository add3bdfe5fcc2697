"""The gate that every request to a source passes: rate limits, the source's own Retry-After, the circuit breaker."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from freshkeeper.maintenance.service.limits.breaker import Breaker
from freshkeeper.maintenance.service.limits.rate import Limit


@dataclass(eq=False)
class RateLimiter:
    """Limits, pause and breaker of one source, over the wall clock; threads may share it."""

    limits: Sequence[Limit] = ()
    breaker: Breaker = field(default_factory=Breaker)
    clock: Callable[[], float] = time.time
    paused: float = 0.0
    """until when the source wants no request"""
    sent: int = 0
    """requests so far"""
    _lock: Lock = field(default_factory=Lock)

    def room(self, patience: float = 0.0) -> float:
        """How many requests may be sent now, or within so many seconds."""
        with self._lock:
            now = self.clock()
            if self.paused > now + patience:
                return 0
            return min([self.breaker.room(now), *(limit.free(now + patience) for limit in self.limits)])

    def take(self) -> bool:
        """Send one now, if that may be."""
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
        """Seconds until the next one may be sent."""
        with self._lock:
            return self._wait(self.clock())

    def succeeded(self) -> None:
        """A request was answered."""
        with self._lock:
            self.breaker.succeeded()

    def failed(self, wait: float | None = None) -> None:
        """A request failed; a source that says how long to wait is not down."""
        with self._lock:
            now = self.clock()
            if wait is None:
                self.breaker.failed_once(now)
            else:
                self.breaker.probing = None
                self.paused = max(self.paused, now + wait)

    def why(self) -> str:
        """Why nothing is sent, for people."""
        with self._lock:
            now = self.clock()
            if self.paused > now:
                return f"the source wants no request for {self.paused - now:.0f} s"
            if self.breaker.wait(now) > 0:
                return f"the source failed {self.breaker.failed} times in a row"
            return "the rate limit is reached"

    def state(self, ahead: int = 0) -> dict[str, Any]:
        """What must survive a restart, with so many requests more that may be sent."""
        with self._lock:
            more = [[self.clock(), ahead]] if ahead else []
            limits = {limit.rate.written: limit.state() + more for limit in self.limits}
            return {"limits": limits, "paused": self.paused, "breaker": self.breaker.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run; limits are found by how they are written."""
        with self._lock:
            for limit in self.limits:
                limit.restore(state.get("limits", {}).get(limit.rate.written, ()))
            self.paused = float(state.get("paused", 0.0))
            self.breaker.restore(state.get("breaker", {}))

    def _wait(self, now: float) -> float:
        waits = (limit.wait(now) for limit in self.limits)
        longest = max([0.0, self.paused - now, self.breaker.wait(now), *waits])
        return longest if longest > 0 else 0.0
