"""Which entries leave the shards of a graph: the best of each, and one price for all where these are too many.

A price is the score from which on an entry may be chosen. Where the best of every shard are too many to meet at the
driver, the shards first say how many of theirs are worth at least each of some prices, as bidders do in an auction. The
highest price at which there are enough is the one: what is worth less stays where it is. Ever so many may be worth
exactly the price; which of them leave a shard is its draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.ranked import NO

TIES = 10_000
"""Entries equal to the last one of a shard's best that leave it, for one draw among all of them."""
AT_ONCE = 64
"""Prices of one round."""
SPARE = 1 / 8
"""So many more than are wanted, as a share, may leave their shards, and a round less be asked for it."""
LOWEST = -float(np.finfo(np.float64).max)
NEAR = 1 << 52
"""A price may double or halve from one evaluation to the next, and is found in the first round all the same."""


@dataclass(frozen=True, eq=False)
class Best:
    """What leaves a shard, or all of them."""

    rows: pa.Table
    """with `score` and `tie`"""
    sums: Floats
    """over all its candidates: how many, how many of them stale, answers, and answers that are expected to be fresh"""
    cut: bool
    """whether more were equal to the last one than may leave"""

    @classmethod
    def together(cls, parts: Sequence["Best"], most: int) -> "Best":
        """The best of all shards, in the order of their keys."""
        rows, cut = pa.concat_tables([part.rows for part in parts]), any(part.cut for part in parts)
        if cut:  # a shard that could not send all of its ties must not lose by it
            order = np.lexsort((rows["tie"].to_numpy(), -rows["score"].to_numpy()))
            rows = rows.take(order[:most])
        return cls(rows.sort_by([("sr", "ascending")]), np.sum([part.sums for part in parts], axis=0), cut)


def highest(score: Floats, tie: Floats, most: int, price: float = NO) -> tuple[Ints, bool]:
    """The rows of the best, with those equal to the last of them; where these are too many, as they come by `tie`."""
    pool = np.flatnonzero((score > NO) & (score >= price))
    if most < 1 or pool.size <= most:
        return pool[: pool.size if most > 0 else 0], False
    cut = np.partition(score[pool], pool.size - most)[pool.size - most]
    pool = pool[score[pool] >= cut]
    order = pool[np.lexsort((tie[pool], -score[pool]))]
    return order[: most + TIES], order.size > most + TIES


@dataclass(frozen=True, eq=False)
class Worth:
    """By price: how many entries are worth at least it, and the least and the greatest score up to the next price."""

    count: Ints
    least: Floats
    greatest: Floats

    @classmethod
    def of(cls, score: Floats, prices: Floats) -> "Worth":
        """Of one shard; prices ascend, and are at most what anything is worth."""
        place = np.searchsorted(prices, score, side="right") - 1
        place, score = place[place >= 0], score[place >= 0]
        least, greatest = np.full(prices.size, np.inf), np.full(prices.size, -np.inf)
        np.minimum.at(least, place, score)
        np.maximum.at(greatest, place, score)
        return cls(np.bincount(place, minlength=prices.size)[::-1].cumsum()[::-1], least, greatest)

    @classmethod
    def together(cls, parts: Sequence["Worth"]) -> "Worth":
        """Of all shards."""
        count, least, greatest = (
            np.stack(column) for column in zip(*(vars(part).values() for part in parts), strict=True)
        )
        return cls(count.sum(axis=0), least.min(axis=0), greatest.max(axis=0))


def one_price(ask: Callable[[Floats], Worth], most: int, last: float | None = None) -> float:
    """The highest price found at which at least `most` of all shards are worth it; the lowest where they are fewer.

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
