"""One price for all parts of a graph: the score from which on an entry may be chosen, found by rounds of counts.

Where the best of every part are too many to meet at the driver, the parts first say how many of theirs are worth at
least each of some prices, as bidders do in an auction. The highest price at which there are enough is the one: what
is worth less stays where it is. Ever so many may be worth exactly the price; which of them leave a part is its draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.policies.arrays import Floats, Ints

AT_ONCE = 64
"""Prices of one round."""
SPARE = 1 / 8
"""So many more than are wanted, as a share, may leave their parts, and a round less be asked for it."""
LOWEST = -float(np.finfo(np.float64).max)
NEAR = 1 << 52
"""A price may double or halve from one evaluation to the next, and is found in the first round all the same."""


@dataclass(frozen=True, eq=False)
class Worth:
    """By price: how many entries are worth at least it, and the least and the greatest score up to the next price."""

    count: Ints
    least: Floats
    greatest: Floats

    @classmethod
    def of(cls, score: Floats, prices: Floats) -> "Worth":
        """Of one part; prices ascend, and are at most what anything is worth."""
        place = np.searchsorted(prices, score, side="right") - 1
        place, score = place[place >= 0], score[place >= 0]
        least, greatest = np.full(prices.size, np.inf), np.full(prices.size, -np.inf)
        np.minimum.at(least, place, score)
        np.maximum.at(greatest, place, score)
        return cls(np.bincount(place, minlength=prices.size)[::-1].cumsum()[::-1], least, greatest)

    @classmethod
    def together(cls, parts: Sequence["Worth"]) -> "Worth":
        """Of all parts."""
        columns = [np.stack([getattr(part, name) for part in parts]) for name in ("count", "least", "greatest")]
        return cls(columns[0].sum(axis=0), columns[1].min(axis=0), columns[2].max(axis=0))


def one_price(ask: Callable[[Floats], Worth], most: int, last: float | None = None) -> float:
    """The highest price found at which at least `most` of all parts are worth it; the lowest where they are fewer.

    `last` is where the search begins: the price of the evaluation before.
    """
    lowest, highest = _place(LOWEST), _place(np.inf)
    near = (lowest, highest) if last is None else (_place(last) - NEAR, _place(last) + NEAR)
    grid = sorted({lowest, *_between(max(lowest, near[0]), min(highest, near[1]))})
    while True:
        found = ask(np.array([_price(place) for place in grid]))
        at = int(np.count_nonzero(found.count >= most)) - 1
        if at < 0:
            return LOWEST
        if found.count[at] <= most * (1 + SPARE) or found.least[at] == found.greatest[at]:
            return float(found.least[at])
        grid = _between(_place(found.least[at]), _place(found.greatest[at]) + 1)


def _between(low: int, high: int) -> list[int]:
    """Some places, the first of them `low`."""
    return sorted({low + (high - low) * n // AT_ONCE for n in range(AT_ONCE)})


def _place(price: float) -> int:
    """Its number among all floats there are: halves between two places are halves for small prices and great ones."""
    bits = int(np.float64(price).view(np.int64))
    return bits if bits >= 0 else -(bits + 2**63)


def _price(place: int) -> float:
    bits = place if place >= 0 else -place - 2**63
    return float(np.int64(bits).view(np.float64))
