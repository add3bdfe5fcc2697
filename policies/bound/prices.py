"""The Lagrangian dual of case 1: a price for the budget of every evaluation, any prices, gives an upper bound."""

import numpy as np

from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.bound.flow import rank_of
from freshkeeper.policies.bound.future import Allowance
from freshkeeper.policies.bound.periods import Steps


def dual_bound(steps: Steps, allowance: Allowance, prices: Floats) -> float:
    """Σ_k π_k · pay_k + π_0 · initial + bank · Σ_k max(0, π_k − π_{k−1}) + Σ_periods max(0, max (gain − π · cost)).

    Valid for any π ≥ 0: what is paid in is sold at π, the bank earns what prices rise, and each period buys its best
    step or nothing. Nothing depends on how the prices were found. What is fresh without any refresh comes on top.
    """
    most = min(allowance.bank, allowance.initial + float(allowance.pay.sum()))
    sold = prices @ allowance.pay + prices[0] * allowance.initial + most * np.maximum(np.diff(prices), 0).sum()
    if not steps.size:
        return float(sold)
    bought = np.maximum.reduceat(net_gain(steps, prices), np.flatnonzero(steps.opening))
    return float(sold + np.maximum(bought, 0).sum())


def net_gain(steps: Steps, prices: Floats) -> Floats:
    """What each step gains beyond the lowest price in its window."""
    return steps.gain - steps.cost * cheapest(prices, steps.first, steps.last)


def nearest_to_best(steps: Steps, prices: Floats, count: int) -> Steps:
    """The `count` steps that give away least against the best step of their period at these prices."""
    if steps.size <= count:
        return steps
    net = net_gain(steps, prices)
    given_away = np.maximum.reduceat(net, np.flatnonzero(steps.opening))[steps.period] - net
    kept = np.zeros(steps.size, dtype=np.bool_)
    kept[np.argsort(given_away, kind="stable")[:count]] = True
    return steps.only(kept)


def cheapest(prices: Floats, first: Ints, last: Ints) -> Floats:
    """The lowest price from `first` to `last`, for all windows at once, from a sparse table."""
    rank = rank_of(first, last)
    table = [prices]
    for half in (1 << np.arange(int(rank.max(initial=0)))).tolist():
        shifted = np.append(table[-1][half:], np.full(half, np.inf))[: prices.size]
        table.append(np.minimum(table[-1], shifted))
    runs = np.stack(table)
    lowest: Floats = np.minimum(runs[rank, first], runs[rank, last - (1 << rank) + 1])
    return lowest
