"""What refreshing an SR is worth now and at each evaluation ahead; the common ground of `fba` and `plan`.

With s(j, m) = 1 − change(j, m), the value of refreshing j at m, until its next change, is the recursion
R_j(m) = w_j(m) + s(j, m+1)·R_j(m+1). A staleness period begins where the SR changes (or now, where the copy is stale);
inside a period R only falls, so one candidate per period, at its beginning, stands for all of it.
"""

from dataclasses import dataclass

import numpy as np

from policies.arrays import Floats
from policies.base import Round
from policies.errors import PolicyError


@dataclass(frozen=True, eq=False)
class Outlook:
    """Per SR × H: what a refresh gains at each evaluation, and the probability that a staleness period begins there."""

    gain: Floats
    begins: Floats


def outlook(round: Round, demand: Floats) -> Outlook:
    """Gains of the staleness periods, known or expected, under a demand (w or w̄)."""
    if round.change is None:
        raise PolicyError("the round says nothing of changes ahead: the policy must declare `looks_ahead = True`")
    gain = np.empty_like(demand)
    gain[:, -1] = demand[:, -1]
    for m in range(demand.shape[1] - 2, -1, -1):
        gain[:, m] = demand[:, m] + (1.0 - round.change[:, m + 1]) * gain[:, m + 1]
    begins = round.change.copy()
    begins[:, 0] = 1.0 - round.fresh_if_kept[:, 0]
    return Outlook(gain, begins)


def price_of(outlook: Outlook, cost: Floats, pool: float) -> float:
    """λ: the gain per unit of cost of the last candidate that the pool pays for, 0 where it pays for all."""
    worth = outlook.gain * (outlook.begins > 0)
    rows, columns = np.nonzero(worth > 0)
    rate = worth[rows, columns] / np.maximum(cost[rows], 1e-12)
    expense = outlook.begins[rows, columns] * cost[rows]
    order = np.argsort(-rate, kind="stable")
    paid = np.cumsum(expense[order])
    last = int(np.searchsorted(paid, pool, side="right"))
    return float(rate[order[last - 1]]) if 0 < last < order.size else (0.0 if last else float("inf"))
