"""The worth of refreshing an SR now rather than later where staleness is not known: the price at which both come even.

For one SR alone, at a price C per refresh, with R = fresh_if_refreshed, K = fresh_if_kept and w the demand,

    U(r) = max over n > r of   Σ_{r ≤ i < n} w(i)·R(i − r) + U(n) − C        fetched at r, next at n
    N    = max over n > 0 of   Σ_{0 ≤ i < n} w(i)·K(i)     + U(n) − C        not fetched now, but at n

where "never again" has neither U nor C. Refreshing now is right while U(0) − C > N, and the C at which they are equal
is the index of the SR. Where demand is about to leave the index is `gain`; where it stays it is that of restless
bandits (Whittle), for a Poisson rate λ and an age a (w/λ)·(1 − (1 + λa)·e^(−λa)). An index is never above the gain:
whatever comes after the next refresh is the same for both.
"""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.policies.base import Round

GRID = np.array([0, 1, 2, 3, 4, 6, 8, 11, 15, 21, 29, 41, 57, 64])
"""Evaluations ahead at which a refresh is considered; the last is the end of the reckoning."""
STEPS = 30
CLOSE = 1e-4
"""An index is found to this share of the gain."""


@dataclass(frozen=True, eq=False)
class NowOrLater:
    """Weighs a refresh now against later ones; behind the horizon demand stays and chances keep their last ratio."""

    round: Round
    demand: Floats

    def gain(self) -> Floats:
        """Σ w·(R − K) up to the end of the reckoning, which no index exceeds."""
        fresh, kept = self.round.fresh_if_refreshed, self.round.fresh_if_kept
        within: Floats = np.einsum("jm,jm->j", self.demand, fresh - kept)
        behind = int(GRID[-1]) - self.round.horizon
        return within + self.demand[:, -1] * (_following(fresh, behind) - _following(kept, behind))

    def indices(self, gain: Floats, wanted: Bools, available: float) -> Floats:
        """Return the index of every SR that may be among the best `wanted`, by index per cost; 0 for all others.

        The first twice as many as there is money for, by gain, say what an index has to exceed.
        """
        cost = np.maximum(self.round.cost, 1e-12)
        rate = np.where(wanted, gain / cost, 0.0)
        found = np.zeros(rate.size)
        pool = np.flatnonzero(rate > 0)
        first = pool[_highest(rate[pool], self._twice(available))]
        found[first] = self._of(first, np.zeros(first.size))
        least = self._last_bought(found, first, available)
        rate[first] = 0.0
        rest = np.flatnonzero(rate > least)
        found[rest] = self._of(rest, least * cost[rest])
        return found

    def _twice(self, available: float) -> int:
        cheapest = float(self.round.cost.min(initial=np.inf))
        return self.round.srs if cheapest <= 0 else int(min(2 * available / cheapest + 1, self.round.srs))

    def _last_bought(self, found: Floats, rows: Ints, available: float) -> float:
        """Return the index per cost of the last SR that the money pays for; 0 where it pays for more."""
        cost = self.round.cost[rows]
        rate = found[rows] / np.maximum(cost, 1e-12)
        order = np.argsort(-rate)
        last = int(np.searchsorted(np.cumsum(cost[order]), available))
        return float(rate[order[last]]) if last < order.size else 0.0

    def _of(self, rows: Ints, least: Floats) -> Floats:
        matrices = (self.demand, self.round.fresh_if_refreshed, self.round.fresh_if_kept)
        demand, refreshed, kept = (np.ascontiguousarray(matrix[rows]) for matrix in matrices)
        found: Floats = indices_of(demand, refreshed, kept, least, GRID)
        return found


def _highest(values: Floats, count: int) -> Ints:
    if count >= values.size:
        return np.arange(values.size)
    highest: Ints = np.argpartition(-values, count)[:count]
    return highest


def _following(chance: Floats, count: int) -> Floats:
    """Return the sum of `count` more columns at the ratio of the last two."""
    if count <= 0:
        return np.zeros(chance.shape[0])
    ratio = np.minimum(_ratio(chance), 1.0 - 1e-9)
    return chance[:, -1] * ratio * (1.0 - _power(ratio, count)) / (1.0 - ratio)


