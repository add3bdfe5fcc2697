"""GROUP BY with COUNT over rows that hold during intervals: a new row of a group whenever its counts change."""

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.native.answer_columns import GroupRows
from freshkeeper.maintenance.engine.native.segments import Intervals, distinct_intervals, segments


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
