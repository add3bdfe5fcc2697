"""`lru`: refresh what was refreshed longest ago; the second baseline of 002 §6."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import NEVER, Round
from freshkeeper.policies.ranked import NO, Ranked


@dataclass(frozen=True)
class Lru(Ranked):
    """The stale candidates with the oldest copies first, those without a copy before all others."""

    name: ClassVar[str] = "lru"
    reason: ClassVar[str] = "oldest copies first"
    reach = 0

    def score(self, round: Round) -> Floats:
        return np.where(round.stale_candidates, age(round), NO)


def age(round: Round) -> Floats:
    """Return how old each copy is, in milliseconds; infinite where there is none."""
    never = round.last_refresh == NEVER
    return np.where(never, np.inf, (round.now - np.where(never, 0, round.last_refresh)).astype(np.float64))
