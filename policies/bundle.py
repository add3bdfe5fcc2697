"""`bundle`: case 2, complete the SNs that are worth the most per missing input. Ours, beyond 002."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies import choose
from freshkeeper.policies.arrays import Floats
from freshkeeper.policies.base import BasePolicy, Budget, Case, Round, Selection
from freshkeeper.policies.completion import Completion, complete, start, value_if_complete

MANY = 1_000
"""SNs in the window, above which one pass is as good as several."""


@dataclass(frozen=True)
class Bundle(BasePolicy):
    """Repeatedly the SN with the highest value per unit of price; shared inputs are free once taken.

    value_i = Σ_m c̄_i(m)·P(all inputs still fresh at m); refreshing some of its inputs gains it times the probability
    that this makes it fresh (`completion.py`). What completes no SN goes to progress: SRs by Σ_i value_i/missing_i².
    Of `starts` passes, each of which begins with another SN, the one that gains the highest value counts; with more
    than a thousand SNs in the window the first one hardly matters, and there is one pass.
    """

    name: ClassVar[str] = "bundle"
    cases: ClassVar[frozenset[Case]] = frozenset({Case.AGGREGATE})
    expect: bool = True
    starts: int = 12
    windows: int = 1

    @property
    def reach(self) -> int:
        """As many windows ahead as set."""
        return self.windows

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Choose by value per unit of price."""
        value = value_if_complete(round, round.expected_profile if self.expect else round.profile)
        starts = self.starts if np.count_nonzero(round.profile[:, 0]) <= MANY else 1
        passes = [_pass(round, budget.available, value, first, rng) for first in range(starts)]
        state = max(passes, key=lambda done: float(value @ _whole(done)))
        taken = np.array(state.taken, dtype=np.int32)
        scores = _progress(state, value)
        rest = choose.without(round.stale & (scores > 0), taken)
        more = choose.best(scores, rest, round.cost, state.left, rng)
        return choose.joined(Selection(taken, scores[taken], "most value per missing input"), more)


def _pass(round: Round, available: float, value: Floats, first: int, rng: np.random.Generator) -> Completion:
    state = start(round, available)
    complete(state, value, np.zeros(value.size), rng, first)
    return state


def _whole(state: Completion) -> Floats:
    """The probability that all inputs of each SN are fresh."""
    graph = state.round.graph
    zeros: Floats = np.asarray(graph.matrix @ (state.fresh <= 0).astype(np.float64))
    logs: Floats = np.asarray(graph.matrix @ np.log(np.where(state.fresh > 0, state.fresh, 1.0)))
    return np.where(zeros > 0.5, 0.0, np.exp(logs))


def _progress(state: Completion, value: Floats) -> Floats:
    """Σ over the SNs i that need SR j of value_i / missing_i², as far as j is missing: near completion counts most."""
    residual = state.residual()
    share = np.where(residual > 1e-9, value / np.maximum(residual, 1.0) ** 2, 0.0)
    scores: Floats = np.asarray(state.round.graph.transposed @ share) * state.round.staleness
    return scores