def _power(base: Floats, exponent: int) -> Floats:
    """Raise to a power by squaring, which is several times faster than numpy's."""
    if exponent == 0:
        return np.ones_like(base)
    half = _power(base, exponent // 2)
    return half * half * base if exponent % 2 else half * half


def _ratio(chance: Floats) -> Floats:
    if chance.shape[1] < 2:
        return np.zeros(chance.shape[0])
    before = chance[:, -2]
    return np.where(before > 0, chance[:, -1] / np.where(before > 0, before, 1.0), 0.0)


@njit(cache=True, nogil=True)
def indices_of(demand: Floats, refreshed: Floats, kept: Floats, least: Floats, grid: Ints) -> Floats:
    """Return the index of each row, or 0 where it is not above `least`.

    By Newton on U(0) − C − N, which falls with C in straight pieces, kept between bounds.
    """
    found = np.zeros(demand.shape[0])
    last, horizon = grid.size - 1, demand.shape[1]
    w, fresh, old = np.empty(grid[last]), np.empty(grid[last]), np.empty(grid[last])
    held, sums, total = np.empty(grid.size), np.empty((grid.size, grid.size)), np.zeros(grid[last] + 1)
    ahead, paid = np.empty(grid.size), np.empty(grid.size)
    for j in range(found.size):
        prolong(demand[j], w, False)
        prolong(refreshed[j], fresh, True)
        prolong(kept[j], old, True)
        for i in range(fresh.size):  # an array put into part of another one takes two seconds to compile
            total[i + 1] = total[i] + fresh[i]
        add_up(w, fresh, old, total, horizon, grid, sums, held)
        low, high = least[j], sums[0, last] - held[last]
        if advantage(low, sums, held, ahead, paid)[0] <= 0:
            continue
        close, price = CLOSE * high, max(high * aged(old[0]), low)
        for _ in range(STEPS):
            score, slope = advantage(price, sums, held, ahead, paid)
            if abs(score) <= 1e-2 * close or high - low <= close:
                break
            if score > 0:
                low = price
            else:
                high = price
            price = price - score / slope if slope < 0 else high
            if not low < price < high:
                price = 0.5 * (low + high)
        found[j] = price
    return found


@njit(cache=True, nogil=True)
def aged(kept: float) -> float:
    """Return the share of its gain that the index of a copy is where demand stays: (1 − F + F·ln F)/(1 − F)."""
    if kept <= 0.0 or kept >= 1.0:
        return 1.0
    share: float = 1.0 + kept * np.log(kept) / (1.0 - kept)
    return share


@njit(cache=True, nogil=True)
def prolong(given: Floats, whole: Floats, fading: bool) -> None:
    """Copy the values of the next evaluations, then repeat the last one, or go on at the ratio of the last two."""
    horizon = given.size
    ratio = 1.0
    if fading:
        ratio = given[horizon - 1] / given[horizon - 2] if horizon > 1 and given[horizon - 2] > 0 else 0.0
    for i in range(whole.size):
        whole[i] = given[i] if i < horizon else whole[i - 1] * ratio


@njit(cache=True, nogil=True)
def add_up(
    w: Floats, fresh: Floats, old: Floats, total: Floats, horizon: int, grid: Ints, sums: Floats, held: Floats
) -> None:
    """sums[a, b]: answers that a copy fetched at grid[a] makes fresh before grid[b]; held[b]: that today's does.

    Behind the horizon demand is constant, and sums of `fresh` (`total`) do.
    """
    held[0] = 0.0
    for b in range(1, grid.size):
        held[b] = held[b - 1]
        for i in range(grid[b - 1], grid[b]):
            held[b] += w[i] * old[i]
    for a in range(grid.size):
        sums[a, a] = 0.0
        for b in range(a + 1, grid.size):
            part, begin = 0.0, grid[b - 1]
            if begin >= horizon:
                part = w[begin] * (total[grid[b] - grid[a]] - total[begin - grid[a]])
            else:
                for i in range(begin, grid[b]):
                    part += w[i] * fresh[i - grid[a]]
            sums[a, b] = sums[a, b - 1] + part


@njit(cache=True, nogil=True)
def advantage(price: float, sums: Floats, held: Floats, ahead: Floats, paid: Floats) -> tuple[float, float]:
    """U(0) − C − N at a price C, and its slope: how many refreshes fewer the first plan pays for."""
    last = held.size - 1
    for a in range(last - 1, -1, -1):
        ahead[a], paid[a] = sums[a, last], 0.0
        for b in range(a + 1, last):
            value = sums[a, b] + ahead[b] - price
            if value > ahead[a]:
                ahead[a], paid[a] = value, paid[b] + 1.0
    later, times = held[last], 0.0
    for b in range(1, last):
        value = held[b] + ahead[b] - price
        if value > later:
            later, times = value, paid[b] + 1.0
    return ahead[0] - price - later, times - paid[0] - 1.0
