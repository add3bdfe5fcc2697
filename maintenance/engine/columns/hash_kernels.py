"""Compiled loops over hash tables with keys of up to three ids.

A group has equal keys. `table` finds groups (open addressing, -1 if empty); a row of `groups` has the keys, the first
member and the number of members; a row of `members` has the neighbours in its group (-1 at the ends) and the group.
What is read together is stored together, because the tables are larger than the CPU caches.
"""

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.compiled import njit

HEAD, COUNT, GROUP_WIDTH = 3, 4, 5
"""Columns of a group, after its three keys."""
AFTER, BEFORE, OWNER, MEMBER_WIDTH = 0, 1, 2, 3
"""Columns of a member."""


@njit(cache=True, nogil=True)
def place(a: int, b: int, c: int, mask: int) -> int:
    """Return the position in the table where the search for these keys starts."""
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(32))) + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(29))) + np.uint64(c) * np.uint64(0x165667B19E3779F9)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    found: int = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))  # type: ignore[assignment]
    return found


@njit(cache=True, nogil=True)
def find(table: Ints, groups: Ints, a: int, b: int, c: int) -> int:
    """Return the group with these keys, or -1 - (its free position)."""
    mask = table.size - 1
    at = place(a, b, c, mask)
    while table[at] >= 0:
        g: int = table[at]
        if groups[g, 0] == a and groups[g, 1] == b and groups[g, 2] == c:
            return g
        at = (at + 1) & mask
    return -1 - at


@njit(cache=True, nogil=True)
def link(table: Ints, groups: Ints, members: Ints, used: int, new: Ints, a: Ints, b: Ints, c: Ints) -> int:
    """Add new members to the groups of their keys; return the number of groups, which was `used` before."""
    for n in range(new.size):
        m = new[n]
        g = find(table, groups, a[n], b[n], c[n])
        if g < 0:
            table[-1 - g] = used
            g = used
            groups[g, 0], groups[g, 1], groups[g, 2] = a[n], b[n], c[n]
            groups[g, HEAD], groups[g, COUNT] = -1, 0
            used += 1
        first = groups[g, HEAD]
        members[m, AFTER], members[m, BEFORE], members[m, OWNER] = first, -1, g
        if first >= 0:
            members[first, BEFORE] = m
        groups[g, HEAD] = m
        groups[g, COUNT] += 1
    return used


@njit(cache=True, nogil=True)
def unlink(groups: Ints, members: Ints, gone: Ints) -> None:
    """Remove members from their groups."""
    for n in range(gone.size):
        m = gone[n]
        g, left, right = members[m, OWNER], members[m, BEFORE], members[m, AFTER]
        if left >= 0:
            members[left, AFTER] = right
        else:
            groups[g, HEAD] = right
        if right >= 0:
            members[right, BEFORE] = left
        groups[g, COUNT] -= 1


@njit(cache=True, nogil=True)
def refill(table: Ints, groups: Ints, used: int) -> None:
    """Enter all groups into an empty table."""
    for g in range(used):
        table[-1 - find(table, groups, groups[g, 0], groups[g, 1], groups[g, 2])] = g


@njit(cache=True, nogil=True)
def probe(table: Ints, groups: Ints, a: Ints, b: Ints, c: Ints, found: Ints) -> int:
    """Write the group of each key into `found`, -1 if there is none; return the number of their members together."""
    total = 0
    for n in range(a.size):
        g = find(table, groups, a[n], b[n], c[n])
        found[n] = g if g >= 0 else -1
        if g >= 0:
            total += groups[g, COUNT]
    return total


@njit(cache=True, nogil=True)
def expand(groups: Ints, members: Ints, asked: Ints, rows: Ints, out: Ints) -> None:
    """Write every member of the groups `asked`, and the position of its group in that list."""
    at = 0
    for n in range(asked.size):
        m = groups[asked[n], HEAD] if asked[n] >= 0 else -1
        while m >= 0:
            rows[at], out[at] = n, m
            at += 1
            m = members[m, AFTER]
