"""Limits that every request to a source passes: rate limits, the source's own Retry-After, the circuit breaker.

Times are those of a monotonic clock. The state that survives a restart is in wall clock time; a time in the future was
written by a clock that was wrong.
"""

import logging
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from freshkeeper.maintenance.base.durations import to_ms
from freshkeeper.maintenance.base.errors import ConfigError

GRAINS = 1000
_RATE_PATTERN = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{0,12})\s*([a-z]+)\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Rate:
    """A number of requests in a period."""

    requests: int
    period: float
    written: str

    @classmethod
    def of(cls, written: str) -> "Rate":
        """Read a rate from text: 10/s, 300/15min, 1000/day."""
        found = _RATE_PATTERN.fullmatch(written)
        try:
            period = to_ms(f"{found[2] or 1}{found[3]}") / 1000 if found else 0.0
        except ValueError:
            period = 0.0
        if not found or not period or not int(found[1]):
            raise ConfigError(f"{written!r} is no limit: write 10/s, 300/15min or 1000/day")
        return cls(int(found[1]), period, written.strip())


@dataclass(eq=False)
class Limit:
    """The requests that were sent under one rate: at most so many in any stretch of a period.

    The window slides: a limit of a fixed window lets twice as many through around its edge, which a source that counts
    otherwise answers with 429. Sent requests are kept in grains of a thousandth of the period, rounded up, so that a
    limit of a million a day needs a thousand numbers.
    """

    rate: Rate
    sent: deque[tuple[float, int]] = field(default_factory=deque)
    """grains, oldest first: the time that stands for them, and how many"""

    def free(self, now: float) -> int:
        return max(0, self.rate.requests - sum(count for _, count in self._within(now)))

    def wait(self, now: float) -> float:
        """Return the seconds until one more request may be sent."""
        if self.free(now):
            return 0.0
        within = self._within(now)
        over = sum(count for _, count in within) - self.rate.requests
        for at, count in within:
            over -= count
            if over < 0:
                return at + self.rate.period - now
        return self.rate.period

    def take(self, now: float) -> None:
        while self.sent and self.sent[0][0] <= now - self.rate.period:
            self.sent.popleft()
        # Rounded up: no request leaves the window before its period is over.
        grain = self.rate.period / GRAINS
        at = math.ceil(now / grain) * grain
        count = self.sent.pop()[1] if self.sent and self.sent[-1][0] == at else 0
        self.sent.append((at, count + 1))

    def _within(self, now: float) -> list[tuple[float, int]]:
        """Return the grains that count now; those a period ahead were written by a clock that was wrong."""
        since, until = now - self.rate.period, now + self.rate.period
        return [(at, count) for at, count in self.sent if since < at < until]

    def state(self, add: float = 0.0) -> list[list[float]]:
        """Return the grains; times are shifted by `add` seconds to another clock."""
        return [[at + add, count] for at, count in self.sent]

    def restore(self, grains: Sequence[Sequence[float]], add: float = 0.0) -> None:
        """Resume with the grains of an earlier run; times are shifted by `add` seconds to this clock."""
        self.sent = deque((float(at) + add, int(count)) for at, count in grains)


LONGEST_WAIT = 86_400.0
"""Seconds that a source may ask to be left alone; what it asks beyond is cut."""


@dataclass(eq=False)
class Breaker:
    """Closed while requests succeed; open for `cool_down` seconds after so many failures in a row; then one probe."""

    failures: int = 5
    cool_down: float = 30.0
    failed: int = 0
    opened: float | None = None
    probing: float | None = None
    """since when a probe is under way; one that nobody hears of again is over after a cool-down"""

    def room(self, now: float) -> float:
        if self.opened is None:
            return math.inf
        if self.wait(now) == 0:
            return 1
        return 0

    def wait(self, now: float) -> float:
        """Return the seconds until one request may pass."""
        since = self.opened if self.probing is None else self.probing
        if since is None or since > now:  # later than now: written by a clock that was wrong
            return 0.0
        return max(0.0, since + self.cool_down - now)

    def take(self, now: float) -> None:
        """Let a request pass; if the breaker is open, the request is the probe."""
        self.probing = None if self.opened is None else now

    def succeeded(self) -> None:
        self.failed, self.opened, self.probing = 0, None, None

    def failed_once(self, now: float) -> None:
        """Count a failure; a probe that fails opens the breaker again."""
        self.failed += 1
        if self.probing is not None or (self.opened is None and self.failed >= self.failures):
            self.opened = now
        self.probing = None

    def state(self, add: float = 0.0) -> dict[str, Any]:
        """Return the state to save; times are shifted by `add` seconds to another clock."""
        return {"failed": self.failed, "opened": None if self.opened is None else self.opened + add}

    def restore(self, state: Mapping[str, Any], add: float = 0.0) -> None:
        """Resume with the state of an earlier run; its times are shifted by `add` seconds to this clock."""
        opened = state.get("opened")
        self.failed, self.opened = int(state.get("failed", 0)), None if opened is None else opened + add


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
        with self._lock:
            now = self.clock()
            # What is free within `patience` counts: requests wait that long in their threads.
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
        with self._lock:
            self.breaker.succeeded()

    def failed(self, wait: float | None = None) -> None:
        """Note that a request failed; a source that says how long to wait is not down."""
        with self._lock:
            now = self.clock()
            if wait is None:
                self.breaker.failed_once(now)
            else:
                # A Retry-After is an answer: the source is up, so it does not count as a failure of the breaker.
                self.breaker.probing = None
                self.paused = now, now + max(wait, self._pause(now))

    def why(self) -> str:
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

    def _restored(self, paused: Sequence[float] | None, less: float) -> tuple[float, float] | None:
        """Return a pause that was saved, no longer than it was then."""
        if not paused:
            return None
        now = self.clock()
        since, until = (at + less for at in paused)
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
