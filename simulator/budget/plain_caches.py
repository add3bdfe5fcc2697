"""Caches that set no budget, played on a log of reads: TTL, waiting or serving stale, refresh-ahead, and none at all.

Such a cache has nothing to choose, so each key is worked out on its own: a cycle is a fetch and the reads until the
next one, which binary search finds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import log

from freshkeeper.simulator.budget.read_log import ReadLog

GRID = 12
"""Times to live that are tried first, from the shortest to the longest."""
REFINEMENTS = 8
CLOSE = 1.005
"""A time to live is found when the next longer one that was tried is at most this much longer."""


class CacheKind(Enum):
    """The ways in which a cache treats a copy that has outlived its time."""

    TTL = "TTL, reads wait"
    TTL_STALE = "TTL, serves stale"
    REFRESH_AHEAD = "refresh-ahead"
    NONE = "no cache"


@dataclass(frozen=True)
class CacheRun:
    """The counts of a cache on a log."""

    ttl: float
    requests: int
    right: int
    waited: int
    reads: int

    @property
    def fresh(self) -> float:
        """Right reads over all reads."""
        return self.right / self.reads


@dataclass(eq=False)
class PlainCaches:
    """The caches of every kind and time to live on one log."""

    log: ReadLog
    _by_key: list[tuple[list[float], list[int], Sequence[float]]] = field(default_factory=list)
    _runs: dict[tuple[CacheKind, float], CacheRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_key: dict[str, tuple[list[float], list[int]]] = {}
        for at, key, version in zip(self.log.times, self.log.keys, self.log.versions, strict=True):
            times, versions = by_key.setdefault(key, ([], []))
            times.append(at)
            versions.append(version)
        self._by_key = [(*each, self.log.changes.get(key, ())) for key, each in by_key.items()]
        # Shorter than the gap between two reads of a key, a time to live makes no difference.
        self.shortest = max(1.0, self.log.span / 1e6)
        self.longest = 2 * self.log.span

    def run(self, kind: CacheKind, ttl: float) -> CacheRun:
        """Play a cache on the log."""
        found = self._runs.get((kind, ttl))
        if found is None:
            found = self._runs[kind, ttl] = self._play(kind, ttl)
        return found

    def runs(self, kind: CacheKind) -> list[CacheRun]:
        """Return all runs of a kind so far, by their requests."""
        return sorted((run for (each, _), run in self._runs.items() if each is kind), key=lambda run: run.requests)

    def for_target(self, kind: CacheKind, target: float) -> CacheRun | None:
        """Find the longest time to live that keeps the target; None if none does."""
        return self._longest(kind, lambda run: run.fresh >= target)

    def for_requests(self, kind: CacheKind, requests: float) -> CacheRun:
        """Find the time to live that makes at least so many requests, or the shortest one."""
        return self._longest(kind, lambda run: run.requests >= requests) or self.run(kind, self.shortest)

    def _longest(self, kind: CacheKind, enough: Callable[[CacheRun], bool]) -> CacheRun | None:
        if kind is CacheKind.NONE:
            run = self.run(kind, 0.0)
            return run if enough(run) else None
        ratio = (self.longest / self.shortest) ** (1 / (GRID - 1))
        low, high = None, None
        for step in reversed(range(GRID)):
            run = self.run(kind, self.shortest * ratio**step)
            if enough(run):
                low = run
                break
            high = run
        if low is None or high is None:
            return low
        for _ in range(REFINEMENTS):
            if high.ttl <= CLOSE * low.ttl:
                break
            run = self.run(kind, (low.ttl * high.ttl) ** 0.5)
            low, high = (run, high) if enough(run) else (low, run)
        return low

    def _play(self, kind: CacheKind, ttl: float) -> CacheRun:
        reads = len(self.log.times)
        if kind is CacheKind.NONE:
            return CacheRun(0.0, reads, reads, reads, reads)
        requests = right = waited = 0
        for times, versions, changes in self._by_key:
            if kind is CacheKind.REFRESH_AHEAD:
                counts = _ahead(times, versions, changes, ttl)
            else:
                counts = _on_read(times, versions, ttl)
            requests += counts[0]
            right += counts[1]
            waited += counts[2]
        if kind is CacheKind.TTL_STALE:
            right -= sum(_served_stale(times, versions, ttl) for times, versions, _ in self._by_key)
            waited = len(self._by_key)
        return CacheRun(ttl, requests, right, waited, reads)


def _on_read(times: Sequence[float], versions: Sequence[int], ttl: float) -> tuple[int, int, int]:
    """Return requests, right reads and reads that waited, where the first read after the time to live fetches."""
    requests = right = first = 0
    while first < len(times):
        after = bisect_left(times, times[first] + ttl, first + 1)
        requests += 1
        right += bisect_right(versions, versions[first], first, after) - first
        first = after
    return requests, right, requests


def _served_stale(times: Sequence[float], versions: Sequence[int], ttl: float) -> int:
    """Return how many reads that fetch are wrong if they get the old row."""
    wrong, first = 0, 0
    while True:
        after = bisect_left(times, times[first] + ttl, first + 1)
        if after == len(times):
            return wrong
        wrong += versions[after] != versions[first]
        first = after


def _ahead(
    times: Sequence[float], versions: Sequence[int], changes: Sequence[float], ttl: float
) -> tuple[int, int, int]:
    """Return the same where a copy that was read is renewed when its time is over, and others are dropped."""
    requests = right = waited = 0
    first = 0
    while first < len(times):
        fetched, version = times[first], versions[first]
        requests += 1
        waited += 1
        while True:
            after = bisect_left(times, fetched + ttl, first)
            right += max(0, bisect_right(versions, version, first, after) - first)
            if after == first:
                break  # not read since it was fetched
            first = after
            if first == len(times):
                break
            fetched += ttl
            version = bisect_right(changes, fetched)
            requests += 1
    return requests, right, waited


def staleness_log(fresh: float) -> float:
    """Return the logarithm of the share of wrong reads, which falls about linearly with that of the budget."""
    return log(max(1.0 - fresh, 1e-6))
