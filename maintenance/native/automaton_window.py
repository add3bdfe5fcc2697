"""The triples that a window holds, each once, found by subject, predicate, object or all three: compiled.

A triple lies in a slot, whichever time or ordinal it came last at; the slots are linked from the oldest to the newest.
Those that match a pattern stand in chains by each position; chain 3 finds a triple as a whole.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from freshkeeper.maintenance.native.automaton_tables import find, hashed
from freshkeeper.maintenance.native.automaton_tries import ANY, NOWHERE, PatternTrie
from freshkeeper.policies.arrays import Ints

MOST_MATCHED = 15
"""Patterns that one triple can match: its 8 shapes, and those with equal variables."""
WHOLE = 3
OLDEST, NEWEST, FREE = 0, 1, 2


class Held(NamedTuple):
    """The window's triples by slot, -1 where a link leads nowhere."""

    ids: Ints
    last: Ints
    """the time or ordinal at which it came last"""
    older: Ints
    newer: Ints
    """towards the newest; of free slots, the next free one"""
    head: Ints
    """by chain and bucket: a slot"""
    after: Ints
    before: Ints
    """by slot and chain"""
    matched: Ints
    matches: Ints
    """by slot: the patterns that it matches, and how many"""
    ends: Ints
    """the oldest, the newest and a free slot"""


def room_for(slots: int) -> Held:
    """An empty window that can hold so many triples; a power of two."""
    links = np.arange(1, slots + 1)
    links[-1] = NOWHERE
    after, before = np.full((2, slots, 4), NOWHERE, np.int64)
    return Held(
        np.zeros((slots, 3), np.int64), np.zeros(slots, np.int64), np.full(slots, NOWHERE, np.int64), links,
        np.full((4, 2 * slots), NOWHERE, np.int64), after, before, np.empty((slots, MOST_MATCHED), np.int64),
        np.zeros(slots, np.int64), np.array([NOWHERE, NOWHERE, 0]),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def move_all(source: Held, target: Held, patterns: PatternTrie) -> None:
    """All triples of one window into another, matched against these patterns."""
    slot = source.ends[OLDEST]
    while slot >= 0:
        ids = source.ids[slot]
        insert(target, ids[0], ids[1], ids[2], source.last[slot], patterns)
        slot = source.newer[slot]


@njit(cache=True, nogil=True)
def lookup(held: Held, s: int, p: int, o: int) -> int:
    """The slot of a triple, if it is held."""
    slot = int(held.head[WHOLE, bucket(held, WHOLE, hashed(hashed(s, p), o))])
    while slot >= 0 and not (held.ids[slot, 0] == s and held.ids[slot, 1] == p and held.ids[slot, 2] == o):
        slot = int(held.after[slot, WHOLE])
    return slot


@njit(cache=True, nogil=True)
def bucket(held: Held, chain: int, key: int) -> int:
    """Where the chain of a key begins."""
    return hashed(key, chain) & int(held.head.shape[1] - 1)


@njit(cache=True, nogil=True)
def insert(held: Held, s: int, p: int, o: int, last: int, patterns: PatternTrie) -> int:
    """A triple that is not held yet; there is a free slot."""
    slot = int(held.ends[FREE])
    held.ends[FREE] = held.newer[slot]
    held.ids[slot, 0], held.ids[slot, 1], held.ids[slot, 2] = s, p, o
    put_last(held, slot, last)
    held.matches[slot] = match(patterns, s, p, o, held.matched[slot])
    link(held, slot, WHOLE, hashed(hashed(s, p), o))
    if held.matches[slot]:
        for c in range(3):
            link(held, slot, c, held.ids[slot, c])
    return slot


@njit(cache=True, nogil=True)
def renew(held: Held, slot: int, last: int) -> None:
    """A triple came again."""
    take_out(held, slot)
    put_last(held, slot, last)


@njit(cache=True, nogil=True)
def evict(held: Held, until: int) -> None:
    """Triples that came last at this time or ordinal, or before, leave."""
    slot = held.ends[OLDEST]
    while slot >= 0 and held.last[slot] <= until:
        take_out(held, slot)
        unlink(held, slot, WHOLE, hashed(hashed(held.ids[slot, 0], held.ids[slot, 1]), held.ids[slot, 2]))
        if held.matches[slot]:
            for c in range(3):
                unlink(held, slot, c, held.ids[slot, c])
        held.newer[slot], held.ends[FREE] = held.ends[FREE], slot
        slot = held.ends[OLDEST]


@njit(cache=True, nogil=True)
def put_last(held: Held, slot: int, last: int) -> None:
    """Behind the newest."""
    newest = held.ends[NEWEST]
    held.last[slot], held.older[slot], held.newer[slot] = last, newest, NOWHERE
    if newest >= 0:
        held.newer[newest] = slot
    else:
        held.ends[OLDEST] = slot
    held.ends[NEWEST] = slot


@njit(cache=True, nogil=True)
def take_out(held: Held, slot: int) -> None:
    """From between its neighbours."""
    older, newer = held.older[slot], held.newer[slot]
    if older >= 0:
        held.newer[older] = newer
    else:
        held.ends[OLDEST] = newer
    if newer >= 0:
        held.older[newer] = older
    else:
        held.ends[NEWEST] = older


@njit(cache=True, nogil=True)
def link(held: Held, slot: int, chain: int, key: int) -> None:
    """Into the chain of a key, as its first."""
    place = bucket(held, chain, key)
    first = held.head[chain, place]
    held.after[slot, chain], held.before[slot, chain] = first, NOWHERE
    if first >= 0:
        held.before[first, chain] = slot
    held.head[chain, place] = slot


@njit(cache=True, nogil=True)
def unlink(held: Held, slot: int, chain: int, key: int) -> None:
    """Out of the chain of a key."""
    before, after = held.before[slot, chain], held.after[slot, chain]
    if before >= 0:
        held.after[before, chain] = after
    else:
        held.head[chain, bucket(held, chain, key)] = after
    if after >= 0:
        held.before[after, chain] = before


@njit(cache=True, nogil=True)
def match(trie: PatternTrie, s: int, p: int, o: int, found: Ints) -> int:
    """The patterns that a triple matches, by all paths of the trie that its ids open; returns how many."""
    count = 0
    for a in (leads(trie, 0, s), trie.other[0]):
        if a < 0:
            continue
        for b in (leads(trie, a, p), trie.other[a]):
            if b < 0:
                continue
            for c in (leads(trie, b, o), trie.other[b]):
                pattern = trie.pattern[c] if c >= 0 else NOWHERE
                while pattern >= 0:
                    if fits(trie.same[pattern], s, p, o):
                        found[count] = pattern
                        count += 1
                    pattern = trie.sibling[pattern]
    return count


@njit(cache=True, nogil=True)
def leads(trie: PatternTrie, state: int, id: int) -> int:
    """The state behind an id; none where no pattern has it here."""
    entry = find(trie.table, trie.keys, state, id)
    return entry + 1 if entry >= 0 else ANY


@njit(cache=True, nogil=True)
def fits(same: int, s: int, p: int, o: int) -> bool:
    """Whether the positions with one variable are equal."""
    return (not same & 1 or s == p) and (not same & 2 or s == o) and (not same & 4 or p == o)
