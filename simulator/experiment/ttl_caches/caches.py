"""The caches that everybody runs today, on the same trace: how long entries may live, for a target or for requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from freshkeeper.simulator.experiment.point import EvaluationSeries, MeasuredPoint, Point
from freshkeeper.simulator.experiment.ttl_caches.cache_reads import Reads

TTL, AHEAD, UNCACHED, ONCE = "ttl", "refresh-ahead", "no-cache", "fetch-once"
NAMES = (TTL, AHEAD, UNCACHED, ONCE)
HALVINGS = 14
"""Of the time to live, as a ratio: to about a ten-thousandth of the longest one over the shortest."""
CURVE = 20
"""Points of a curve."""


@dataclass(eq=False)
class Caches:
    """Caches over the traces of all seeds."""

    reads: Sequence[Reads]
    warm_up: int
    drawn: bool
    halvings: int = HALVINGS
    _known: dict[tuple[str, float], MeasuredPoint] = field(default_factory=dict)
    _told: dict[str, set[float]] = field(default_factory=lambda: {TTL: set(), AHEAD: set()})

    @property
    def shortest(self) -> int:
        """The step: nothing is asked more often."""
        return self.reads[0].step

    @cached_property
    def longest(self) -> int:
        """As long as the trace lasts."""
        return self.shortest * (max(len(one.each) for one in self.reads) + 1)

    @cached_property
    def uncached(self) -> MeasuredPoint:
        """The source is asked every time."""
        return self._measured([one.uncached for one in self.reads])

    @cached_property
    def once(self) -> MeasuredPoint:
        """What was fetched is kept for ever."""
        return self._measured([one.once for one in self.reads])

    @property
    def most(self) -> float:
        """The most requests that one evaluation could need."""
        return max(float(one.requests.max()) for one in self.uncached.series)

    def lasting(self, name: str, ttl_ms: float) -> MeasuredPoint:
        """`ttl` or `refresh-ahead` with this time to live."""
        if (name, ttl_ms) not in self._known:
            made = [one.lasting(ttl_ms, name == AHEAD) for one in self.reads]
            self._known[name, ttl_ms] = self._measured(made)
        return self._known[name, ttl_ms]

    def fresh(self, name: str, target: float) -> Point | None:
        """The longest time to live that keeps the target; None where none does."""
        ttl = self._longest(name, lambda found: found.share >= target)
        if ttl is None:
            return None
        self._told[name].add(ttl)
        return self.lasting(name, ttl).point(name, ttl)

    def spending(self, requests: float) -> tuple[MeasuredPoint, Point]:
        """A TTL cache that makes as many requests as these, or a trifle more."""
        ttl = self.affording(requests)
        found = self.lasting(TTL, ttl)
        return found, found.point(TTL, ttl)

    def affording(self, requests: float) -> float:
        """How long entries live in that cache."""
        return self._longest(TTL, lambda found: found.requests >= requests) or float(self.shortest)

    def curve(self, name: str) -> list[Point]:
        """Times to live from a step to the whole time, those that were told before among them."""
        wanted = {*np.geomspace(self.shortest, self.longest, CURVE).tolist(), *self._told[name]}
        return [self.lasting(name, ttl).point(name, ttl) for ttl in sorted(wanted)]

    def _longest(self, name: str, enough: Callable[[MeasuredPoint], bool]) -> float | None:
        """Freshness and requests fall with the time to live, so halving finds where they are enough no more."""
        low, high = float(self.shortest), float(self.longest)
        if not enough(self.lasting(name, low)):
            return None
        if enough(self.lasting(name, high)):
            return high
        for _ in range(self.halvings):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if enough(self.lasting(name, middle)) else (low, middle)
        return low

    def _measured(self, series: Sequence[EvaluationSeries]) -> MeasuredPoint:
        return MeasuredPoint(series, self.warm_up, self.drawn)
