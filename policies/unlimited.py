"""`unlimited`: every stale candidate at every evaluation, whatever the budget: the ceiling without one."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies.base import BasePolicy, Budget, Round, Selection


@dataclass(frozen=True)
class Unlimited(BasePolicy):
    """Refreshes all of C that is not known to be fresh; every answer of every evaluation is fresh then."""

    name: ClassVar[str] = "unlimited"
    is_bound: ClassVar[bool] = True
    keeps_budget = False
    reach = 0

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Select all stale candidates, those of most answers first; neither budget nor `rng` matters."""
        del budget, rng
        chosen = np.flatnonzero(round.stale_candidates)
        scores = round.demand[chosen, 0]
        order = np.argsort(-scores, kind="stable")
        return Selection(chosen[order].astype(np.int32), scores[order], "everything stale, whatever the budget")
