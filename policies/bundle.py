"""`bundle`: case 2, complete the SNs that are worth the most per missing input. Ours, beyond 002."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies import choose
from freshkeeper.policies.base import BasePolicy, Budget, Case, Round, Selection
from freshkeeper.policies.choose import SLACK
from freshkeeper.policies.completion import Completion, complete, start, value_if_complete
from freshkeeper.policies.save_or_spend import SaveOrSpend

MOST_SNS_FOR_SEVERAL_PASSES = 1_000
"""SNs in the window, above which one pass is as good as several."""
FORESEEN = 3
"""Windows ahead in which changes are looked for when it is reckoned whether to save."""
LARGEST = 50_000
"""Edges up to which it is reckoned whether to save."""


@dataclass(frozen=True)
class Bundle(BasePolicy):
    """Repeatedly the SN with the highest value per unit of price; shared inputs are free once taken.

    value_i = Σ_m c̄_i(m)·P(all inputs still fresh at m); refreshing some of its inputs gains it times the probability
    that this makes it fresh (`completion.py`). What completes no SN goes to progress: SRs by Σ_i value_i/missing_i².
    Of `starts` passes, each of which begins with another SN, the one that gains the highest value counts; with more
    than a thousand SNs in the window the first one hardly matters, and there is one pass.

    With a bank, everything that is stale may be refreshed at once instead, or money be saved for that
    (`save_or_spend.py`); then bundles have to bring more than that money would later.
    """

    name: ClassVar[str] = "bundle"
    cases: ClassVar[frozenset[Case]] = frozenset({Case.AGGREGATE})
    scores_answers: ClassVar[frozenset[Case]] = frozenset({Case.AGGREGATE})
    expect: bool = True
    """count the arrivals that are expected"""
    starts: int = 12
    """passes, each of which begins with another SN"""
    windows: int = 1
    """windows ahead in which answers count"""

    @property
    def reach(self) -> int:
        return max(self.windows, FORESEEN)

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Choose by value per unit of price."""
        profile = round.expected_profile if self.expect else round.profile
        value = value_if_complete(round, profile[:, : self.windows * round.span])
        if budget.bank <= 0 or round.graph.sn_neighbours.size > LARGEST:
            return _progressing(self._slate(round, budget.available, value, rng), value, rng)
        held = _answers_worth(start(round, 0.0), value)
        usual = self._slate(round, min(budget.per_evaluation, budget.available), value, rng)
        choice = SaveOrSpend.of(round, budget, profile, _answers_worth(usual, value) - held)
        slate = self._slate(round, budget.available, value, rng, choice.price)
        spent = float(round.cost[slate.chosen].sum())
        gained = _answers_worth(slate, value) - held
        if choice.affordable and choice.spending >= gained + choice.saving(spent):
            everything = choice.everything.astype(np.int32)
            part = round.cost[everything] / max(float(round.cost[everything].sum()), SLACK)
            return Selection(everything, part * (choice.answers - choice.idle[0]), "everything at once")
        slate.left = max(0.0, budget.lost_if_unspent - spent) + SLACK
        complete(slate, value, np.zeros(value.size), rng)
        return _progressing(slate, value, rng)

    def _slate(
        self, round: Round, available: float, value: Floats, rng: np.random.Generator, least: float = 0.0
    ) -> Completion:
        """Return the best of several passes."""
        starts = self.starts if np.count_nonzero(round.profile[:, 0]) <= MOST_SNS_FOR_SEVERAL_PASSES else 1
        passes = [_pass(round, available, value, first, rng=rng, least=least) for first in range(starts)]
        return max(passes, key=lambda done: float(value @ _all_inputs_fresh(done)))


def _pass(
    round: Round, available: float, value: Floats, first: int, rng: np.random.Generator, least: float
) -> Completion:
    state = start(round, available)
    complete(state, value, np.zeros(value.size), rng, first=first, least=least)
    return state


def _answers_worth(state: Completion, value: Floats) -> float:
    """Return the worth of the answers that are likely to be fresh, together."""
    return float(value @ _all_inputs_fresh(state))


def _progressing(state: Completion, value: Floats, rng: np.random.Generator) -> Selection:
    """Return the slate, extended with the rest of its money by what comes nearest to completing more."""
    taken = np.array(state.chosen, dtype=np.int32)
    scores = _progress(state, value)
    rest = choose.without(state.round.stale & (scores > 0), taken)
    more = choose.best(scores, rest, state.round.cost, state.left, rng)
    return choose.joined(Selection(taken, np.array(state.brings), "most value per missing input"), more)


def _all_inputs_fresh(state: Completion) -> Floats:
    """Return the probability that all inputs of each SN are fresh."""
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
