"""Policies that are a score with a cut: each SR is worth what it is worth by itself, and the best are taken.

The best of all are then among the best of every part, so a graph may be scored in parts, wherever they lie.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies import choose
from freshkeeper.policies.base import BasePolicy, Budget, Knowledge, Round, Selection

NO = -np.inf
"""The score of what is left alone."""


@dataclass(frozen=True)
class Ranked(BasePolicy):
    """The SRs of highest score that the budget pays for; a subclass says what they are worth.

    >>> import numpy as np
    >>> from freshkeeper import Budget, Ranked, check_policy, round_of
    >>> class Dearest(Ranked):
    ...     name = "dearest"
    ...     def score(self, round):
    ...         return np.where(round.stale_candidates, round.demand[:, 0], -np.inf)
    >>> check_policy(Dearest(), round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1]), Budget(1, 1)).scores
    array([3.])
    """

    reason: ClassVar[str] = ""
    """of its choices, in words"""
    ranks_under: ClassVar[frozenset[Knowledge]] = frozenset(Knowledge)
    """where the score tells the choice in case 1; elsewhere `select` is a matter of its own"""

    @abstractmethod
    def score(self, round: Round) -> Floats:
        """What each SR is worth, from its own row of the round alone; −∞ where it is left alone."""

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Take the best by score, as far as the budget reaches."""
        scores = self.score(round)
        return choose.best(scores, scores > NO, round.cost, budget.available, rng, self.reason)
