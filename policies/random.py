"""`random`: refresh stale candidates at random; the first baseline of 002 §6."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import Round, Trait
from freshkeeper.policies.ranked import NO, Ranked


@dataclass(frozen=True)
class Random(Ranked):
    """Any stale candidates, each equally likely; in `learned`, where staleness is not known, any candidates."""

    name: ClassVar[str] = "random"
    waives: ClassVar[frozenset[Trait]] = frozenset({Trait.STALER_FIRST})
    reason: ClassVar[str] = "drawn at random"
    reach = 0

    def score(self, round: Round) -> Floats:
        return np.where(round.stale_candidates, 0.0, NO)
