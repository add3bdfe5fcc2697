"""`ttl`: what everybody runs today, a cache whose entries expire; a baseline that sets no budget."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.policies.base import BasePolicy, Budget, Round, Selection
from freshkeeper.policies.lru import age


@dataclass(frozen=True)
class Ttl(BasePolicy):
    """Every entry that the window needs and whose copy is `ttl_ms` old or older; a younger copy is believed.

    Nothing is known of changes, also where other policies know them, and there is no budget: what it costs comes out.
    """

    name: ClassVar[str] = "ttl"
    budgeted: ClassVar[bool] = False
    keeps_budget = False
    reach = 0
    ttl_ms: int = 60_000
    """how old a copy gets before it is fetched again, in milliseconds"""

    def __post_init__(self) -> None:
        """Refuse a time to live below 0."""
        if self.ttl_ms < 0:
            raise ConfigError(f"ttl_ms is {self.ttl_ms}; it must be a time in milliseconds from 0 up")

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Select all expired candidates, the oldest first; neither budget nor `rng` matters."""
        del budget, rng
        old = age(round)
        return oldest_first(np.flatnonzero(round.candidates & (old >= self.ttl_ms)), old, "expired")


def oldest_first(chosen: Ints, old: Floats, reason: str) -> Selection:
    """Return these entries by the age of their copies."""
    order = np.argsort(-old[chosen], kind="stable")
    return Selection(chosen[order].astype(np.int32), old[chosen][order], reason)
