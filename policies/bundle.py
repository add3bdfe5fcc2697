"""`bundle`: case 2, complete the SNs that are worth the most per missing input. Ours, beyond 002."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.policies import choose
from freshkeeper.policies.arrays import Floats, Ids, Ints
from freshkeeper.policies.base import BasePolicy, Budget, Case, Round, Selection
from freshkeeper.policies.completion import Completion, complete, start, value_if_complete, weighted_product


@dataclass(frozen=True)
class Bundle(BasePolicy):
    """Repeatedly the SN with the highest value per missing SR; shared inputs are free once taken.

    value_i = Σ_m c̄_i(m)·P(all inputs still fresh at m), less what it is worth without a refresh. What completes no
    SN goes to progress: SRs by Σ_i value_i/missing_i². With `starts` > 1 the pass is repeated with values disturbed at
    random, and the pass that completes the highest value counts.
    """

    name: ClassVar[str] = "bundle"
    cases: ClassVar[frozenset[Case]] = frozenset({Case.AGGREGATE})
    expect: bool = True
    starts: int = 1
    windows: int = 1

    @property
    def reach(self) -> int:
        """As many windows ahead as set."""
        return self.windows

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Choose by value per missing input."""
        value = added_value(round, self.expect)
        passes = [_pass(round, budget, value, noise, rng) for noise in [0.0] + [0.5] * (self.starts - 1)]
        state = max(passes, key=lambda done: float(value[done.completed].sum()))
        taken = np.array(state.taken, dtype=np.int32)
        scores = _progress(round, state, value)
        rest = choose.without(round.stale & (scores > 0), taken)
        more = choose.best(scores, rest, round.cost, state.left, rng)
        return choose.joined(Selection(taken, scores[taken]), more, "most value per missing input")


def added_value(round: Round, expect: bool) -> Floats:
    """What completing each SN adds over leaving it as it is."""
    profile = round.expected_profile if expect else round.profile
    kept = weighted_product(round.graph, round.fresh_if_kept, profile)
    return np.maximum(value_if_complete(round, profile) - kept, 0.0)


def _pass(round: Round, budget: Budget, value: Floats, noise: float, rng: np.random.Generator) -> Completion:
    disturbed = value * np.exp(noise * rng.standard_normal(value.size)) if noise else value

    def by_value(_: Ints, price: Floats, sns: Ids | Ints) -> Floats:
        return -disturbed[sns] / np.maximum(price, 1e-12)

    state = start(round, budget.available)
    complete(state, by_value, np.zeros(value.size), rng)
    return state


def _progress(round: Round, state: Completion, value: Floats) -> Floats:
    """Σ over the SNs i that need SR j of value_i / missing_i²: near completion counts most."""
    share = np.where(state.residual > 0, value / np.maximum(state.residual, 1) ** 2, 0.0)
    scores: Floats = np.asarray(round.graph.transposed @ share)
    return scores
