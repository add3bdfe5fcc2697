"""`plan`: plan ahead with a price on every refresh. Ours, beyond 002."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies import choose
from policies.base import Budget, Case, Honest, Round, Selection
from policies.outlook import outlook, price_of

TRIFLE = 1e-9
"""Less than this is rounding, not gain."""


@dataclass(frozen=True)
class Plan(Honest):
    """Refresh j now iff (G_j(0) − λ)⁺ − (G_j(1) − λ)⁺ > 0, best first.

    G_j(0) is the gain of refreshing now and G_j(1) of doing the same one evaluation later, both over H = `windows`
    windows with expected arrivals. λ is the price of a refresh: over H evaluations collect one candidate per staleness
    period of each SR, known or expected, and take the gain of the last one that the pool (bank + (H − 1)·γ) pays for.
    What the bank has no room for is used up, by gain.
    """

    name: ClassVar[str] = "plan"
    cases: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    carries_budget: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True
    expect: bool = True
    windows: int = 3

    @property
    def reach(self) -> int:
        """As many windows ahead as set."""
        return self.windows

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Refresh what is worth more now than later."""
        demand = round.expected_demand if self.expect else round.demand
        view = outlook(round, demand, tail=True)
        pool = budget.available + (round.horizon - 1) * budget.per_evaluation
        price = price_of(view, round.cost, pool) * round.cost
        gain = view.gain_now
        urgency = np.maximum(gain - price, 0.0) - np.maximum(view.gain_later - price, 0.0)
        now = choose.best(urgency, urgency > TRIFLE, round.cost, budget.available, rng, "worth more now than later")
        rest = choose.without(gain > TRIFLE, now.chosen)
        spare = budget.lost_if_unspent - choose.spent(now, round.cost)
        return choose.joined(now, choose.best(gain, rest, round.cost, spare, rng))
