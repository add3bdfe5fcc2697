"""`lru`: refresh what was refreshed longest ago; the second baseline of 002 §6."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies import choose
from freshkeeper.policies.arrays import Floats
from freshkeeper.policies.base import NEVER, BasePolicy, Budget, Round, Selection


@dataclass(frozen=True)
class Lru(BasePolicy):
    """The stale candidates with the oldest copies first, those without a copy before all others."""

    name: ClassVar[str] = "lru"
    reach = 0

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Score every SR by the age of its copy."""
        return choose.best(age(round), round.stale_candidates, round.cost, budget.available, rng, "oldest copies first")


def age(round: Round) -> Floats:
    """How old each copy is, in milliseconds; infinite where there is none."""
    never = round.last_refresh == NEVER
    return np.where(never, np.inf, (round.now - np.where(never, 0, round.last_refresh)).astype(np.float64))
