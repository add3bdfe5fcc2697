"""Case 2's common ground: an answer is fresh only when all inputs of its SN are, so SNs are completed one by one.

002's SBM_Agg takes the SN that is cheapest to complete, removes it and its inputs from the graph, and starts again.
Here a heap holds the SNs in the order that the policy asks for; when an input is taken, those that share it move up.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from freshkeeper.policies.arrays import Bools, Floats, Ids, Ints
from freshkeeper.policies.base import Graph, Round
from freshkeeper.policies.choose import SLACK

Rank = Callable[[Ints, Floats, Ids | Ints], Floats]
"""(residual degrees, price of what is missing, SNs) → which comes first, lowest first"""


@dataclass(eq=False)
class Completion:
    """The state of one greedy pass: what is still missing, what is taken, what money is left."""

    round: Round
    left: float
    residual: Ints
    price: Floats
    missing: Bools
    taken: list[int]
    completed: list[int]


def start(round: Round, available: float) -> Completion:
    """Nothing taken yet: residual degree of SN i = number of its missing inputs."""
    missing = round.missing.copy()
    adjacency = round.graph.matrix
    residual = np.rint(adjacency @ missing.astype(np.float64)).astype(np.int64)
    price: Floats = np.asarray(adjacency @ np.where(missing, round.cost, 0.0))
    return Completion(round, available + SLACK, residual, price, missing, [], [])


def complete(state: Completion, rank: Rank, second: Floats, rng: np.random.Generator) -> None:
    """Take SNs by `rank`, then by `second`, then at random, until none can be completed with the money left."""
    waiting = state.round.profile[:, 0] > 0
    eligible = np.flatnonzero(waiting & (state.residual > 0) & (state.price <= state.left))
    tie = rng.random(state.residual.size)
    heap = _entries(state, rank, second, tie, eligible)
    heapq.heapify(heap)
    while heap:
        _, _, _, sn, residual = heapq.heappop(heap)
        if residual != state.residual[sn] or state.price[sn] > state.left:
            continue
        moved = _take(state, sn)
        moved = moved[waiting[moved] & (state.residual[moved] > 0) & (state.price[moved] <= state.left)]
        for entry in _entries(state, rank, second, tie, moved):
            heapq.heappush(heap, entry)


def _entries(
    state: Completion, rank: Rank, second: Floats, tie: Floats, sns: Ints
) -> list[tuple[float, float, float, int, int]]:
    first = rank(state.residual[sns], state.price[sns], sns)
    columns = (first, second[sns], tie[sns], sns, state.residual[sns])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _take(state: Completion, sn: int) -> Ints:
    """Refresh all that `sn` misses; return the other SNs that came nearer to completion."""
    inputs = state.round.graph.inputs(sn)
    fetched = inputs[state.missing[inputs]]
    state.taken.extend(fetched.tolist())
    state.completed.append(sn)
    state.missing[fetched] = False
    cost = state.round.cost[fetched]
    state.left -= float(cost.sum())
    dependants = [state.round.graph.dependants(int(sr)) for sr in fetched]
    sharing = np.concatenate(dependants).astype(np.int64)
    np.subtract.at(state.residual, sharing, 1)
    np.subtract.at(state.price, sharing, np.repeat(cost, [d.size for d in dependants]))
    return np.unique(sharing)


def value_if_complete(round: Round, profile: Floats) -> Floats:
    """Σ_m c_i(m) · P(all inputs of SN i are fresh at m), when what is missing is refreshed now and the rest kept."""
    survives = np.where(round.missing[:, None], round.fresh_if_refreshed, round.fresh_if_kept)
    return weighted_product(round.graph, survives, profile)


def weighted_product(graph: Graph, fresh: Floats, profile: Floats) -> Floats:
    """Σ_m c_i(m) · Π_j fresh(j, m) over the inputs j of SN i; an SN without inputs is worth nothing."""
    adjacency = graph.matrix
    zero = fresh <= 0
    zeros: Floats = np.asarray(adjacency @ zero.astype(np.float64))
    logs: Floats = np.asarray(adjacency @ np.log(np.where(zero, 1.0, fresh)))
    product = np.where(zeros > 0.5, 0.0, np.exp(logs))
    value: Floats = np.einsum("im,im->i", profile, product)
    return np.where(np.diff(graph.sn_start) > 0, value, 0.0)
