"""The loops over mappings and edges, compiled: everything else is numpy.

A row i of the adjacency is neighbours[start[i] : stop[i]]; rows need not touch one another, so edges can come and go.
"""

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.maintenance.base.compiled import njit

SPARSE = 20
"""With fewer mappings in a row than one for so many SNs, edges are followed mapping by mapping."""


@njit(cache=True, nogil=True)
def tally(
    rows: Ids, total: Ids, arrivals: Floats, fade: float, emptied: Ints,
    left_sn: Ints, left_row: Ints, entered_sn: Ints, entered_row: Ints,
) -> int:  # fmt: skip
    """Count mappings by SN and row; return how many expired with the rows that are emptied."""
    expired = empty(rows, total, emptied)
    change = np.zeros(total.size, np.int32)
    for a in range(left_sn.size):
        rows[left_row[a], left_sn[a]] -= 1
        change[left_sn[a]] -= 1
    for a in range(entered_sn.size):
        rows[entered_row[a], entered_sn[a]] += 1
        change[entered_sn[a]] += 1
    settle(change, total, arrivals, fade)
    return expired


@njit(cache=True, nogil=True)
def touch(
    start: Ints, stop: Ints, neighbours: Ids, rows: Ids, total: Ids, arrivals: Floats, fade: float, emptied: Ints,
    left_sn: Ints, left_row: Ints, entered_sn: Ints, entered_row: Ints,
) -> None:  # fmt: skip
    """Count every mapping at each neighbour of its SN, in the row of its last evaluation."""
    empty(rows, total, emptied)
    moves = np.zeros(rows.shape[0], np.int64)
    for a in range(left_row.size):
        moves[left_row[a]] += 1
    for a in range(entered_row.size):
        moves[entered_row[a]] += 1
    change = np.zeros(total.size, np.int32)
    for row in range(rows.shape[0]):
        if moves[row] * SPARSE > start.size:
            touch_by_sn(start, stop, neighbours, rows[row], change, row, left_sn, left_row, entered_sn, entered_row)
        elif moves[row]:
            touch_by_mapping(start, stop, neighbours, rows[row], change, row, left_sn, left_row, -1)
            touch_by_mapping(start, stop, neighbours, rows[row], change, row, entered_sn, entered_row, 1)
    settle(change, total, arrivals, fade)


@njit(cache=True, nogil=True)
def touch_by_mapping(
    start: Ints, stop: Ints, neighbours: Ids, counts: Ids, change: Ids, row: int, sns: Ints, rows: Ints, sign: int
) -> None:
    """Follow the edges of each mapping of this row."""
    for a in range(sns.size):
        if rows[a] == row:
            for p in range(start[sns[a]], stop[sns[a]]):
                counts[neighbours[p]] += sign
                change[neighbours[p]] += sign


@njit(cache=True, nogil=True)
def touch_by_sn(
    start: Ints, stop: Ints, neighbours: Ids, counts: Ids, change: Ids, row: int,
    left_sn: Ints, left_row: Ints, entered_sn: Ints, entered_row: Ints,
) -> None:  # fmt: skip
    """Follow the edges of each SN once, for all its mappings of this row.

    Neighbours are then read in the order in which they lie in memory, and one array is written at random instead of
    two: half the time of `touch_by_mapping` where most SNs have a mapping.
    """
    times, part = np.zeros(start.size, np.int32), np.zeros(counts.size, np.int32)
    for a in range(left_sn.size):
        if left_row[a] == row:
            times[left_sn[a]] -= 1
    for a in range(entered_sn.size):
        if entered_row[a] == row:
            times[entered_sn[a]] += 1
    for sn in range(times.size):
        if times[sn]:
            for p in range(start[sn], stop[sn]):
                part[neighbours[p]] += times[sn]
    for j in range(part.size):
        counts[j] += part[j]
        change[j] += part[j]


@njit(cache=True, nogil=True)
def empty(rows: Ids, total: Ids, emptied: Ints) -> int:
    """Empty some rows; return how much they held."""
    expired = 0
    for row in emptied:
        for j in range(total.size):
            expired += rows[row, j]
            total[j] -= rows[row, j]
            rows[row, j] = 0
    return expired


@njit(cache=True, nogil=True)
def settle(change: Ids, total: Ids, arrivals: Floats, fade: float) -> None:
    """Move the total and the discounted arrivals by what came into the rows."""
    for j in range(total.size):
        total[j] += change[j]
        arrivals[j] = arrivals[j] * fade + change[j]
