"""`plan`: plan ahead with a price on every refresh. Ours, beyond 002."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies import choose
from freshkeeper.policies.arrays import Floats
from freshkeeper.policies.base import Budget, LooksAhead, Round, Selection
from freshkeeper.policies.gain import expected_gain
from freshkeeper.policies.outlook import outlook, price_of, worth_now

TRIFLE = 1e-9
"""Less than this is rounding, not gain."""


@dataclass(frozen=True)
class Plan(LooksAhead):
    """Known staleness: refresh j now iff G_j(0) − λ > s_j·(G_j(1) − λ)⁺, best first.

    G_j(0) is the gain of refreshing now and G_j(1) of doing so one evaluation later, both over H = `windows` windows
    with expected arrivals. s_j is the probability that j does not change before that: if it does, the later refresh
    is one of another version, which may be fetched all the same. λ is the price of a refresh: over H evaluations
    collect one candidate per staleness period of each SR, known or expected, and take the gain of the last one that
    the pool (bank + (H − 1)·γ) pays for. What the bank has no room for is used up, by gain; without a bank that is
    everything, and this is `gain`.

    Uncertain staleness: waiting always makes a refresh look better, because the copy ages, so G(1) says nothing.
    Refresh the highest worth_j·(1 − F + F·ln F) instead, F being the probability that the copy is fresh. It is the
    price at which refreshing now and an instant later come out even: the present loss times the age, less what was
    already lost since the last refresh (for a Poisson rate λ and age a: (w/λ)·(1 − (1 + λa)·e^(−λa))). A young copy
    scores lower than by its gain alone, in favour of old ones. The bank is of no use then.
    """

    name: ClassVar[str] = "plan"

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Refresh what is worth more now than later."""
        demand = round.expected_demand if self.expect else round.demand
        if not round.certain:
            index = worth_now(round, demand) * aged(round.fresh_if_kept[:, 0])
            return choose.best(index, index > 0, round.cost, budget.available, rng, "oldest for its worth")
        if budget.bank <= 0:
            gain = expected_gain(round, demand)
            return choose.best(gain, gain > TRIFLE, round.cost, budget.available, rng, "most answers gained")
        view = outlook(round, demand, tail=True)
        gain = view.gain_now
        pool = budget.available + (round.horizon - 1) * budget.per_evaluation
        price = price_of(view, round.cost, pool) * round.cost
        urgency = gain - price - view.same_later * np.maximum(view.gain_later - price, 0.0)
        now = choose.best(urgency, urgency > TRIFLE, round.cost, budget.available, rng, "worth more now than later")
        rest = choose.without(gain > TRIFLE, now.chosen)
        spare = budget.lost_if_unspent - choose.spent(now, round.cost)
        return choose.joined(now, choose.best(gain, rest, round.cost, spare, rng))


def aged(fresh: Floats) -> Floats:
    """1 − F + F·ln F: 0 for a copy that is certainly fresh, 1 for one that is certainly stale."""
    faded = -np.log(np.maximum(fresh, np.finfo(np.float64).tiny))
    index: Floats = -np.expm1(-faded) - faded * np.exp(-faded)
    return np.where(faded < 1e-4, faded * faded / 2.0, index)
