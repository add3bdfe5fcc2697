"""The two tries of a pattern automaton, laid by compiled loops: of triple patterns, and of their joins (seeds/003).

Conjunctions come as rows, one for each triple pattern: a position is an id, or -1 - v for the conjunction's variable v.
Whatever pattern of a conjunction the arriving triple matches, the others are looked for in an order of their own: a
path of the join trie. Equal beginnings of paths are one, whichever conjunctions they are of.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from freshkeeper.maintenance.native.automaton_tables import enter, table_for
from freshkeeper.policies.arrays import Bools, Ints

MOST_PATTERNS = 16
"""Triple patterns in one conjunction: what refers to an earlier triple has 7 bits, and all paths are laid."""
ANY, NOWHERE = -1, -1
BY_NOTHING = 3
"""Where a position is said: all triples of the window are looked at."""


class PatternTrie(NamedTuple):
    """From the initial state 0 by subject, predicate and object to the patterns that a triple matches."""

    table: Ints
    keys: Ints
    """(state, id) leads to the state behind this entry's number"""
    other: Ints
    """by state: where any id leads"""
    pattern: Ints
    """by state: a pattern that is matched here"""
    sibling: Ints
    """by pattern: another one with the same constants"""
    same: Ints
    """by pattern: which positions have one variable: 1 s and p, 2 s and o, 4 p and o"""


class JoinTrie(NamedTuple):
    """From the pattern that the arriving triple matches (its root) by probes of the window to whole conjunctions."""

    roots: int
    """how many patterns there are: nodes with lower numbers are theirs"""
    probe: Ints
    """by node: its first probe"""
    next_probe: Ints
    equal: Ints
    """by probe: what each position equals: 4 · step + position of an earlier triple, or nothing"""
    lead: Ints
    """by probe: the position that is looked up, and by what: an earlier triple's as above, or -2 - id"""
    old: Ints
    """by probe: whether the arriving triple itself is left out, as another path has it here"""
    table: Ints
    keys: Ints
    """(probe, pattern) leads to the node of this entry's number, behind the roots"""
    end: Ints
    """by node: the first conjunction that is whole here"""
    next_end: Ints
    form: Ints
    """by end: what the conjunction is called"""
    values_at: Ints
    values: Ints
    """by end: where the value of each of its variables is found"""


def lay(rows: Ints, starts: Ints, forms: Ints) -> tuple[PatternTrie, JoinTrie]:
    """Both tries of conjunctions; that of number f has the rows from starts[f] on, and is called forms[f]."""
    patterns = _pattern_trie(len(rows))
    numbers = np.empty(len(rows), np.int64)
    distinct = lay_patterns(patterns, rows, numbers)
    lengths = np.diff(starts)
    joins = _join_trie(distinct, int((lengths * lengths).sum()), int((3 * lengths * lengths).sum()))
    lay_joins(joins, rows, starts, forms, numbers)
    return patterns, joins


def _none(size: int) -> Ints:
    return np.full(size, NOWHERE, np.int64)


def _pattern_trie(rows: int) -> PatternTrie:
    states = 3 * rows + 1
    keys = np.empty((states, 2), np.int64)
    return PatternTrie(table_for(states), keys, _none(states), _none(states), _none(rows), np.zeros(rows, np.int64))


