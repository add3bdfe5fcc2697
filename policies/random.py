"""`random`: refresh stale candidates at random; the first baseline of 002 §6."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies import choose
from freshkeeper.policies.base import BasePolicy, Budget, Round, Selection, Trait


@dataclass(frozen=True)
class Random(BasePolicy):
    """Any stale candidates, each equally likely; in `learned`, where staleness is not known, any candidates."""

    name: ClassVar[str] = "random"
    waives: ClassVar[frozenset[Trait]] = frozenset({Trait.STALER_FIRST})
    reach = 0

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Draw without replacement."""
        return choose.at_random(round.stale_candidates, round.cost, budget.available, rng, "drawn at random")
