"""A policy as somebody outside the project would write one."""

import numpy as np

from freshkeeper.policies.arrays import Floats
from freshkeeper.policies.base import Round
from freshkeeper.policies.ranked import Ranked


class Dearest(Ranked):
    """Demand by the root of the probability of being stale."""

    name = "dearest"

    def score(self, round: Round) -> Floats:
        return np.where(round.stale_candidates, round.demand[:, 0] * np.sqrt(round.staleness), -np.inf)
