"""`gain`: refresh what gains the most answers, counting those that are still to arrive. Ours, beyond 002."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import LooksAhead, Round
from freshkeeper.policies.ranked import NO, Ranked


@dataclass(frozen=True)
class Gain(LooksAhead, Ranked):
    """score_j = Σ_m w̄_j(m)·(fresh_if_refreshed − fresh_if_kept), over `windows` windows ahead.

    w̄ is what is in the window plus expected arrivals (`expect`). With `expect` off, one window and exact knowledge, a
    stale copy's fresh_if_kept is 0 and the score is ibm's. An SR that nothing in the window needs may be refreshed
    ahead of the arrivals that will. Arrivals are credited in full, as if no later refresh could serve them: right where
    changes are known and slow, too much where staleness is not known (`plan` weighs now against later).
    """

    name: ClassVar[str] = "gain"
    reason: ClassVar[str] = "most answers gained"

    def score(self, round: Round) -> Floats:
        scores = expected_gain(round, round.expected_demand if self.expect else round.demand)
        return np.where(scores > 0, scores, NO)


def expected_gain(round: Round, demand: Floats) -> Floats:
    """Σ_m w̄_j(m)·(fresh_if_refreshed − fresh_if_kept)."""
    scores: Floats = np.einsum("jm,jm->j", demand, round.fresh_if_refreshed - round.fresh_if_kept)
    return scores
