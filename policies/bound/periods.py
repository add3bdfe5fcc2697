"""Staleness periods: between two changes an SR is worth one refresh, and its gain only falls while it is put off.

The Lagrangian dual of case 1 has a price for the budget of every evaluation; any prices give an upper bound.
"""

from dataclasses import dataclass, replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.policies.bound.flow import rank_of
from freshkeeper.policies.bound.future import Allowance, Future


@dataclass(frozen=True, eq=False)
class Periods:
    """Evaluations of each SR cut at its changes; `key` is sr · K + first evaluation, ascending."""

    key: Ints
    fresh: Bools
    evaluations: int

    @classmethod
    def of(cls, future: Future) -> "Periods":
        """Cut at every change; the first period of an SR is fresh from the start or else stale like the others."""
        count = future.evaluations
        changes = future.changed_sr.astype(np.int64) * count + future.changed_at
        opening = np.arange(future.srs, dtype=np.int64) * count
        key = np.unique(np.concatenate([opening, changes]))
        fresh = np.zeros(key.size, dtype=np.bool_)
        fresh[np.searchsorted(key, opening)] = future.fresh_at_start & ~np.isin(opening, changes)
        return cls(key, fresh, count)

    def holding(self, key: Ints) -> Ints:
        """Return the period that each sr · K + k falls into."""
        return np.searchsorted(self.key, key, side="right") - 1


@dataclass(frozen=True, eq=False)
class Steps:
    """The gains that a refresh can have: one step per stale period and evaluation that counts in it, in order of time.

    A refresh of SR `sr` anywhere in `first` .. `last` is fresh from the counting evaluation `last` on and gains `gain`
    until the period ends. Within a period the steps follow each other and their gains fall.
    """

    period: Ints
    sr: Ints
    first: Ints
    last: Ints
    gain: Floats
    cost: Floats
    evaluations: int

    @property
    def size(self) -> int:
        """The number of steps."""
        return self.period.size

    @property
    def periods(self) -> int:
        """The number of periods that have a step."""
        return int(self.period[-1]) + 1 if self.size else 0

    @property
    def opening(self) -> Bools:
        """The first step of each period."""
        return changes_of(self.period)

    def pooled(self, width: int) -> "Steps":
        """Return the steps that matter when `width` evaluations in a row count as one: the earliest in each block."""
        first, last = self.first // width, self.last // width
        covered = np.where(self.opening, -1, np.append(-1, last[:-1]))
        first = np.maximum(first, covered + 1)
        blocks = replace(self, first=first, last=last, evaluations=-(-self.evaluations // width))
        return blocks.only(first <= last)

    def only(self, kept: Bools) -> "Steps":
        """Return some of the steps, their periods numbered anew."""
        return Steps(
            period=np.cumsum(changes_of(self.period[kept])) - 1,
            sr=self.sr[kept],
            first=self.first[kept],
            last=self.last[kept],
            gain=self.gain[kept],
            cost=self.cost[kept],
            evaluations=self.evaluations,
        )


def steps_of(future: Future) -> tuple[Steps, float]:
    """Return the steps of case 1, and what is fresh for certain without any refresh."""
    table = future.answers.tocoo()
    at, sr = (axis.astype(np.int64) for axis in table.coords)
    value = table.data * future.weight[at]
    counts = value > 0
    # A sparse matrix may hold one place in several entries.
    key, place = np.unique(sr[counts] * future.evaluations + at[counts], return_inverse=True)
    value = np.bincount(place, weights=value[counts], minlength=key.size).astype(np.float64)
    periods = Periods.of(future)
    holder = periods.holding(key)
    fresh = periods.fresh[holder]
    windows = windows_of(periods, holder[~fresh], key[~fresh] % future.evaluations, future.cost)
    gain = until_the_end(value[~fresh], windows.period)
    return replace(windows, gain=gain), float(value[fresh].sum())


def windows_of(periods: Periods, holder: Ints, block: Ints, cost: Floats, width: int = 1) -> Steps:
    """Return one step, without a gain, for each of the ascending pairs of a period and a block of evaluations."""
    sr, start = np.divmod(periods.key[holder], periods.evaluations)
    opening = changes_of(holder)
    first = np.where(opening, start // width, np.append(0, block[:-1] + 1)[: holder.size])
    nothing = np.zeros(holder.size)
    return Steps(
        period=np.cumsum(opening) - 1,
        sr=sr,
        first=first,
        last=block,
        gain=nothing,
        cost=cost[sr],
        evaluations=-(-periods.evaluations // width),
    )


def until_the_end(value: Floats, period: Ints) -> Floats:
    """Return the sum of each value and those that follow it in its period."""
    suffix = np.append(np.cumsum(value[::-1])[::-1], 0.0)
    ends = np.flatnonzero(changes_of(period[::-1])[::-1]) + 1
    gain: Floats = suffix[:-1] - suffix[ends][period]
    return gain


def changes_of(period: Ints) -> Bools:
    """Return the places where another period begins."""
    return np.append(True, period[1:] != period[:-1])[: period.size]


def dual_bound(steps: Steps, allowance: Allowance, prices: Floats) -> float:
    """Σ_k π_k · pay_k + π_0 · initial + bank · Σ_k max(0, π_k − π_{k−1}) + Σ_periods max(0, max (gain − π · cost)).

    Valid for any π ≥ 0: what is paid in is sold at π, the bank earns what prices rise, and each period buys its best
    step or nothing. Nothing depends on how the prices were found. What is fresh without any refresh comes on top.
    """
    most = min(allowance.bank, allowance.initial + float(allowance.pay.sum()))
    sold = prices @ allowance.pay + prices[0] * allowance.initial + most * np.maximum(np.diff(prices), 0).sum()
    if not steps.size:
        return float(sold)
    bought = np.maximum.reduceat(net_gain(steps, prices), np.flatnonzero(steps.opening))
    return float(sold + np.maximum(bought, 0).sum())


def net_gain(steps: Steps, prices: Floats) -> Floats:
    """Return what each step gains beyond the lowest price in its window."""
    return steps.gain - steps.cost * cheapest(prices, steps.first, steps.last)


def nearest_to_best(steps: Steps, prices: Floats, count: int) -> Steps:
    """Return the `count` steps that give away least against the best step of their period at these prices."""
    if steps.size <= count:
        return steps
    net = net_gain(steps, prices)
    given_away = np.maximum.reduceat(net, np.flatnonzero(steps.opening))[steps.period] - net
    kept = np.zeros(steps.size, dtype=np.bool_)
    kept[np.argsort(given_away, kind="stable")[:count]] = True
    return steps.only(kept)


def cheapest(prices: Floats, first: Ints, last: Ints) -> Floats:
    """Return the lowest price from `first` to `last`, for all windows at once, from a sparse table."""
    rank = rank_of(first, last)
    table = [prices]
    for half in (1 << np.arange(int(rank.max(initial=0)))).tolist():
        shifted = np.append(table[-1][half:], np.full(half, np.inf))[: prices.size]
        table.append(np.minimum(table[-1], shifted))
    runs = np.stack(table)
    lowest: Floats = np.minimum(runs[rank, first], runs[rank, last - (1 << rank) + 1])
    return lowest
