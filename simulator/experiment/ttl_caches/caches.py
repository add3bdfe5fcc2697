"""TTL caches on the same trace: the TTL for a target freshness, or for a number of requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from freshkeeper.simulator.experiment.point import EvaluationSeries, MeasuredPoint, Point
from freshkeeper.simulator.experiment.ttl_caches.cache_reads import Reads

TTL, REFRESH_AHEAD, UNCACHED, ONCE = "ttl", "refresh-ahead", "no-cache", "fetch-once"
NAMES = (TTL, REFRESH_AHEAD, UNCACHED, ONCE)
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
    _measured_by_ttl: dict[tuple[str, float], MeasuredPoint] = field(default_factory=dict)
    _found_ttls: dict[str, set[float]] = field(default_factory=lambda: {TTL: set(), REFRESH_AHEAD: set()})

    @property
    def shortest(self) -> int:
        """The shortest TTL: a step, as evaluations are a step apart."""
        return self.reads[0].step

    @cached_property
    def longest(self) -> int:
        """The longest TTL: as long as the trace lasts."""
        return self.shortest * (max(len(one.evaluations) for one in self.reads) + 1)

    @cached_property
    def uncached(self) -> MeasuredPoint:
        """The results without a cache."""
        return self._measured([one.uncached for one in self.reads])

    @cached_property
    def once(self) -> MeasuredPoint:
        """The results of a cache that fetches everything once."""
        return self._measured([one.once for one in self.reads])

    @property
    def most(self) -> float:
        """The largest number of requests of one evaluation."""
        return max(float(one.requests.max()) for one in self.uncached.series)

    def lasting(self, name: str, ttl_ms: float) -> MeasuredPoint:
        """Return the results of `ttl` or `refresh-ahead` with this TTL."""
        if (name, ttl_ms) not in self._measured_by_ttl:
            made = [one.lasting(ttl_ms, name == REFRESH_AHEAD) for one in self.reads]
            self._measured_by_ttl[name, ttl_ms] = self._measured(made)
        return self._measured_by_ttl[name, ttl_ms]

    def fresh(self, name: str, target: float) -> Point | None:
        """Find the longest TTL that keeps the target, or None."""
        ttl = self._longest(name, lambda found: found.share >= target)
        if ttl is None:
            return None
        self._found_ttls[name].add(ttl)
        return self.lasting(name, ttl).point(name, ttl)

    def spending(self, requests: float) -> tuple[MeasuredPoint, Point]:
        """Find the TTL cache that makes as many requests, or slightly more."""
        ttl = self.affording(requests)
        found = self.lasting(TTL, ttl)
        return found, found.point(TTL, ttl)

    def affording(self, requests: float) -> float:
        """Find the longest TTL that makes at least so many requests."""
        return self._longest(TTL, lambda found: found.requests >= requests) or float(self.shortest)

    def curve(self, name: str) -> list[Point]:
        """Return points for TTLs from a step to the whole time, including those found before."""
        wanted = {*np.geomspace(self.shortest, self.longest, CURVE).tolist(), *self._found_ttls[name]}
        return [self.lasting(name, ttl).point(name, ttl) for ttl in sorted(wanted)]

    def _longest(self, name: str, enough: Callable[[MeasuredPoint], bool]) -> float | None:
        """Bisect: freshness and requests fall with the TTL, so there is a longest one that is enough."""
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
