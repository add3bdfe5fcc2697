"""Candidates of the shards of a graph: the best entries of each, and one price for all if they are too many.

A price is the score from which on an entry may be chosen. Where the best of every shard are too many to meet at the
driver, the shards first make offers, as bidders do in a sealed auction: the score of every n-th of their best. An offer
stands for n entries that are worth at least as much, so at the highest price at which offers stand for enough there are
enough, and hardly more. What is worth less stays where it is. Ever so many may be worth exactly the price; which of
them leave a shard is its draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.policies.ranked import NO


@dataclass(frozen=True, eq=False)
class Best:
    """Entries that leave a shard, or are chosen of all: the best first, with `score` and `tie`."""

    rows: pa.Table
    sums: Ints
    """how many candidates there are, and how many of them are stale"""

    @classmethod
    def together(cls, parts: Sequence["Best"], most: int) -> "Best":
        """Return the best candidates of all shards."""
        rows = pa.concat_tables([part.rows for part in parts])
        order = np.lexsort((rows["tie"].to_numpy(), -rows["score"].to_numpy()))
        return cls(rows.take(order[:most]), np.sum([part.sums for part in parts], axis=0))


def highest(score: Floats, tie: Floats, most: int, price: float = NO) -> Ints:
    """Return the best rows that are worth the price, in order; ties are ordered as they were drawn."""
    pool = np.flatnonzero((score > NO) & (score >= price))
    least = max(1, most)
    if least < pool.size:
        pool = pool[score[pool] >= np.partition(score[pool], -least)[-least]]
    return pool[np.lexsort((tie[pool], -score[pool]))][:most]


def offers(score: Floats, most: int, every: int) -> Floats:
    """Return the score of every n-th of the best."""
    best = np.sort(score[highest(score, score, most)])[::-1]
    return best[every - 1 :: every]


def clearing_price(offered: Sequence[Floats], most: int, every: int) -> float:
    """Return the highest price at which offers stand for enough entries, or the lowest price."""
    ranked, enough = np.sort(np.concatenate(offered))[::-1], -(-most // every)
    return float(ranked[enough - 1]) if ranked.size >= enough else NO
