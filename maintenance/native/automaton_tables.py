"""Hash tables over pairs of numbers, as compiled loops see them.

`table` holds numbers of entries, -1 where nothing is; `keys` has the two keys of each entry. Open addressing; nothing
is ever taken out, as an automaton whose queries change is laid anew.
"""

import numpy as np
from numba import njit

from freshkeeper.policies.arrays import Ints


@njit(cache=True, nogil=True)
def hashed(a: int, b: int) -> int:
    """Two numbers mixed; the low bits are good."""
    h = (np.uint64(a) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(31)) ^ np.uint64(b)) * np.uint64(0x9E3779B97F4A7C15)
    return int((h ^ (h >> np.uint64(29))) & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(cache=True, nogil=True)
def find(table: Ints, keys: Ints, a: int, b: int) -> int:
    """The entry with these keys, or -1 - the place where it would stand."""
    mask = table.size - 1
    at = hashed(a, b) & mask
    while table[at] >= 0:
        entry = int(table[at])
        if keys[entry, 0] == a and keys[entry, 1] == b:
            return entry
        at = (at + 1) & mask
    return -1 - at


@njit(cache=True, nogil=True)
def enter(table: Ints, keys: Ints, entries: int, a: int, b: int) -> int:
    """The entry with these keys, which is the next one where there was none."""
    entry = find(table, keys, a, b)
    if entry < 0:
        table[-1 - entry] = entries
        keys[entries, 0], keys[entries, 1] = a, b
        return entries
    return entry


def table_for(entries: int) -> Ints:
    """An empty table that is at most half full with so many entries."""
    return np.full(1 << max(3, (2 * entries).bit_length()), -1, np.int64)
