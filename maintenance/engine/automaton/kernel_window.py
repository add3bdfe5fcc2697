"""The compiled window of the automaton: each triple once, found by subject, predicate, object or all three.

A triple lies in a slot with the time or ordinal of its last arrival; slots are linked from the oldest to the newest.
Triples that match a pattern are also in hash chains by each position that probes look up; chain 3 finds a whole triple.
"""

from typing import NamedTuple

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.engine.automaton.pair_table import find, hashed
from freshkeeper.maintenance.engine.automaton.tries import ANY_ID, NONE, PATTERN, SAME, SIBLING, PatternTrie

S, P, O, LAST, OLDER, NEWER, AFTER, BEFORE, BITS, MATCHES, MATCHED = 0, 1, 2, 3, 4, 5, 6, 10, 14, 15, 16  # noqa: E741
"""Columns of a slot.

Its triple; its last arrival; the next older and newer slot (for a free slot the next free one); its neighbours in each
chain; one bit per matching pattern, number modulo 64; how many patterns match, and which.
"""
WIDTH = 32
"""Columns of a slot. A triple matches at most 15 patterns: 8 shapes, and those with equal variables."""
TRIPLE_CHAIN = 3
OLDEST, NEWEST, FREE, CHAINS = 0, 1, 2, 3


class AutomatonWindow(NamedTuple):
    """The triples of a window, one slot each, in chains of slots with equal hashes."""

    slots: Ints
    heads: Ints
    """by chain and bucket: the first slot"""
    edge: Ints
    """the oldest, the newest and a free slot; which positions have chains, as bits"""


def room_for(slots: int, chains: int = 0) -> AutomatonWindow:
    """Return an empty window with `slots` slots (a power of two) and chains by these positions."""
    made = np.full((slots, WIDTH), NONE, np.int64)
    made[:-1, NEWER] = np.arange(1, slots)
    return AutomatonWindow(made, np.full((4, 2 * slots), NONE, np.int64), np.array([NONE, NONE, 0, chains]))


@njit(cache=True, nogil=True)
def move_all(source: AutomatonWindow, target: AutomatonWindow, patterns: PatternTrie) -> None:
    """Insert all triples of one window into another and match them against these patterns."""
    at = source.edge[OLDEST]
    while at >= 0:
        slot = source.slots[at]
        insert(target, slot[S], slot[P], slot[O], slot[LAST], patterns)
        at = slot[NEWER]


@njit(cache=True, nogil=True)
def lookup(held: AutomatonWindow, s: int, p: int, o: int) -> int:
    """Return the slot of a triple, or -1."""
    slots = held.slots
    at = int(held.heads[TRIPLE_CHAIN, bucket(held, TRIPLE_CHAIN, hashed(hashed(s, p), o))])
    while at >= 0 and not (slots[at, S] == s and slots[at, P] == p and slots[at, O] == o):
        at = int(slots[at, AFTER + TRIPLE_CHAIN])
    return at


@njit(cache=True, nogil=True)
def bucket(held: AutomatonWindow, chain: int, key: int) -> int:
    """Return the bucket of a key in a chain."""
    return hashed(key, chain) & int(held.heads.shape[1] - 1)


@njit(cache=True, nogil=True)
def insert(held: AutomatonWindow, s: int, p: int, o: int, last: int, patterns: PatternTrie) -> int:
    """Insert a triple that is not in the window; a slot must be free. Return the slot."""
    at = int(held.edge[FREE])
    slot = held.slots[at]
    held.edge[FREE] = slot[NEWER]
    slot[S], slot[P], slot[O] = s, p, o
    put_last(held, at, last)
    match(patterns, slot)
    link(held, at, TRIPLE_CHAIN, hashed(hashed(s, p), o))
    for c in range(3):
        if slot[MATCHES] and held.edge[CHAINS] >> c & 1:
            link(held, at, c, slot[c])
    return at


