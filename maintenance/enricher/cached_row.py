"""What an enricher answers with, and what it holds to answer from."""

from collections.abc import Hashable
from typing import Any, NamedTuple

HELD = -1
"""The slot of what no round has seen yet; the last one of an array."""


class CachedRow(NamedTuple):
    """What is known of a key: the row, how likely it still is what the source has, and how old it is.

    >>> from freshkeeper import CachedRow
    >>> CachedRow({"name": "pen"}, freshness=0.98, age=1500, hit=True).value["name"]
    'pen'
    """

    value: Any
    """what the lookup returned; None where the source has no such key, or where nothing is known (freshness 0)"""
    freshness: float
    """the probability that the source still has this; 0 where nothing is known"""
    age: int | None
    """milliseconds since it was fetched; None where nothing is known"""
    hit: bool
    """whether it was in the cache"""
    error: str | None = None
    """why nothing is known"""


def nothing(why: str) -> CachedRow:
    """What is said of a key of which nothing is known."""
    return CachedRow(None, 0.0, None, False, why)


UNSURE = nothing("no budget is left for it now")


class Cell:
    """One row in the cache: what `get` reads, and how often it was asked for since the last round."""

    __slots__ = ("asked", "copy", "key", "round", "seen", "slot", "sn")

    def __init__(self, key: Hashable, value: object, fetched: int) -> None:
        self.key, self.copy = key, (value, fetched)
        self.sn, self.slot, self.round, self.asked, self.seen = HELD, HELD, -1, 0, fetched
