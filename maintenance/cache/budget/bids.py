"""Bids of views for a budget that they share: the answers that each further unit of money would bring to them.

Money goes where the next unit of it brings most, which for bids that fall is the optimum of all of them together (up to
entries that cost more than a unit); the last unit that is given sets the one price at which all of them buy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Bid:
    """The choice that a policy would make with all the money, best first: what each entry brings and costs."""

    answers: Floats
    cost: Floats

    def by_unit(self, unit: float, most: int) -> Floats:
        """Return what each unit of money brings, for at most `most` units; a later one never brings more than the one
        before.

        What costs less than a unit shares one, what costs more is spread over those that it needs.
        """
        paid = self.cost > 0
        cost = self.cost[paid]
        rate = np.minimum.accumulate(self.answers[paid] / cost) if cost.size else cost
        spent, brought = (np.concatenate([[0.0], np.cumsum(column)]) for column in (cost, rate * cost))
        units = min(most, int(np.ceil(spent[-1] / unit - 1e-9)))
        each: Floats = np.diff(np.interp(np.arange(units + 1) * unit, spent, brought))
        return each


def allocate(units: int, bids: Sequence[Bid], unit: float, weights: Sequence[float], least: Sequence[int]) -> list[int]:
    """Return how many units each bid gets; what no bid asks for is left.

    An answer of a view counts `weights` times. `least` is what each may have ahead of the others, as far as it asks for
    it. Of units that bring the same everybody has the first before anybody has a second, by weights.
    """
    wanted = [bid.by_unit(unit, units) * weight for bid, weight in zip(bids, weights, strict=True)]
    got = np.array([min(sure, each.size) for sure, each in zip(least, wanted, strict=True)], np.int64)
    owner: Ints = np.repeat(np.arange(len(bids)), [each.size - own for each, own in zip(wanted, got, strict=True)])
    value = np.concatenate([each[own:] for each, own in zip(wanted, got, strict=True)])
    turns = [np.arange(own + 1, each.size + 1) for each, own in zip(wanted, got, strict=True)]
    turn = np.concatenate(turns) / np.maximum(np.array(weights)[owner], 1e-9)
    best = np.lexsort((turn, -value))[: units - int(got.sum())]
    given: list[int] = (got + np.bincount(owner[best], minlength=len(bids))).tolist()
    return given
