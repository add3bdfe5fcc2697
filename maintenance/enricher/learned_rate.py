"""The rate of requests that a source takes, learned from its refusals (429, Retry-After).

A source that refuses says nothing of its limit but that it was exceeded. After a refusal, and the pause that the source
asks for, requests are sent at most at the rate at which it accepted them within the last second. Near the rate of the
last refusal this rate grows slowly, so that refusals and their pauses become rare; far below it, it grows quickly.
"""

import math
from collections import deque
from dataclasses import dataclass, field

WINDOW_S = 1.0
MARGIN = 0.95
"""The part of the accepted rate at which requests go on after a refusal."""
DECREASE = 0.7
"""A refusal within a second after a pause lowers the rate by this factor: bursts before it had misled."""
NEAR = 0.92
"""From this part of the rate of the last refusal on, the rate grows slowly."""
FAST_GROWTH, SLOW_GROWTH = 0.15, 0.0015
"""By so much the rate grows with each request that is accepted, in requests per second."""
BURST_S = 0.1
MIN_BURST = 1.5
"""Requests that were not sent in time are made up for, as many as belong to so many seconds, and at least so many."""
MIN_RATE = 0.05
FORGET_S = 3600.0
"""Without a refusal for so long the source is taken to have no limit."""


@dataclass(eq=False)
class LearnedRate:
    """A token bucket whose rate follows what the source accepts; without refusals it never holds anything back."""

    rate: float = math.inf
    """requests per second"""
    paused_until: float = -math.inf
    why: str = ""
    """the last refusal in words"""
    ceiling: float = math.inf
    """the rate of the last refusal; before one, the rate of the budget, which often is what the source permits"""
    _tokens: float = 0.0
    _filled_at: float = 0.0
    _refused_at: float = -math.inf
    _accepted: deque[float] = field(default_factory=lambda: deque(maxlen=1000))

    def ready(self, now: float) -> bool:
        """Return whether a request may go now, in seconds of a steady clock."""
        if self.rate == math.inf:
            return True
        if now < self.paused_until:
            return False
        elapsed = max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(max(MIN_BURST, self.rate * BURST_S), self._tokens + self.rate * elapsed)
        if now - self._refused_at > FORGET_S:
            self.rate = math.inf
        return self._tokens >= 1.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may go."""
        missing = 0.0 if self.rate == math.inf else max(0.0, 1.0 - self._tokens) / self.rate
        return max(self.paused_until - now, missing)

    def take(self) -> None:
        """Count a request."""
        self._tokens -= 1.0

    def accepted(self, now: float) -> None:
        """Note that the source did what it was asked for."""
        self._accepted.append(now)
        if self.rate < math.inf:
            self.rate += FAST_GROWTH if self.rate < NEAR * self.ceiling else SLOW_GROWTH

    def refused(self, now: float, wait: float, why: str) -> None:
        """Note that the source wants no request for `wait` seconds; requests under way that it refuses count once."""
        self.why = why
        first, resumed = now >= self.paused_until, self.paused_until
        self.paused_until = max(self.paused_until, now + wait)
        if not first:
            return
        lately = sum(at > now - WINDOW_S for at in self._accepted)
        measured = min(lately / WINDOW_S, self.rate, self.ceiling)
        if now - resumed < WINDOW_S:
            measured *= DECREASE
        if self.rate < math.inf:
            self.ceiling = self.rate
        self.rate = max(MARGIN * measured, MIN_RATE)
        self._tokens, self._filled_at, self._refused_at = 0.0, self.paused_until, now
