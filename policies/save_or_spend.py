"""Save, or spend on everything at once: what money in the bank is worth to aggregates.

An aggregate is fresh only when all its inputs are, so half of its inputs bring nothing. Where the inputs of all SNs
together change faster than the budget refreshes them, spreading refreshes brings next to nothing (002's Figure 3(a)).
It is better to save, to refresh all that is stale at once, and to go on with it while money lasts: what changes from
one evaluation to the next is less than what is stale after a pause.

`worth_of_money` is the dynamic program of that choice over evaluations, pauses and money. At each evaluation there is
everything to do, or bundles for γ (at the value that they have now), or nothing. What money brings on average without
bundles is the price that a bundle has to be worth.
"""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.policies.base import Budget, Round
from freshkeeper.policies.choose import SLACK

MAX_HORIZON = 64
"""Evaluations that are reckoned with, where the end of the run is not known to be nearer."""
PAUSES = 8
"""Evaluations since everything was fresh, after which it is as stale as it gets."""
LEVELS = 256
"""How finely money is counted at most."""
LONGEST_LIFE = 64.0
"""Evaluations for which an SR is believed to stay as it is, where nothing is foreseen to change it."""


@dataclass(frozen=True, eq=False)
class SaveOrSpend:
    """Compares what the money of one evaluation brings now with what it brings later."""

    budget: Budget
    bank: float
    """what can be kept, as far as it matters"""
    unit: float
    everything: Ints
    """the SRs that would be refreshed now if everything was"""
    cost: int
    answers: float
    idle: Floats
    """the answers of each evaluation from now on if nothing was refreshed"""
    worth: Floats
    """[m, s, level]: the answers from evaluation m on; s is 0 where everything was not refreshed since now, else the
    evaluations since it was"""
    alone: Floats
    """the same without bundles"""

    @classmethod
    def of(cls, round: Round, budget: Budget, profile: Floats, bundles: float) -> "SaveOrSpend":
        """Work out both choices; `profile` is c or c̄, `bundles` what the bundles bring that γ pays for."""
        ahead = MAX_HORIZON if budget.remaining is None else max(1, min(MAX_HORIZON, budget.remaining))
        cost, answers, idle, everything = _foreseen(round, profile, ahead)
        bank = min(budget.bank, MAX_HORIZON * budget.per_evaluation)
        most = bank + budget.per_evaluation
        cheapest = float(round.cost[round.cost > 0].min(initial=most))
        unit = max(cheapest, most / LEVELS, SLACK)
        units = np.ceil(cost / unit - SLACK).astype(np.int64)
        pay, cap = (int(money / unit + SLACK) for money in (budget.per_evaluation, bank))
        worth = worth_of_money(units, answers, idle, bundles, pay, cap)
        alone = worth_of_money(units, answers, idle, 0.0, pay, cap)
        return cls(
            budget=budget,
            bank=bank,
            unit=unit,
            everything=everything,
            cost=int(units[0, 0]),
            answers=float(answers[0, 0]),
            idle=idle[:, 0],
            worth=worth,
            alone=alone,
        )

    @property
    def affordable(self) -> bool:
        """True if there is money for everything now."""
        return 0 < self.cost <= self._level(self.budget.available)

    @property
    def spending(self) -> float:
        """The answers that everything brings, now and later with what money then remains."""
        return self.answers + float(self.worth[1, 1, self._next(self.cost)])

    def saving(self, spent: float) -> float:
        """Return the answers to come if `spent` goes to something else now, without what that brings."""
        return float(self.idle[0] + self.worth[1, 0, self._next(int(np.ceil(spent / self.unit - SLACK)))])

    @property
    def price(self) -> float:
        """Answers per unit of cost that all the money that is there or to come brings without bundles."""
        money = self.budget.available + self.budget.per_evaluation * (len(self.worth) - 2)
        brings = float(self.alone[0, 0, self._level(self.budget.available)] - self.idle.sum())
        return brings / max(money, self.unit)

    def _level(self, money: float) -> int:
        most: int = self.worth.shape[2] - 1
        return min(int(money / self.unit + SLACK), most)

    def _next(self, spent: int) -> int:
        """Return the money at the next evaluation when so many units are spent now."""
        left = min(max(0, self._level(self.budget.available) - spent), self._level(self.bank))
        most: int = self.worth.shape[2] - 1
        return min(left + self._level(self.budget.per_evaluation), most)


