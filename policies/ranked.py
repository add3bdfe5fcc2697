"""Policies that are a score with a cut: each SR is worth what it is worth by itself, and the best are taken.

The best of all are then among the best of every part, so a graph may be scored in parts, wherever they lie.
"""

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.base.errors import BadSelectionError
from freshkeeper.policies import choose
from freshkeeper.policies.base import BasePolicy, Budget, Knowledge, Round, Selection

NO = -np.inf
"""The score of what is left alone."""


class Ranked(BasePolicy):
    """The SRs of highest score that the budget pays for; a subclass says what they are worth.

    >>> import numpy as np
    >>> from freshkeeper import Budget, Ranked, check_policy, round_of
    >>> class Dearest(Ranked):
    ...     def score(self, round):
    ...         return np.where(round.stale_candidates, round.demand[:, 0], -np.inf)
    >>> check_policy(Dearest(), round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1]), Budget(1, 1)).scores
    array([3.])
    """

    name: ClassVar[str] = ""
    reason: ClassVar[str] = ""
    """of its choices, in words"""
    ranks_under: ClassVar[frozenset[Knowledge]] = frozenset(Knowledge)
    """where the score tells the choice in case 1; elsewhere `select` is a matter of its own"""

    @abstractmethod
    def score(self, round: Round) -> Floats:
        """Return the worth of each SR, from its own row of the round alone; −∞ where it is left alone."""

    def checked_score(self, round: Round) -> Floats:
        """Return the scores; raise BadSelectionError if they are no number for each entry."""
        scores = self.score(round)
        fault = ""
        if not isinstance(scores, np.ndarray) or scores.dtype.kind not in "iuf" or scores.shape != (round.srs,):
            told = f"{scores.dtype} of the shape {scores.shape}" if isinstance(scores, np.ndarray) else repr(scores)
            fault = f"must return {round.srs} numbers, one for each entry, not {told[:80]}"
        elif scores.dtype.kind == "f" and math.isnan(scores.dot(scores)):  # of squares only a NaN makes NaN
            fault = f"gave the score NaN to entry {int(np.flatnonzero(np.isnan(scores))[0])}"
        if fault:
            raise BadSelectionError(f"the policy {self.name!r}: score() {fault}")
        return scores

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Take the best by score, as far as the budget reaches."""
        scores = self.checked_score(round)
        return choose.best(scores, scores > NO, round.cost, budget.available, rng, reason=self.reason)


def by_staleness(worth: Floats, round: Round) -> Floats:
    """Return (1 − F⁰_j)·worth_j of the stale candidates, NO for all others."""
    demand, kept = round.demand[:, 0], round.fresh_if_kept[:, 0]
    # Columns are contiguous as the cache lays them out: only rounds built by hand are copied.
    worth, demand, kept = (np.ascontiguousarray(part) for part in (worth, demand, kept))
    scores: Floats = scores_of_stale(worth, demand, kept)
    return scores


@njit(cache=True, nogil=True)
def scores_of_stale(worth: Floats, demand: Floats, kept: Floats) -> Floats:
    """Compute `by_staleness` in one pass: numpy's `where` over a random mask costs as much as all the rest."""
    scores = np.empty(worth.size)
    for j in range(worth.size):
        eligible = demand[j] > 0.0 and kept[j] < 1.0
        scores[j] = worth[j] * (1.0 - kept[j]) if eligible else -np.inf
    return scores
