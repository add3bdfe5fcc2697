"""Loops of hash tables over up to three ids, compiled.

A group is what has equal keys. `table` finds groups (open addressing, -1 where nothing is); `keys` has their keys, in
three columns; `head` and `count` their members, linked both ways by `after` and `before`, -1 at the ends.
"""

import numpy as np
from numba import njit

from freshkeeper.policies.arrays import Ints


@njit(cache=True, nogil=True)
def place(a: int, b: int, c: int, mask: int) -> int:
    """Where the search for these keys begins."""
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(32))) + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(29))) + np.uint64(c) * np.uint64(0x165667B19E3779F9)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    found: int = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))  # type: ignore[assignment]
    return found


@njit(cache=True, nogil=True)
def find(table: Ints, keys: Ints, a: int, b: int, c: int) -> int:
    """The group with these keys, or the place for it as -1 - place."""
    mask = table.size - 1
    at = place(a, b, c, mask)
    while table[at] >= 0:
        g: int = table[at]
        if keys[0, g] == a and keys[1, g] == b and keys[2, g] == c:
            return g
        at = (at + 1) & mask
    return -1 - at


@njit(cache=True, nogil=True)
def link(
    table: Ints, keys: Ints, head: Ints, count: Ints, after: Ints, before: Ints, owner: Ints, groups: int,
    members: Ints, a: Ints, b: Ints, c: Ints,
) -> int:  # fmt: skip
    """Put members into the groups of their keys; returns how many groups there are then."""
    for n in range(members.size):
        m = members[n]
        g = find(table, keys, a[n], b[n], c[n])
        if g < 0:
            table[-1 - g] = groups
            g = groups
            keys[0, g], keys[1, g], keys[2, g] = a[n], b[n], c[n]
            head[g], count[g] = -1, 0
            groups += 1
        first = head[g]
        after[m], before[m], owner[m] = first, -1, g
        if first >= 0:
            before[first] = m
        head[g] = m
        count[g] += 1
    return groups


@njit(cache=True, nogil=True)
def unlink(head: Ints, count: Ints, after: Ints, before: Ints, owner: Ints, members: Ints) -> None:
    """Take members out of their groups."""
    for n in range(members.size):
        m = members[n]
        g, left, right = owner[m], before[m], after[m]
        if left >= 0:
            after[left] = right
        else:
            head[g] = right
        if right >= 0:
            before[right] = left
        count[g] -= 1


@njit(cache=True, nogil=True)
def refill(table: Ints, keys: Ints, groups: int) -> None:
    """Find groups by a table that is empty."""
    for g in range(groups):
        table[-1 - find(table, keys, keys[0, g], keys[1, g], keys[2, g])] = g


@njit(cache=True, nogil=True)
def probe(table: Ints, keys: Ints, count: Ints, a: Ints, b: Ints, c: Ints, groups: Ints) -> int:
    """The group of each of these keys, -1 where there is none; returns how many members they have together."""
    total = 0
    for n in range(a.size):
        g = find(table, keys, a[n], b[n], c[n])
        groups[n] = g if g >= 0 else -1
        if g >= 0:
            total += count[g]
    return total


@njit(cache=True, nogil=True)
def expand(head: Ints, after: Ints, groups: Ints, rows: Ints, members: Ints) -> None:
    """Every member of each group, beside the place of the group in the list."""
    at = 0
    for n in range(groups.size):
        m = head[groups[n]] if groups[n] >= 0 else -1
        while m >= 0:
            rows[at], members[at] = n, m
            at += 1
            m = after[m]
