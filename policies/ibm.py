"""`ibm`: impact-based maintenance, 002 §5.2: refresh what stays needed and fresh the longest."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import Budget, Case, Round, Selection
from freshkeeper.policies.ranked import Ranked, by_staleness
from freshkeeper.policies.sbm import cheapest_first


@dataclass(frozen=True)
class Ibm(Ranked):
    """Case 1: score_j = P(j is stale now) · Σ_m w_j(m)·fresh_if_refreshed(j, m), formulas (12)-(15).

    002 ranks stale entries only. Where staleness is known the probability is 1 for those, and this is its formula;
    where it is not, it is what keeps entries that were fetched a moment ago from being fetched again.

    Case 2: SBM's order, equal residual degrees broken by the *highest* formula (17); the paper's text says lowest, its
    argument asks for the highest. The min of (17) runs over all inputs, fresh ones with their own remaining life.
    """

    name: ClassVar[str] = "ibm"
    reason: ClassVar[str] = "longest impact in the window"
    scores_answers: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    weighted: bool = False
    """case 2: count the window mappings of an SN, not the SN once"""

    def score(self, round: Round) -> Floats:
        return by_staleness(worth_if_stale(round), round)

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        if round.case is Case.BGP:
            return super().select(round, budget, rng)
        return cheapest_first(round, budget, rng, -impact_of_sn(round), self.weighted)


def impact(round: Round) -> Floats:
    """(1 − F⁰_j)·Σ_m w_j(m)·fresh_if_refreshed(j, m): the answers that a refresh makes fresh while in the window."""
    return worth_if_stale(round) * round.staleness


def worth_if_stale(round: Round) -> Floats:
    """Σ_m w_j(m)·fresh_if_refreshed(j, m): what a refresh makes fresh of answers that are stale without it."""
    worth: Floats = np.einsum("jm,jm->j", round.demand, round.fresh_if_refreshed)
    return worth


def impact_of_sn(round: Round) -> Floats:
    """Return formula (17): min(L_i, min over the inputs j of B_j), B_j = expected evaluations that j stays fresh."""
    survives = np.where(round.missing[:, None], round.fresh_if_refreshed, round.fresh_if_kept)
    life = survives.sum(axis=1)
    lifetime = (round.profile > 0).sum(axis=1).astype(np.float64)
    start, neighbours = round.graph.sn_start, round.graph.sn_neighbours
    connected = np.flatnonzero(np.diff(start) > 0)
    shortest = np.zeros(round.graph.sns)
    if connected.size:
        shortest[connected] = np.minimum.reduceat(life[neighbours], start[connected])
    score: Floats = np.minimum(lifetime, shortest)
    return score
