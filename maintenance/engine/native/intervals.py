"""Bags of rows that hold during [since, until), in evaluations of a batch: how often each row is present, and when.

GROUP BY with COUNT over such rows has a new row of a group whenever its counts change.
"""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.columns.id_rows import number_columns
from freshkeeper.maintenance.engine.native.answer_columns import GroupRows


@dataclass(frozen=True, eq=False)
class Intervals:
    """Rows of ids, and the interval during which each holds."""

    rows: Ints
    """variables × rows"""
    since: Ints
    until: Ints

    def __len__(self) -> int:
        return self.since.size

    def take(self, which: Ints) -> "Intervals":
        """Return the intervals at these positions."""
        return Intervals(self.rows[:, which], self.since[which], self.until[which])

    def with_rows(self, rows: Ints) -> "Intervals":
        """Return the same intervals with other columns."""
        return Intervals(rows, self.since, self.until)

    def at_each(self, count: int) -> tuple[Ints, Ints]:
        """Return each evaluation of a batch of `count`, in order, beside the position of every row that holds then."""
        begin = np.maximum(self.since, 0)
        sizes = np.maximum(np.minimum(self.until, count) - begin, 0)
        places = np.repeat(np.arange(len(self)), sizes)
        ticks = np.arange(places.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + begin[places]
        order = np.argsort(ticks, kind="stable")
        return ticks[order], places[order]


@dataclass(frozen=True, eq=False)
class Segments:
    """The multiplicity of each distinct row, from one change to the next."""

    first: Ints
    """the position of one occurrence of the row"""
    since: Ints
    until: Ints
    totals: Ints
    """weights × segments"""
    change: Ints
    """what was added at `since`"""


def segments(found: Intervals, weights: Ints) -> Segments:
    """Return the sums of weights (weights × rows) over equal rows, as a step function of time."""
    numbers, _ = number_columns(found.rows)
    # Every interval adds its weight at `since` and subtracts it at `until`. Sorted by row and time, the running sums
    # within a row are its totals.
    ending = np.flatnonzero(found.until < DISTANT_FUTURE)
    places = np.concatenate([np.arange(len(found)), ending])
    ticks = np.concatenate([found.since, found.until[ending]])
    added = np.concatenate([weights, -weights[:, ending]], axis=1)
    order = np.lexsort((ticks, numbers[places]))
    places, ticks, added = places[order], ticks[order], added[:, order]
    groups = numbers[places]
    if not places.size:
        return Segments(places, ticks, ticks, added, added)
    other = np.append(True, groups[1:] != groups[:-1])
    starts = np.flatnonzero(other | np.append(True, ticks[1:] != ticks[:-1]))
    change = np.add.reduceat(added, starts, axis=1)
    running = np.cumsum(change, axis=1)
    heads = np.flatnonzero(other[starts])
    before = np.repeat(running[:, heads] - change[:, heads], np.diff(np.append(heads, starts.size)), axis=1)
    since = ticks[starts]
    until = np.append(since[1:], DISTANT_FUTURE)
    until[np.append(heads[1:], starts.size) - 1] = DISTANT_FUTURE
    return Segments(places[starts], since, until, running - before, change)


def distinct_intervals(found: Intervals) -> Intervals:
    """Return each distinct row once, with the intervals during which any of its occurrences holds."""
    parts = segments(found, np.ones((1, len(found)), np.int64))
    there = np.flatnonzero(parts.totals[0] > 0)
    return Intervals(found.rows[:, parts.first[there]], parts.since[there], parts.until[there])


def changed_rows(found: Intervals, sign: int) -> tuple[Ints, Ints]:
    """Return evaluation and position of every row that came (sign 1) or went (sign −1), comparing bags."""
    parts = segments(found, np.ones((1, len(found)), np.int64))
    times = np.where(parts.since >= 0, np.maximum(sign * parts.change[0], 0), 0)
    order = np.argsort(parts.since, kind="stable")
    order = np.repeat(order, times[order])
    return parts.since[order], parts.first[order]


def group_intervals(groups: GroupRows, found: Intervals, begin: int) -> Intervals:
    """Return the rows of groups; without keys there is a row of zero counts, too, from `begin` on."""
    counts, keys = groups.grouping.aggregates, found.rows[_places(groups, groups.grouping.keys)]
    # Row 0 of the weights counts the rows of a group, row n belongs to the n-th COUNT. COUNT(DISTINCT) adds intervals
    # of its own: each distinct value once, as long as any row has it.
    parts, weights = [found.with_rows(keys)], [np.zeros((1 + len(counts), len(found)), np.int64)]
    weights[0][0] = 1
    for n, count in enumerate(counts, 1):
        if count.variable is None:
            column = None
        else:
            column = found.rows[groups.projection.index(count.variable)]
        if column is None or not count.distinct:
            weights[0][n] = 1 if column is None else column >= 0
            continue
        bound = np.flatnonzero(column >= 0)
        each = distinct_intervals(found.take(bound).with_rows(np.concatenate([keys[:, bound], column[None, bound]])))
        parts.append(each.with_rows(each.rows[:-1]))
        weights.append(_weights(n, 1 + len(counts), len(each)))
    if not groups.grouping.keys:
        parts.append(Intervals(np.empty((0, 1), np.int64), np.array([begin]), np.array([DISTANT_FUTURE])))
        weights.append(_weights(0, 1 + len(counts), 1))
    return _rows(groups, _concatenated(parts), np.concatenate(weights, axis=1))


def _rows(groups: GroupRows, found: Intervals, weights: Ints) -> Intervals:
    parts = segments(found, weights)
    there = np.flatnonzero(parts.totals[0] > 0)
    columns = dict(zip(groups.grouping.keys, found.rows[:, parts.first[there]], strict=True))
    for n, count in enumerate(groups.grouping.aggregates, 1):
        columns[count.name] = groups.numbers(parts.totals[n, there])
    rows = np.stack([columns[name] for name in groups.output_variables])
    return Intervals(rows, parts.since[there], parts.until[there])


def _places(groups: GroupRows, names: tuple[str, ...]) -> list[int]:
    return [groups.projection.index(name) for name in names]


def _weights(place: int, height: int, size: int) -> Ints:
    found = np.zeros((height, size), np.int64)
    found[place] = 1
    return found


def _concatenated(parts: list[Intervals]) -> Intervals:
    rows = np.concatenate([part.rows for part in parts], axis=1)
    since = np.concatenate([part.since for part in parts])
    until = np.concatenate([part.until for part in parts])
    return Intervals(rows, since, until)
