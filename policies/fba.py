"""`fba`: flexible budget allocation, 002 §5.3: move budget to where it gains more, among the next ω/β evaluations."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies import choose
from freshkeeper.policies.base import BasePolicy, Budget, Case, Round, Selection
from freshkeeper.policies.outlook import outlook, price_of


@dataclass(frozen=True)
class Fba(BasePolicy):
    """Rank the staleness periods of this and the next ω/β − 1 evaluations by gain; refresh now those at the top.

    The paper does not define borrowing: taking the best n·γ afresh at every evaluation spends up to twice the budget
    (`literal` does so and is marked). Here FBA may only delay: the pool is what is in the bank now and what will be
    paid in later; the present evaluation's share of the best is refreshed, the rest stays in the bank (give it one of
    n·γ). What the bank has no room for is spent on the best of the remaining ones.
    """

    name: ClassVar[str] = "fba"
    cases: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    literal: bool = False
    """borrow as the paper's text says, beyond the budget"""

    @property
    def keeps_budget(self) -> bool:
        return not self.literal

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Choose this evaluation's part of the plan."""
        span = min(round.span, round.horizon)
        view = outlook(round, round.demand)
        pool = budget.per_evaluation * span if self.literal else budget.available + budget.per_evaluation * (span - 1)
        price = price_of(view, round.cost, pool)
        scores = view.worth[:, 0] * round.staleness
        worthwhile = round.stale_candidates & (scores >= price * round.cost)
        available = float(round.cost.sum()) if self.literal else budget.available
        now = choose.best(
            scores, worthwhile, round.cost, available, rng, reason="worth more than what waiting would buy"
        )
        if self.literal:
            return now
        rest = choose.without(round.stale_candidates, now.chosen)
        spare = budget.lost_if_unspent - choose.spent(now, round.cost)
        return choose.joined(now, choose.best(scores, rest, round.cost, spare, rng))
