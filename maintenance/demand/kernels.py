"""The loops over mappings and edges, compiled: everything else is numpy.

scipy's sparse × dense product takes 9 times as long for four columns as for one; these take less than twice. A row i of
the adjacency is neighbours[start[i] : stop[i]]; rows need not touch one another, so edges can come and go.
"""

import numpy as np
from numba import njit

from freshkeeper.policies.arrays import Floats, Ids, Ints


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


@njit(cache=True, nogil=True)
def gather_one(start: Ints, stop: Ints, neighbours: Ids, count: Floats, demand: Floats) -> None:
    """w = Aᵀ·c for a single column: SR j sums the counts of the SNs that need it."""
    for j in range(start.size):
        w = 0.0
        for p in range(start[j], stop[j]):
            w += count[neighbours[p]]
        demand[j, 0] = w


@njit(cache=True, nogil=True)
def gather(start: Ints, stop: Ints, neighbours: Ids, profile: Floats, demand: Floats) -> None:
    """The same for four columns at once."""
    for j in range(start.size):
        w0 = w1 = w2 = w3 = 0.0
        for p in range(start[j], stop[j]):
            i = neighbours[p]
            w0 += profile[i, 0]
            w1 += profile[i, 1]
            w2 += profile[i, 2]
            w3 += profile[i, 3]
        demand[j, 0] = w0
        demand[j, 1] = w1
        demand[j, 2] = w2
        demand[j, 3] = w3


def product(start: Ints, stop: Ints, neighbours: Ids, profile: Floats) -> Floats:
    """W = Aᵀ·C from scratch, four columns of the horizon at a time."""
    horizon = profile.shape[1]
    if horizon == 1:
        demand = np.empty((start.size, 1))
        gather_one(start, stop, neighbours, np.ascontiguousarray(profile[:, 0]), demand)
        return demand
    blocks = []
    for m in range(0, horizon, 4):
        four = np.ascontiguousarray(profile[:, m : m + 4])
        if four.shape[1] < 4:
            four = np.hstack([four, np.zeros((four.shape[0], 4 - four.shape[1]))])
        block = np.empty((4, start.size))
        gather(start, stop, neighbours, four, block.T)
        blocks.append(block)
    return (np.vstack(blocks) if len(blocks) > 1 else blocks[0])[:horizon].T
