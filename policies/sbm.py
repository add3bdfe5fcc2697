"""`sbm`: selectivity-based maintenance, 002 §5.1: refresh what most answers of this evaluation depend on."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies import choose
from freshkeeper.policies.base import Budget, Case, Round, Selection
from freshkeeper.policies.completion import complete, start
from freshkeeper.policies.ranked import Ranked, by_staleness


@dataclass(frozen=True)
class Sbm(Ranked):
    """Case 1: score_j = P(j is stale now)·w_j(0), formula (11). Case 2: repeatedly the SN with fewest missing inputs.

    Departures in case 2: an input that is already fresh is not missing; where staleness is not known the SN that comes
    nearest to being fresh per request is first (`completion.py`); `weighted` ranks SNs by c_i per missing input, where
    the paper ignores c_i; what cannot complete an SN goes to stale candidates at random, as in the paper.
    """

    name: ClassVar[str] = "sbm"
    reason: ClassVar[str] = "most answers of this evaluation"
    scores_answers: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    reach = 0
    weighted: bool = False
    """case 2: count the window mappings of an SN, not the SN once"""

    def score(self, round: Round) -> Floats:
        """Return formula (11), times the probability that the copy is stale."""
        return by_staleness(round.demand[:, 0], round)

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        if round.case is Case.BGP:
            return super().select(round, budget, rng)
        return cheapest_first(round, budget, rng, np.zeros(round.graph.sns), self.weighted)


def cheapest_first(round: Round, budget: Budget, rng: np.random.Generator, second: Floats, weighted: bool) -> Selection:
    """SBM_Agg: the SN with the smallest residual degree first, equal ones by `second`; the remainder at random."""
    count = round.profile[:, 0]
    state = start(round, budget.available)
    complete(state, count if weighted else np.ones(count.size), second, rng)
    taken = np.array(state.chosen, dtype=np.int32)
    scores = round.demand[:, 0]
    rest = choose.at_random(
        choose.without(round.stale_candidates, taken), round.cost, state.left, rng, "fewest missing inputs first"
    )
    return choose.joined(Selection(taken, scores[taken]), rest, rest.reason)
