"""Hash tables over pairs of integers, for compiled loops.

A row has the two keys and the number of the entry, -1 if it is empty. Open addressing; entries are never removed,
because the automaton is rebuilt when its queries change.
"""

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.compiled import njit

ENTRY = 2
"""The column of the entry's number, after its keys."""


@njit(cache=True, nogil=True)
def hashed(a: int, b: int) -> int:
    """Return a hash of two integers with well-mixed low bits."""
    h = (np.uint64(a) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(31)) ^ np.uint64(b)) * np.uint64(0x9E3779B97F4A7C15)
    return int((h ^ (h >> np.uint64(29))) & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(cache=True, nogil=True)
def find(table: Ints, a: int, b: int) -> int:
    """Return the entry with these keys, or -1 - (its free position)."""
    mask = table.shape[0] - 1
    at = hashed(a, b) & mask
    while table[at, ENTRY] >= 0:
        if table[at, 0] == a and table[at, 1] == b:
            return int(table[at, ENTRY])
        at = (at + 1) & mask
    return int(-1 - at)


@njit(cache=True, nogil=True)
def enter(table: Ints, entries: int, a: int, b: int) -> int:
    """Return the entry with these keys; insert it as number `entries` if it is missing."""
    entry = find(table, a, b)
    if entry >= 0:
        return entry
    table[-1 - entry, 0], table[-1 - entry, 1], table[-1 - entry, ENTRY] = a, b, entries
    return entries


def table_for(entries: int) -> Ints:
    """Return an empty table that is at most half full with `entries` entries."""
    return np.full((1 << max(3, (2 * entries).bit_length()), 3), -1, np.int64)
