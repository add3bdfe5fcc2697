"""Caches without a budget over a whole trace at once: the policies `ttl` and its like, without a simulated world.

Such a cache has no choice to make, so what an evaluation reads is worked out once, and every time to live is then a
walk over it. A test holds it equal to the policies in the simulated world, evaluation by evaluation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, spread
from freshkeeper.policies.base import Case
from freshkeeper.simulator.experiment.point import EvaluationSeries
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.world.foresight import profiles
from freshkeeper.simulator.world.truth import schedule_of

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
