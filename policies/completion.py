"""Case 2's common ground: an answer is fresh only when all inputs of its SN are, so SNs are completed one by one.

002's SBM_Agg takes the SN that is cheapest to complete, removes it and its inputs from the graph, and starts again.
Here a heap holds the SNs in the order that the policy asks for; when an input is taken, those that share it move up.

With F_j the probability that input j is fresh, an SN is fresh with Π F_j, and refreshing some of its inputs takes their
factors out. The best so many to refresh are those most likely stale, so of each SN the first k in that order are
weighed against each other: (Π of the rest − Π of all) per unit of their price. Where staleness is known that is one
over the price of all that are stale, and the SN with the fewest of them comes first, as in 002.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.policies.base import Graph, Round
from freshkeeper.policies.choose import SLACK


@dataclass(eq=False)
class Completion:
    """The state of one greedy pass: what is fresh by now, what is taken and completed, what money is left."""

    round: Round
    left: float
    fresh: Floats
    """per SR; 1 for what is taken"""
    chosen: list[int]
    brings: list[float]
    """the answers that each of these brings: its part, by price, of what its SN gained when it was completed"""

    def residual(self) -> Floats:
        """Return how many inputs each SN is still expected to miss."""
        return np.asarray(self.round.graph.matrix @ (1.0 - self.fresh))


def start(round: Round, available: float) -> Completion:
    """Return a choice of nothing, with the copies as fresh as they are."""
    return Completion(round, available + SLACK, round.fresh_if_kept[:, 0].copy(), [], [])


def complete(
    state: Completion, value: Floats, second: Floats, rng: np.random.Generator, first: int = 0, least: float = 0.0
) -> None:
    """Take SNs by value gained per unit of price, then by `second`, then at random, until no more than `least` is.

    The first one taken is the `first` in this order: other beginnings make other passes.
    """
    waiting = np.flatnonzero((state.round.profile[:, 0] > 0) & (value > 0))
    tie, version = rng.random(value.size), np.zeros(value.size, np.int64)
    heap = _entries(state, value, second, waiting, tie=tie, version=version)
    heapq.heapify(heap)
    passed_over = [heapq.heappop(heap) for _ in range(min(first, len(heap) - 1))]
    while heap:
        rate, *_, sn, seen = heapq.heappop(heap)
        if seen != version[sn] or -rate <= least:
            continue
        inputs, gained = _best_inputs(state, sn)
        if not inputs.size:
            continue
        moved = _take(state, inputs, value[sn] * gained)
        version[moved] += 1
        moved = moved[(state.round.profile[moved, 0] > 0) & (value[moved] > 0)]
        for entry in [*_entries(state, value, second, moved, tie=tie, version=version), *passed_over]:
            heapq.heappush(heap, entry)
        passed_over = []


def _entries(
    state: Completion, value: Floats, second: Floats, sns: Ints, *, tie: Floats, version: Ints
) -> list[tuple[float, float, float, int, int]]:
    """Return what can be gained, best first in the order of a heap; only SNs that there is money for."""
    graph, cost = state.round.graph, state.round.cost
    rate, _ = best_prefixes(graph.sn_start, graph.sn_neighbours, state.fresh, cost, state.left, sns)
    sns, rate = sns[rate > 0], rate[rate > 0]
    columns = (-value[sns] * rate, second[sns], tie[sns], sns, version[sns])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _best_inputs(state: Completion, sn: int) -> tuple[Ids, float]:
    """Return the inputs of an SN that are worth refreshing with the money left, and the gain per unit of price."""
    graph = state.round.graph
    rate, size = best_prefixes(
        graph.sn_start, graph.sn_neighbours, state.fresh, state.round.cost, state.left, np.array([sn])
    )
    inputs = graph.inputs(sn)
    staler = np.argsort(state.fresh[inputs], kind="stable")[: int(size[0])]
    return inputs[np.sort(staler)], float(rate[0])


def _take(state: Completion, inputs: Ids, rate: float) -> Ints:
    """Refresh these inputs of an SN; return the SNs that came nearer to completion, itself among them."""
    cost = state.round.cost[inputs]
    state.chosen.extend(inputs.tolist())
    state.brings.extend((rate * cost).tolist())
    state.fresh[inputs] = 1.0
    state.left -= float(cost.sum())
    dependants = [state.round.graph.dependants(int(sr)) for sr in inputs]
    return np.unique(np.concatenate(dependants).astype(np.int64))


@njit(cache=True, nogil=True)
def best_prefixes(
    start: Ints, neighbours: Ids, fresh: Floats, cost: Floats, left: float, sns: Ints
) -> tuple[Floats, Ints]:
    """Return for each SN the best (Π F of the rest − Π F of all)/price over its k stalest inputs, and that k; 0 if
    none.
    """
    rates, sizes = np.zeros(sns.size), np.zeros(sns.size, np.int64)
    for n in range(sns.size):
        inputs = neighbours[start[sns[n]] : start[sns[n] + 1]]
        order = np.argsort(fresh[inputs], kind="mergesort")
        product = np.ones(inputs.size + 1)
        for k in range(inputs.size - 1, -1, -1):
            product[k] = product[k + 1] * fresh[inputs[order[k]]]
        price = 0.0
        for k in range(inputs.size):
            price += cost[inputs[order[k]]]
            if price > left or fresh[inputs[order[k]]] >= 1.0:
                break
            rate = (product[k + 1] - product[0]) / max(price, 1e-12)
            if rate > rates[n]:
                rates[n], sizes[n] = rate, k + 1
    return rates, sizes


def value_if_complete(round: Round, profile: Floats) -> Floats:
    """Σ_m c_i(m) · P(all inputs of SN i, fresh now, still are at m)."""
    return weighted_product(round.graph, round.fresh_if_refreshed[:, : profile.shape[1]], profile)


def weighted_product(graph: Graph, fresh: Floats, profile: Floats) -> Floats:
    """Σ_m c_i(m) · Π_j fresh(j, m) over the inputs j of SN i; an SN without inputs is worth nothing."""
    adjacency = graph.matrix
    zero = fresh <= 0
    zeros: Floats = np.asarray(adjacency @ zero.astype(np.float64))
    logs: Floats = np.asarray(adjacency @ np.log(np.where(zero, 1.0, fresh)))
    product = np.where(zeros > 0.5, 0.0, np.exp(logs))
    value: Floats = np.einsum("im,im->i", profile, product)
    return np.where(np.diff(graph.sn_start) > 0, value, 0.0)
