"""The worth of refreshing an SR now and at each evaluation ahead; the common ground of `fba` and `plan`.

With s(j, m) = 1 − change(j, m), the value of refreshing j at m, until its next change, is the recursion
R_j(m) = w_j(m) + s(j, m+1)·R_j(m+1). A staleness period begins where the SR changes (or now, where the copy is stale);
inside a period R only falls, so one candidate per period, at its beginning, stands for all of it.

With a tail, the last column stands for what lies behind the horizon too: demand goes on as it is there, for the mean
life of a copy. Without it, periods that begin late look worthless, and prices come out too low (measured: .678 → .709
where changes are slow and H is three windows).
"""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import Round

LONGEST_LIFE = 64.0
"""Evaluations that the tail counts at most, for what is not seen to change at all."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """Per SR × H: the worth of a copy fetched then, of the copy held now, and the chance that a period begins there."""

    worth: Floats
    kept: Floats
    begins: Floats
    same_later: Floats
    """the chance, per SR, that what is fetched at the next evaluation is what would be fetched now"""

    @property
    def gain_now(self) -> Floats:
        """G_j(0): what refreshing now adds over keeping."""
        return self.worth[:, 0] - self.kept[:, 0]

    @property
    def gain_later(self) -> Floats:
        """G_j(1): what doing so one evaluation later adds; 0 where there is no later."""
        return self.worth[:, 1] - self.kept[:, 1] if self.worth.shape[1] > 1 else np.zeros(self.worth.shape[0])


def outlook(round: Round, demand: Floats, tail: bool = False) -> Outlook:
    """Values under a demand (w or w̄), by recursion from the last column."""
    change = round.change
    behind = demand[:, -1] * (_life(change) - 1.0) if tail else np.zeros(demand.shape[0])
    # One evaluation after the other, so each one's numbers must lie side by side: H × SR here, SR × H outside.
    needed, stays = np.ascontiguousarray(demand.T), np.subtract(1.0, change.T, order="C")
    worth, kept = np.empty_like(needed), needed * round.fresh_if_kept.T
    worth[-1] = needed[-1] + behind
    kept[-1] += behind * round.fresh_if_kept[:, -1]
    for m in range(demand.shape[1] - 2, -1, -1):
        worth[m] = needed[m] + stays[m + 1] * worth[m + 1]
        kept[m] += kept[m + 1]
    begins = change.copy()
    begins[:, 0] = 1.0 - round.fresh_if_kept[:, 0]
    same_later = 1.0 - change[:, 1] if change.shape[1] > 1 else np.zeros(change.shape[0])
    return Outlook(worth.T, kept.T, begins, same_later)


def _life(change: Floats) -> Floats:
    """Return the mean number of evaluations from one change to the next, over the horizon."""
    ahead = change[:, 1:]
    chance = ahead.mean(axis=1) if ahead.shape[1] else np.ones(change.shape[0])
    life: Floats = 1.0 / np.maximum(chance, 1.0 / LONGEST_LIFE)
    return life


def price_of(outlook: Outlook, cost: Floats, pool: float, within: int | None = None) -> float:
    """λ: the gain per unit of cost of the last candidate that the pool pays for, 0 where it pays for all.

    Candidates are the periods that begin within so many evaluations; None: all.

    A refresh now is paid whether the copy was stale or not, and gains as much less as that is uncertain; one that a
    later period asks for is paid as far as the period is likely to begin.
    """
    rows, columns = np.nonzero((outlook.begins[:, :within] > 0) & (outlook.worth[:, :within] > 0))
    chance = outlook.begins[rows, columns]
    present = columns == 0
    rate = outlook.worth[rows, columns] * np.where(present, chance, 1.0) / np.maximum(cost[rows], 1e-12)
    expense = np.where(present, 1.0, chance) * cost[rows]
    order = np.argsort(-rate, kind="stable")
    paid = np.cumsum(expense[order])
    last = int(np.searchsorted(paid, pool, side="right"))
    return float(rate[order[last - 1]]) if 0 < last < order.size else (0.0 if last else float("inf"))
