"""The loops over mappings and edges, compiled: everything else is numpy.

A row i of the adjacency is neighbours[start[i] : stop[i]]; rows need not touch one another, so edges can come and go.
"""

from numba import njit

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints


@njit(cache=True, nogil=True)
def tally(sns: Ints, rows: Ints, counts: Ids, sign: int) -> None:
    """Every mapping adds `sign` to its SN, in the row of its last evaluation."""
    for a in range(sns.size):
        counts[rows[a], sns[a]] += sign


@njit(cache=True, nogil=True)
def touch(start: Ints, stop: Ints, neighbours: Ids, sns: Ints, rows: Ints, counts: Ids, sign: int) -> None:
    """Every mapping adds `sign` to each neighbour of its SN, in the row of its last evaluation."""
    for a in range(sns.size):
        row = counts[rows[a]]
        for p in range(start[sns[a]], stop[sns[a]]):
            row[neighbours[p]] += sign


@njit(cache=True, nogil=True)
def settle(after: Ids, before: Ids, expired: Ids, total: Ids, arrivals: Floats, fade: float) -> None:
    """After a step: what came into the rows, less what expired, moves the total and the discounted arrivals."""
    for j in range(total.size):
        came = after[j] - before[j]
        total[j] += came - expired[j]
        arrivals[j] = arrivals[j] * fade + came
