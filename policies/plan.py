"""`plan`: plan ahead with a price on every refresh. Ours, beyond 002."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies import choose
from freshkeeper.policies.base import Budget, Knowledge, LooksAhead, Round, Selection
from freshkeeper.policies.gain import expected_gain
from freshkeeper.policies.now_or_later import NowOrLater
from freshkeeper.policies.outlook import Outlook, outlook, price_of
from freshkeeper.policies.ranked import NO, Ranked

MIN_GAIN = 1e-9
"""Less than this is rounding, not gain."""


@dataclass(frozen=True)
class Plan(LooksAhead, Ranked):
    """Known staleness: refresh j now iff G_j(0) − λ > s_j·(G_j(1) − λ)⁺, best first.

    G_j(0) is the gain of refreshing now and G_j(1) of doing so one evaluation later, both over H = `windows` windows
    with expected arrivals. s_j is the probability that j does not change before that: if it does, the later refresh
    is one of another version, which may be fetched all the same. λ is the price of a refresh: over H evaluations
    collect one candidate per staleness period of each SR, known or expected, and take the gain of the last one that
    the pool (bank + (H − 1)·γ) pays for. What the bank has no room for is used up, by gain; without a bank that is
    everything, and this is `gain`. Where the end of the run is known to be nearer than H, nothing is saved for later.

    Uncertain staleness: waiting always makes a refresh look better, because the copy ages, so G(1) says nothing.
    Refresh what has the highest index instead, the price at which now and later come out even (`now_or_later.py`),
    among what the window needs: refreshing ahead of an arrival never won. What is left over goes by gain. The bank is
    of no use then.
    """

    name: ClassVar[str] = "plan"
    ranks_under: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.RATES, Knowledge.LEARNED})

    def score(self, round: Round) -> Floats:
        choice = NowOrLater(round, round.expected_demand if self.expect else round.demand)
        gain, more_than_all = choice.gain(), 1.0 + 2.0 * float(round.cost.sum())
        index = choice.indices(gain, round.candidates & (gain > MIN_GAIN), more_than_all)
        rest = np.where(gain > MIN_GAIN, MIN_GAIN * gain / (1.0 + gain), NO)
        return np.where(index > MIN_GAIN, index, rest)

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        demand = round.expected_demand if self.expect else round.demand
        if not round.certain:
            return self._at_a_price(NowOrLater(round, demand), budget, rng)
        if budget.bank <= 0:
            gain = expected_gain(round, demand)
            return choose.best(gain, gain > MIN_GAIN, round.cost, budget.available, rng, reason="most answers gained")
        view, per_unit = self._foreseen(round, demand, budget)
        gain, price = view.gain_now, per_unit * round.cost
        urgency = gain - price - view.same_later * np.maximum(view.gain_later - price, 0.0)
        now = choose.best(
            urgency, urgency > MIN_GAIN, round.cost, budget.available, rng, reason="worth more now than later"
        )
        return _with_rest(now, gain, round, budget.lost_if_unspent, rng)

    def _foreseen(self, round: Round, demand: Floats, budget: Budget) -> tuple[Outlook, float]:
        """Values and λ; towards the end λ is that of the evaluations ahead for which money is scarcest.

        What is paid later cannot be spent before, and without an end in sight the tail stands for what comes later.
        """
        horizon = round.horizon
        if budget.remaining is None or budget.remaining > horizon:
            view = outlook(round, demand, tail=True)
            return view, price_of(view, round.cost, budget.available + (horizon - 1) * budget.per_evaluation)
        view = outlook(round, demand * (np.arange(horizon) < budget.remaining))
        pools = [(m + 1, budget.available + m * budget.per_evaluation) for m in range(1, budget.remaining)]
        return view, max((price_of(view, round.cost, pool, within) for within, pool in pools), default=0.0)

    def _at_a_price(self, choice: NowOrLater, budget: Budget, rng: np.random.Generator) -> Selection:
        """Select the highest indices of what the window needs; money that is left goes by gain."""
        round, gain = choice.round, choice.gain()
        index = choice.indices(gain, round.candidates & (gain > MIN_GAIN), budget.available)
        now = choose.best(
            index, index > MIN_GAIN, round.cost, budget.available, rng, reason="worth more now than later"
        )
        return _with_rest(now, gain, round, budget.available, rng)


def _with_rest(now: Selection, gain: Floats, round: Round, money: float, rng: np.random.Generator) -> Selection:
    """Spend money that is left by gain, at a score of 0: it brings no more now than later."""
    spare = money - choose.spent(now, round.cost)
    rest = choose.best(gain, choose.without(gain > MIN_GAIN, now.chosen), round.cost, spare, rng)
    return choose.joined(now, replace(rest, scores=np.zeros(rest.chosen.size)))