@njit(cache=True, nogil=True)
def renew(held: AutomatonWindow, at: int, last: int) -> None:
    """Make a triple the newest, because it arrived again."""
    take_out(held, at)
    put_last(held, at, last)


@njit(cache=True, nogil=True)
def evict(held: AutomatonWindow, until: int) -> None:
    """Remove triples whose last arrival is at or before `until`."""
    at = held.edge[OLDEST]
    while at >= 0 and held.slots[at, LAST] <= until:
        slot = held.slots[at]
        take_out(held, at)
        unlink(held, at, TRIPLE_CHAIN, hashed(hashed(slot[S], slot[P]), slot[O]))
        for c in range(3):
            if slot[MATCHES] and held.edge[CHAINS] >> c & 1:
                unlink(held, at, c, slot[c])
        slot[NEWER], held.edge[FREE] = held.edge[FREE], at
        at = held.edge[OLDEST]


@njit(cache=True, nogil=True)
def put_last(held: AutomatonWindow, at: int, last: int) -> None:
    """Append a slot to the list as its newest."""
    newest = held.edge[NEWEST]
    held.slots[at, LAST], held.slots[at, OLDER], held.slots[at, NEWER] = last, newest, NONE
    if newest >= 0:
        held.slots[newest, NEWER] = at
    else:
        held.edge[OLDEST] = at
    held.edge[NEWEST] = at


@njit(cache=True, nogil=True)
def take_out(held: AutomatonWindow, at: int) -> None:
    """Remove a slot from the list."""
    older, newer = held.slots[at, OLDER], held.slots[at, NEWER]
    if older >= 0:
        held.slots[older, NEWER] = newer
    else:
        held.edge[OLDEST] = newer
    if newer >= 0:
        held.slots[newer, OLDER] = older
    else:
        held.edge[NEWEST] = older


@njit(cache=True, nogil=True)
def link(held: AutomatonWindow, at: int, chain: int, key: int) -> None:
    """Insert a slot at the head of a key's chain."""
    place = bucket(held, chain, key)
    first = held.heads[chain, place]
    held.slots[at, AFTER + chain], held.slots[at, BEFORE + chain] = first, NONE
    if first >= 0:
        held.slots[first, BEFORE + chain] = at
    held.heads[chain, place] = at


@njit(cache=True, nogil=True)
def unlink(held: AutomatonWindow, at: int, chain: int, key: int) -> None:
    """Remove a slot from a key's chain."""
    before, after = held.slots[at, BEFORE + chain], held.slots[at, AFTER + chain]
    if before >= 0:
        held.slots[before, AFTER + chain] = after
    else:
        held.heads[chain, bucket(held, chain, key)] = after
    if after >= 0:
        held.slots[after, BEFORE + chain] = before


@njit(cache=True, nogil=True)
def match(trie: PatternTrie, slot: Ints) -> None:
    """Write the patterns that a triple matches into its slot, along all paths of the trie that its ids open."""
    slot[MATCHES] = slot[BITS] = 0
    for a in (find(trie.table, 0, slot[S]) + 1, trie.states[0, ANY_ID]):
        if a <= 0:
            continue
        for b in (find(trie.table, a, slot[P]) + 1, trie.states[a, ANY_ID]):
            if b <= 0:
                continue
            for c in (find(trie.table, b, slot[O]) + 1, trie.states[b, ANY_ID]):
                pattern = trie.states[c, PATTERN] if c > 0 else NONE
                while pattern >= 0:
                    if fits(trie.patterns[pattern, SAME], slot):
                        slot[MATCHED + slot[MATCHES]] = pattern
                        slot[MATCHES] += 1
                        slot[BITS] |= 1 << (pattern & 63)
                    pattern = trie.patterns[pattern, SIBLING]


@njit(cache=True, nogil=True)
def fits(same: int, slot: Ints) -> bool:
    """Return True if the positions that share a variable are equal."""
    if same == 0:
        return True
    s, p, o = slot[S], slot[P], slot[O]
    return bool((not same & 1 or s == p) and (not same & 2 or s == o) and (not same & 4 or p == o))
