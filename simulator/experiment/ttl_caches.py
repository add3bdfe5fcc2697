"""Caches without a budget over a whole trace at once: the policies `ttl` and its like, without a simulated world.

Such a cache has no choice to make, so what an evaluation reads is worked out once, and every time to live is then a
walk over it. A test holds it equal to the policies in the simulated world, evaluation by evaluation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from freshkeeper.maintenance.analysis.headline import seed_headline
from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, spread
from freshkeeper.policies.base import Case
from freshkeeper.simulator.experiment.point import EvaluationSeries, MeasuredPoint, Point
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.world.truth import profiles, schedule_of

UNLIMITED_TTL = 2**40
"""A time to live in evaluations that none outlives."""


@dataclass(frozen=True, eq=False)
class EvaluationReads:
    """The reads of one evaluation: its SNs, and the SRs of each SN one after another."""

    sr: Ids
    starts: Ints
    degree: Ints
    mappings: Floats
    missing: Bools
    """which SRs are of an SN that was never asked for before, where the cache starts empty"""
    misses: int
    """how many such SNs there are: one request brings all SRs of one"""
    changed: Ids
    """the SRs that changed since the evaluation before"""

    def judged(self, fresh: Bools, case: Case) -> tuple[float, float]:
        """Return all answers and fresh answers."""
        if case is Case.BGP:
            whole, good = self.degree, np.add.reduceat(np.append(fresh, False).astype(np.int64), self.starts)
        else:
            whole, good = np.minimum(self.degree, 1), np.logical_and.reduceat(np.append(fresh, True), self.starts)
        good = np.where(self.degree > 0, good, 0)
        return float(self.mappings @ whole), float(self.mappings @ good)


@dataclass(frozen=True, eq=False)
class Reads:
    """The reads of every evaluation of a task."""

    evaluations: list[EvaluationReads]
    srs: int
    case: Case
    step: int

    @classmethod
    def of(cls, task: Task) -> "Reads":
        """Work the reads out; none depends on the cache."""
        return cls(list(_reads(task)), task.trace.srs, task.setting.case, task.setting.experiment.step)

    def cached(self, patience: Ints, ahead: bool = False) -> EvaluationSeries:
        """Simulate a cache that keeps a copy of SR j for less than `patience[j]` evaluations.

        With `ahead` it renews what was read since it came, also where nothing reads it now.
        """
        fetched, changed = np.zeros(self.srs, np.int64), np.zeros(self.srs, np.int64)
        read_at = np.zeros(self.srs, np.int64)
        rows = []
        for k, read in enumerate(self.evaluations, 1):
            changed[read.changed] = k
            due = np.zeros(self.srs, bool)
            known = read.sr[~read.missing]
            due[known[k - fetched[known] >= patience[known]]] = True
            if ahead:
                due |= (read_at > fetched) & (k - fetched >= patience)
                read_at[read.sr] = k
            fetched[due] = k
            fetched[read.sr[read.missing]] = k
            fresh = fetched[read.sr] >= changed[read.sr]
            rows.append((float(np.count_nonzero(due) + read.misses), *read.judged(fresh, self.case)))
        return EvaluationSeries.of(rows)

    def lasting(self, ttl_ms: float, ahead: bool = False) -> EvaluationSeries:
        """Simulate a TTL that need not be a multiple of the step: entries have one of the two nearest multiples.

        As evaluations are a step apart, so are the ages of copies; half of the entries having a step more than the
        others is what lies between one multiple and the next.
        """
        share = (np.random.default_rng(0).permutation(self.srs) + 0.5) / max(1, self.srs)
        return self.cached(np.maximum(1, np.floor(ttl_ms / self.step + share)).astype(np.int64), ahead)

    @property
    def uncached(self) -> EvaluationSeries:
        """The series without a cache: every read is a request."""
        return self.cached(np.zeros(self.srs, np.int64))

    @property
    def once(self) -> EvaluationSeries:
        """The series of a cache that fetches everything once."""
        return self.cached(np.full(self.srs, UNLIMITED_TTL))


def _reads(task: Task) -> Iterator[EvaluationReads]:
    trace, graph = task.trace, task.graph
    window = task.setting.window(trace.t0)
    held = profiles(trace, window, task.evaluations)
    unknown = np.full(trace.sns, task.setting.experiment.start == "cold")
    schedule, before = schedule_of(trace), window.start
    for k in range(task.evaluations):
        sn = held.indices[held.indptr[k] : held.indptr[k + 1]].astype(np.int64)
        mappings = held.data[held.indptr[k] : held.indptr[k + 1]].astype(np.float64)
        sn, mappings = sn[mappings > 0], mappings[mappings > 0]
        degree = np.diff(graph.sn_start)[sn]
        missing = unknown[sn]
        unknown[sn] = False
        now = window.instant(k + 1)
        _, changed = schedule.changes(before, now)
        before = now
        yield EvaluationReads(
            sr=graph.sn_neighbours[spread(graph.sn_start[sn], degree)],
            starts=np.cumsum(degree) - degree,
            degree=degree,
            mappings=mappings,
            missing=np.repeat(missing, degree),
            misses=int(np.count_nonzero(missing)),
            changed=np.unique(changed).astype(np.int32),
        )


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


MOST_READ = 20_000_000
"""SRs in the window, summed over evaluations, up to which caches are worked out: they are held in memory."""
HALVINGS = 8
"""Bisections of the TTL; the rest is a negligible number of requests."""


@dataclass(frozen=True)
class Cache:
    """The results of one cache with one seed, over the evaluations that count."""

    policy: str
    ttl_ms: float | None
    freshness: float
    pooled: float
    requests: float


def cache_baselines(task: Task) -> tuple[list[dict[str, Any]], str]:
    """Return the four caches as plain data, or none and the reason."""
    if not task.setting.experiment.baselines:
        return [], "they were not asked for"
    if not task.setting.experiment.remote.instantaneous:
        return [], "they are worked out only for a source that answers at once and never fails"
    if most_read(task) > MOST_READ:
        return [], "they would take long; name them with --policy ttl,refresh-ahead,no-cache,fetch-once"
    caches = Caches([Reads.of(task)], task.warm_up, drawn=True, halvings=HALVINGS)
    if not caches.once.series[0].answers[task.warm_up :].any():
        return [], "no evaluation that counts has answers"
    return [asdict(cache) for cache in _caches(caches, float(task.setting.rule.per_evaluation))], ""


def _caches(caches: Caches, budget: float) -> list[Cache]:
    """Return no-cache and fetch-once, and between them caches with the TTL that so many requests allow."""
    ttl_ms = caches.affording(budget)
    return [
        _cache(UNCACHED, None, caches.uncached),
        _cache(TTL, ttl_ms, caches.lasting(TTL, ttl_ms)),
        _cache(REFRESH_AHEAD, ttl_ms, caches.lasting(REFRESH_AHEAD, ttl_ms)),
        _cache(ONCE, None, caches.once),
    ]


def _cache(name: str, ttl_ms: float | None, found: MeasuredPoint) -> Cache:
    (series,) = found.series
    counts = np.arange(series.answers.size) >= found.warm_up
    # As for policies: the mean over evaluations, which the paper reports.
    freshness = seed_headline(series.fresh, series.answers, counts).freshness
    return Cache(name, ttl_ms, freshness, found.share, found.requests)


def most_read(task: Task) -> int:
    """Return an upper bound of the reads of all windows: arrivals times windows, or edges times evaluations."""
    chosen, trace = task.setting.experiment, task.trace
    windows = -(-chosen.window // chosen.step)
    needed = int(np.diff(task.graph.sn_start)[trace.arrivals.sn].sum())
    return min(windows * needed, trace.edges.sn.size * task.evaluations)