def _join_trie(roots: int, steps: int, values: int) -> JoinTrie:
    nodes = roots + steps
    return JoinTrie(
        roots, _none(nodes), _none(steps), np.empty((steps, 3), np.int64), np.empty((steps, 2), np.int64),
        np.zeros(steps, np.int64), table_for(steps), np.empty((steps, 2), np.int64),
        _none(nodes), _none(steps), np.empty(steps, np.int64), np.zeros(steps + 1, np.int64),
        np.empty(values, np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def lay_patterns(trie: PatternTrie, rows: Ints, numbers: Ints) -> int:
    """Enter triple patterns; `numbers` says which of the distinct ones each is. Returns how many there are."""
    states = patterns = 0
    for r in range(rows.shape[0]):
        state = 0
        for c in range(3):
            id = rows[r, c] if rows[r, c] >= 0 else ANY
            entry = enter(trie.table, trie.keys, states, state, id)
            states = max(states, entry + 1)
            if id == ANY:
                trie.other[state] = entry + 1
            state = entry + 1
        same, found = sameness(rows[r]), trie.pattern[state]
        while found >= 0 and trie.same[found] != same:
            found = trie.sibling[found]
        if found < 0:
            found = patterns
            trie.same[found], trie.sibling[found], trie.pattern[state] = same, trie.pattern[state], found
            patterns += 1
        numbers[r] = found
    return patterns


@njit(cache=True, nogil=True)
def sameness(row: Ints) -> int:
    """Which positions of a pattern have one variable."""
    same = 1 if row[0] < 0 and row[0] == row[1] else 0
    same += 2 if row[0] < 0 and row[0] == row[2] else 0
    return same + (4 if row[1] < 0 and row[1] == row[2] else 0)


@njit(cache=True, nogil=True)
def lay_joins(trie: JoinTrie, rows: Ints, starts: Ints, forms: Ints, numbers: Ints) -> None:
    """Enter every path of every conjunction."""
    probe_table = np.full(trie.table.size, -1, np.int64)
    probe_keys = np.empty(trie.keys.shape, np.int64)
    probes = nodes = ends = 0
    for f in range(starts.size - 1):
        own = rows[starts[f] : starts[f + 1]]
        for start in range(own.shape[0]):
            order, place = arrange(own, start), np.full(3 * own.shape[0], -1, np.int64)
            note(own[start], 0, place)
            node = numbers[starts[f] + start]
            for step in range(1, order.size):
                row = own[order[step]]
                old = 1 if order[step] < start and overlap(row, own[start]) else 0
                probe = enter(probe_table, probe_keys, probes, node, signature(row, place, old))
                if probe == probes:
                    describe(trie, probe, row, place, old)
                    trie.next_probe[probe], trie.probe[node] = trie.probe[node], probe
                    probes += 1
                child = enter(trie.table, trie.keys, nodes, probe, numbers[starts[f] + order[step]])
                nodes = max(nodes, child + 1)
                node = trie.roots + child
                note(row, step, place)
            trie.form[ends], trie.next_end[ends], trie.end[node] = forms[f], trie.end[node], ends
            trie.values_at[ends + 1] = trie.values_at[ends] + keep(trie.values[trie.values_at[ends] :], place)
            ends += 1


@njit(cache=True, nogil=True)
def arrange(rows: Ints, start: int) -> Ints:
    """In which order the patterns of a conjunction are looked for: what is joined and leaves least open comes first."""
    order = np.empty(rows.shape[0], np.int64)
    bound, taken = np.zeros(3 * rows.shape[0], np.bool_), np.zeros(rows.shape[0], np.bool_)
    at = start
    for step in range(order.size):
        order[step], taken[at] = at, True
        for c in range(3):
            if rows[at, c] < 0:
                bound[-1 - rows[at, c]] = True
        least = 1 << 30
        for r in range(order.size):
            if not taken[r] and openness(rows[r], bound) < least:
                at, least = r, openness(rows[r], bound)
    return order


@njit(cache=True, nogil=True)
def openness(row: Ints, bound: Bools) -> int:
    """How many triples a pattern may have, roughly, when these variables have values."""
    free = 0
    joined = False
    for c in range(3):
        if row[c] < 0:
            known = bound[-1 - row[c]]
            free += 0 if known else 1
            joined |= known and c != 1
    return free if joined or free == 0 else free + 4


@njit(cache=True, nogil=True)
def overlap(a: Ints, b: Ints) -> bool:
    """Whether one triple may match both patterns."""
    apart = 0
    for c in range(3):
        apart += 1 if a[c] >= 0 and b[c] >= 0 and a[c] != b[c] else 0
    return apart == 0


@njit(cache=True, nogil=True)
def note(row: Ints, step: int, place: Ints) -> None:
    """Where variables get their values: at their first position."""
    for c in range(3):
        if row[c] < 0 and place[-1 - row[c]] < 0:
            place[-1 - row[c]] = 4 * step + c


@njit(cache=True, nogil=True)
def keep(values: Ints, place: Ints) -> int:
    """Write down where variables get their values; returns how many there are."""
    count = 0
    while count < place.size and place[count] >= 0:
        values[count] = place[count]
        count += 1
    return count


@njit(cache=True, nogil=True)
def referred(value: int, place: Ints) -> int:
    """Which earlier position a position equals, if any."""
    return int(place[-1 - value]) if value < 0 else NOWHERE


@njit(cache=True, nogil=True)
def signature(row: Ints, place: Ints, old: int) -> int:
    """What a probe looks for as one number: equal probes of a node are one."""
    packed = 0
    for c in range(3):
        packed = packed * 128 + referred(row[c], place) + 1
    if packed:
        return 2 * packed + old
    for c in (0, 2, 1):
        if row[c] >= 0:
            return int(-1 - (2 * (4 * row[c] + c) + old))
    return -1 - (2 * BY_NOTHING + old)


@njit(cache=True, nogil=True)
def describe(trie: JoinTrie, probe: int, row: Ints, place: Ints, old: int) -> None:
    """Write down what a probe looks for: by a position that is joined, or else by a constant, or else everywhere."""
    trie.old[probe] = old
    for c in range(3):
        trie.equal[probe, c] = referred(row[c], place)
    for c in (0, 2, 1):
        if trie.equal[probe, c] >= 0:
            trie.lead[probe, 0], trie.lead[probe, 1] = c, trie.equal[probe, c]
            return
    for c in (0, 2, 1):
        if row[c] >= 0:
            trie.lead[probe, 0], trie.lead[probe, 1] = c, -2 - row[c]
            return
    trie.lead[probe, 0], trie.lead[probe, 1] = BY_NOTHING, 0
