"""Points of the frontier: the freshness of a policy or a cache, and its requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.stats import Estimate, estimate

BLOCKS, LEAST_IN_BLOCK = 20, 8
"""A recorded time is cut into at most so many blocks, of so many evaluations at least, to see how freshness varies."""


@dataclass(frozen=True, eq=False)
class EvaluationSeries:
    """Requests, answers and fresh answers of every evaluation."""

    requests: Floats
    answers: Floats
    fresh: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float]]) -> "EvaluationSeries":
        """Make a series of one row per evaluation, in the order of the columns."""
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 3).T)


@dataclass(frozen=True)
class Point:
    """Fresh answers over all answers of the evaluations that count, at so many requests per evaluation of them."""

    curve: str
    knob: float
    """γ of a policy, the time to live of a cache in ms"""
    requests: float
    freshness: Estimate


@dataclass(frozen=True, eq=False)
class MeasuredPoint:
    """The series of all seeds of one point, and which evaluations count."""

    series: Sequence[EvaluationSeries]
    warm_up: int
    drawn: bool
    """true if every seed draws a trace; for a recorded trace seeds only break ties, and intervals are over time"""

    def point(self, curve: str, knob: float) -> Point:
        """Return the point of a curve at this setting of its knob."""
        spread = estimate(self._parts())
        return Point(curve, knob, self.requests, Estimate(self.share, spread.half, spread.seeds))

    def ahead(self, other: "MeasuredPoint") -> Estimate:
        """Estimate by how much more answers are fresh than the other's, paired by seeds or blocks of time."""
        spread = estimate(self._parts() - other._parts())
        return Estimate(self.share - other.share, spread.half, spread.seeds)

    @property
    def requests(self) -> float:
        """Per evaluation that counts."""
        return float(np.mean([one.requests[self.warm_up :].mean() for one in self.series]))

    @property
    def share(self) -> float:
        """Fresh answers over all answers, pooled over the evaluations that count; the mean over the seeds."""
        return float(np.nanmean([_pooled(one, slice(self.warm_up, None)) for one in self.series]))

    def _parts(self) -> Floats:
        """Return freshness by seed if seeds drew traces, or by block of time (means over seeds)."""
        if self.drawn and len(self.series) > 1:
            return np.array([_pooled(one, slice(self.warm_up, None)) for one in self.series])
        blocks = np.array([_blocks(one, self.warm_up) for one in self.series])
        return np.asarray(blocks.mean(axis=0))


def _pooled(series: EvaluationSeries, rows: "slice[int, None, None] | Ints") -> float:
    answers = series.answers[rows].sum()
    return float(series.fresh[rows].sum() / answers) if answers else nan


def _blocks(series: EvaluationSeries, warm_up: int) -> Floats:
    """Return the freshness of successive stretches with equally many evaluations."""
    counted = np.flatnonzero((np.arange(series.answers.size) >= warm_up) & (series.answers > 0))
    number = min(BLOCKS, counted.size // LEAST_IN_BLOCK)
    if number < 2:
        return np.empty(0)
    return np.array([_pooled(series, rows) for rows in np.array_split(counted, number)])
