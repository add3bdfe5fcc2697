"""Series over the evaluations: means over seeds with bands, thinned to as many points as a screen shows."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.simulator.experiment.run_directory import Evaluations
from freshkeeper.simulator.report.intervals import halves

EPOCH_MS = 365 * 86_400_000
"""A later first instant is a date; an earlier one counts from some zero."""


PAUSE = 2.5
"""Points so many times farther apart than usual have a gap between them."""


class Measure(StrEnum):
    """What can be drawn over time."""

    FRESHNESS = "freshness"
    STALE = "stale"
    SPENT = "spent"


@dataclass(frozen=True, eq=False)
class Line:
    """One policy over time: x is k, or the instant where that is a date."""

    x: Floats
    mean: Floats
    half: Floats


@dataclass(frozen=True, eq=False)
class Grid:
    """One series as seeds × evaluations; NaN where a seed has no such evaluation."""

    x: Floats
    seeds: int
    _row: Ints
    _column: Ints

    @classmethod
    def of(cls, evaluations: Evaluations, rows: slice, dates: bool) -> "Grid":
        """Of the rows of one series; by instant where that is a date, because k begins anew after a restart."""
        x, column = np.unique(_x(evaluations, rows, dates), return_inverse=True)
        seeds, row = np.unique(evaluations.seed[rows], return_inverse=True)
        return cls(x, seeds.size, row, column)

    def spread(self, values: Floats) -> Floats:
        """A column of rows as the matrix."""
        matrix = np.full((self.seeds, self.x.size), np.nan)
        matrix[self._row, self._column] = values
        return matrix


def line(evaluations: Evaluations, series: int, measure: Measure, points: int, dates: bool = False) -> Line:
    """One measure of one series."""
    rows = evaluations.rows(series)
    grid = Grid.of(evaluations, rows, dates)
    values = grid.spread(_values(evaluations, rows, measure))
    if measure is Measure.STALE:
        begun = np.maximum.accumulate(~np.isnan(values), axis=1)  # the first evaluation that counts, and all later ones
        values = np.where(begun, np.nancumsum(values, axis=1), np.nan)
    each = -(-grid.x.size // points)
    starts = np.arange(0, grid.x.size, each)
    last = np.minimum(starts + each, grid.x.size) - 1
    binned = values[:, last] if measure is Measure.STALE else _means(values, starts)
    return _broken(grid.x[last], binned)


def _broken(x: Floats, values: Floats) -> Line:
    """From the first to the last point that is known; NaN where nothing is, and between points far apart."""
    known = np.flatnonzero(~np.isnan(values).all(axis=0))
    if not known.size:
        return Line(np.empty(0), np.empty(0), np.empty(0))
    inside = slice(int(known[0]), int(known[-1]) + 1)
    x, values = x[inside], values[:, inside]
    apart = np.diff(x)
    holes = np.flatnonzero(apart > PAUSE * np.median(apart)) if apart.size else np.empty(0, np.int64)
    x = np.insert(x, holes + 1, (x[holes] + x[np.minimum(holes + 1, x.size - 1)]) / 2)
    values = np.insert(values, holes + 1, np.nan, axis=1)
    number = (~np.isnan(values)).sum(axis=0)
    mean = np.divide(np.nansum(values, axis=0), number, out=np.full(x.size, np.nan), where=number > 0)
    return Line(x, mean, halves(values))


def are_dates(evaluations: Evaluations) -> bool:
    """Whether instants are dates that all runs share: one seed, and times far from zero."""
    times = evaluations.t_ms
    return np.unique(evaluations.seed).size == 1 and bool(times.size) and bool(np.min(times) >= EPOCH_MS)


def warmup_ends(evaluations: Evaluations, rows: slice, dates: bool) -> float | None:
    """Where the warm-up ends, halfway to the first evaluation that counts; None where all count."""
    counted = evaluations.counted[rows]
    if counted.all():
        return None
    x = _x(evaluations, rows, dates)
    before = float(x[~counted].max())
    after = x[counted & (x > before)]
    return float(before + after.min()) / 2 if after.size else before


def _x(evaluations: Evaluations, rows: slice, dates: bool) -> Floats:
    return evaluations.t_ms[rows] if dates else evaluations.k[rows].astype(np.float64)


def _values(evaluations: Evaluations, rows: slice, measure: Measure) -> Floats:
    if measure is Measure.SPENT:
        return evaluations.spent[rows]
    results, fresh = evaluations.results[rows], evaluations.fresh[rows]
    if measure is Measure.FRESHNESS:
        freshness: Floats = np.divide(fresh, results, out=np.full(results.size, np.nan), where=results > 0)
        return freshness
    return np.where(evaluations.counted[rows], results - fresh, np.nan)


def _means(values: Floats, starts: Ints) -> Floats:
    """Means over runs of columns, NaN left out."""
    number = np.add.reduceat((~np.isnan(values)).astype(np.float64), starts, axis=1)
    total = np.add.reduceat(np.nan_to_num(values), starts, axis=1)
    means: Floats = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return means
