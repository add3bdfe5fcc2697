"""Choosing the best under a budget: highest score first, ties at the cut-off broken by the run's generator."""

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.policies.base import Selection

SLACK = 1e-9
"""Room for sums of prices that floating point cannot write exactly (ten times 0.1)."""

SECOND_THOUGHTS = 8
"""SRs that were passed over for their price and are tried first all the same."""


def best(
    scores: Floats, eligible: Bools, cost: Floats, available: float, rng: np.random.Generator, reason: str = ""
) -> Selection:
    """Select the eligible SRs of highest score that `available` pays for; where prices differ, of highest score per
    unit.
    """
    pool = np.flatnonzero(eligible)
    chosen = _affordable(scores[pool], pool, cost, available, rng)
    return Selection(chosen.astype(np.int32), scores[chosen], reason)


def at_random(eligible: Bools, cost: Floats, available: float, rng: np.random.Generator, reason: str = "") -> Selection:
    """Any of the eligible SRs, each order equally likely."""
    return best(np.zeros(eligible.size), eligible, cost, available, rng, reason=reason)


def _affordable(scores: Floats, pool: Ints, costs: Floats, available: float, rng: np.random.Generator) -> Ints:
    """Return the best of a pool; `scores` are those of the pool, `costs` those of all SRs."""
    if not pool.size:
        return pool
    price = costs[pool[0]]
    if (costs != price).any():
        cost = costs[pool]
        if (cost != price).any():
            return _by_price(scores, pool, cost, available, rng)
    count = pool.size if price <= 0 else min(pool.size, int((available + SLACK) // price))
    return _top(scores, pool, count, rng)


def _top(scores: Floats, pool: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return the `count` highest in descending order; partition first, so that only the chosen are sorted."""
    if count <= 0:
        return pool[:0]
    if count < pool.size:
        cut = np.partition(scores, pool.size - count)[pool.size - count]
        above = np.flatnonzero(scores > cut)
        level = np.flatnonzero(scores == cut)
        if above.size + level.size > count:
            level = rng.permutation(level)[: count - above.size]
        keep = np.concatenate([above, level])
        scores, pool = scores[keep], pool[keep]
    return pool[np.argsort(-scores, kind="stable")]


def _by_price(scores: Floats, pool: Ints, cost: Floats, available: float, rng: np.random.Generator) -> Ints:
    """Greedy by score per unit of cost; what no longer fits is passed over.

    A cheap SR that comes first may keep out a dear one that is worth far more. So those of highest score that were
    passed over are each tried ahead of all others, and the choice of the highest score together is it.
    """
    mixed = rng.permutation(pool.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(cost > 0, scores / cost, np.inf)
    order = mixed[np.argsort(-rate[mixed], kind="stable")]
    money = available + SLACK
    chosen = fitting(order, cost, money, -1)
    passed_over = order[~chosen & (cost[order] <= money)]
    dearest = passed_over[np.argsort(-scores[passed_over], kind="stable")[:SECOND_THOUGHTS]]
    tries = [chosen, *(fitting(order, cost, money, int(first)) for first in dearest)]
    most: Bools = max(tries, key=lambda taken: float(scores[order[taken]].sum()))
    return pool[order[most]]


@njit(cache=True, nogil=True)
def fitting(order: Ints, cost: Floats, money: float, first: int) -> Bools:
    """Return which of those in order fit one after the other, `first` ahead of all (-1: none is)."""
    taken = np.zeros(order.size, np.bool_)
    left = money - (cost[first] if first >= 0 else 0.0)
    for place in range(order.size):
        k = order[place]
        if k == first:
            taken[place] = True
        elif cost[k] <= left:
            left -= cost[k]
            taken[place] = True
    return taken


def joined(first: Selection, second: Selection, reason: str = "") -> Selection:
    """Two disjoint selections as one, the first ahead."""
    return Selection(
        np.concatenate([first.chosen, second.chosen]),
        np.concatenate([first.scores, second.scores]),
        reason or first.reason,
    )


def spent(selection: Selection, cost: Floats) -> float:
    """Return the cost of a selection."""
    return float(cost[selection.chosen].sum())


def without(eligible: Bools, chosen: Ids | Ints) -> Bools:
    """Return the eligible SRs less those already chosen."""
    rest = eligible.copy()
    rest[chosen] = False
    return rest
