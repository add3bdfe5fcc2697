"""Points of the frontier: the freshness of a policy or a cache, and its requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from freshkeeper.maintenance.analysis.headline import seed_headline
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.stats import Estimate, estimate

BLOCKS, LEAST_IN_BLOCK = 20, 8
"""A recorded time is cut into at most so many blocks, of so many evaluations at least, to see how freshness varies."""


@dataclass(frozen=True, eq=False)
class EvaluationSeries:
    """Requests and answers of every evaluation; `arrived` are answers of what came since the previous one."""

    requests: Floats
    answers: Floats
    fresh: Floats
    arrived: Floats
    arrived_fresh: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float, float, float]]) -> "EvaluationSeries":
        """Make a series of one row per evaluation, in the order of the columns."""
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 5).T)


@dataclass(frozen=True)
class Point:
    """Freshness over the evaluations that count, at so many requests per evaluation of them."""

    curve: str
    knob: float
    """γ of a policy, the time to live of a cache in ms"""
    requests: float
    freshness: Estimate
    """per window: every answer of every evaluation"""
    arrival: Estimate
    """the freshness of arrivals, each counted once"""


@dataclass(frozen=True, eq=False)
class MeasuredPoint:
    """The series of all seeds of one point, and which evaluations count."""

    series: Sequence[EvaluationSeries]
    warm_up: int
    drawn: bool
    """true if every seed draws a trace; for a recorded trace seeds only break ties, and intervals are over time"""

    def point(self, curve: str, knob: float) -> Point:
        """Return the point of a curve at this setting of its knob."""
        return Point(curve, knob, self.requests, self._estimate(False), self._estimate(True))

    def ahead(self, other: "MeasuredPoint") -> Estimate:
        """Estimate by how much more answers are fresh than the other's, paired by seeds or blocks of time."""
        return estimate(self._parts(False) - other._parts(False))

    @property
    def requests(self) -> float:
        """Per evaluation that counts."""
        return float(np.mean([one.requests[self.warm_up :].mean() for one in self.series]))

    @property
    def share(self) -> float:
        """The mean share of fresh answers over the seeds, without an interval."""
        return float(np.nanmean([_share(one, self.warm_up) for one in self.series]))

    @property
    def pooled(self) -> float:
        """The fresh answers of the evaluations that count over all their answers."""
        fresh = sum(float(one.fresh[self.warm_up :].sum()) for one in self.series)
        answers = sum(float(one.answers[self.warm_up :].sum()) for one in self.series)
        return fresh / answers if answers else nan

    def _estimate(self, arrived: bool) -> Estimate:
        spread = estimate(self._parts(arrived))
        by_seed = self._by_seed(arrived)
        mean = float(np.nanmean(by_seed)) if by_seed.size else nan
        return Estimate(mean, spread.half, spread.seeds)

    def _by_seed(self, arrived: bool) -> Floats:
        of_seed = _pooled if arrived else _share
        return np.array([of_seed(one, self.warm_up) for one in self.series])

    def _parts(self, arrived: bool) -> Floats:
        """Return freshness by seed if seeds drew traces, or by block of time (means over seeds)."""
        if self.drawn and len(self.series) > 1:
            return self._by_seed(arrived)
        blocks = np.array([_blocks(one, self.warm_up, arrived) for one in self.series])
        return np.asarray(blocks.mean(axis=0))


def _share(series: EvaluationSeries, warm_up: int) -> float:
    counts = np.arange(series.answers.size) >= warm_up
    return seed_headline(series.fresh, series.answers, counts).freshness


def _pooled(series: EvaluationSeries, warm_up: int) -> float:
    came = series.arrived[warm_up:].sum()
    if not came:
        return nan
    return float(series.arrived_fresh[warm_up:].sum() / came)


def _blocks(series: EvaluationSeries, warm_up: int, arrived: bool) -> Floats:
    """Return the freshness of successive stretches with equally many evaluations."""
    whole, part = (series.arrived, series.arrived_fresh) if arrived else (series.answers, series.fresh)
    counted = np.flatnonzero((np.arange(whole.size) >= warm_up) & (whole > 0))
    number = min(BLOCKS, counted.size // LEAST_IN_BLOCK)
    if number < 2:
        return np.empty(0)
    stretches = np.array_split(counted, number)
    if arrived:
        return np.array([part[rows].sum() / whole[rows].sum() for rows in stretches])
    return np.array([(part[rows] / whole[rows]).mean() for rows in stretches])