def _foreseen(round: Round, profile: Floats, ahead: int) -> tuple[Floats, Floats, Floats, Ints]:
    """Cost and answers of everything at each evaluation after each pause, answers without, and what everything is now.

    Everything is all inputs that the window needs but those whose likely freshness loses fewer answers than their
    price brings on average.
    """
    needed = np.asarray(round.graph.transposed @ (round.profile[:, 0] > 0).astype(np.float64)) > 0
    demand = np.asarray(round.graph.transposed @ profile[:, 0]) * needed
    least = profile[:, 0].sum() / max(float(round.cost[needed].sum()), SLACK) * round.cost
    fresh = np.ones((PAUSES + 1, round.srs))
    fresh[0] = round.fresh_if_kept[:, 0]
    cost, answers, idle = np.zeros((3, ahead, PAUSES + 1))
    everything = np.flatnonzero(demand * round.staleness > least)
    for m, change in enumerate(_changes(round, ahead)):
        if m:
            fresh[2:] = fresh[1:-1]
            fresh[1] = 1.0
            fresh *= 1.0 - change
        refreshed = demand * (1.0 - fresh) > least
        cost[m] = refreshed @ round.cost
        count = profile[:, min(m, profile.shape[1] - 1)]
        answers[m] = count @ _all_inputs_fresh(round, np.where(refreshed, 1.0, fresh))
        idle[m] = count @ _all_inputs_fresh(round, fresh)
    return cost, answers, idle, everything


def _changes(round: Round, ahead: int) -> list[Floats]:
    """Return how likely each SR changes before each evaluation ahead: as foreseen, then at the mean pace of that."""
    seen = round.change.T[:ahead]
    pace = round.change[:, 1:].mean(axis=1) if round.horizon > 1 else np.ones(round.srs)
    return [*seen, *[np.clip(pace, 1.0 / LONGEST_LIFE, 1.0)] * (ahead - len(seen))]


def _all_inputs_fresh(round: Round, fresh: Floats) -> Floats:
    """Return the probability that all inputs of each SN are fresh, SN × cases."""
    zero: Bools = fresh <= 0
    zeros = np.asarray(round.graph.matrix @ zero.T.astype(np.float64))
    logs = np.asarray(round.graph.matrix @ np.log(np.where(zero, 1.0, fresh)).T)
    return np.where(zeros > 0.5, 0.0, np.exp(logs))


@njit(cache=True, nogil=True)
def worth_of_money(cost: Ints, answers: Floats, idle: Floats, bundles: float, pay: int, cap: int) -> Floats:
    """worth[m, s, b] of b units at evaluation m after a pause s; each evaluation pays `pay`, and `cap` can be kept."""
    ahead, states = cost.shape
    worth = np.zeros((ahead + 1, states, cap + pay + 1))
    for m in range(ahead - 1, -1, -1):
        for s in range(states):
            later = min(s + 1, states - 1) if s else 0
            for b in range(cap + pay + 1):
                best = idle[m, s] + worth[m + 1, later, min(b, cap) + pay]
                if b >= pay:
                    best = max(best, idle[m, s] + bundles + worth[m + 1, later, min(b - pay, cap) + pay])
                if cost[m, s] <= b:
                    best = max(best, answers[m, s] + worth[m + 1, 1, min(b - cost[m, s], cap) + pay])
                worth[m, s, b] = best
    return worth
