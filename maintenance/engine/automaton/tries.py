"""The two tries of a pattern automaton, built by compiled loops: triple patterns, and their joins (seeds/003).

Conjunctions are given as rows, one per triple pattern: a position is an id, or -1 - v for the conjunction's variable v.
For each pattern that the arriving triple may match, the remaining patterns are searched in their own order: a path of
the join trie. Equal beginnings of paths are shared between conjunctions.

What the loops read together lies in one row; the constants below name the columns. -1 means none.
"""

from typing import NamedTuple

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.engine.automaton.pair_table import enter, table_for

MOST_PATTERNS = 16
"""The maximum number of triple patterns in a conjunction.

A reference to an earlier triple has 7 bits, and every path is built.
"""
ANY = NONE = -1
BY_NOTHING = 3
"""Instead of a position to look up: all triples of the window are candidates."""

ANY_ID, PATTERN = 0, 1
"""Columns of a state: the state after any other id, and the first pattern that is matched here."""
SIBLING, SAME = 0, 1
"""Columns of a pattern.

Another pattern with the same constants; which positions share a variable (1 s = p, 2 s = o, 4 p = o).
"""
PROBE, END = 0, 1
"""Columns of a node: its first probe, and the first conjunction that is complete here."""
EQUAL, LEAD, BY, OLD, NEXT_PROBE, FILTER = 0, 3, 4, 5, 6, 7
"""Columns of a probe.

EQUAL (3 columns): for each position 4 · step + position of the earlier triple that it equals. LEAD: the position that
is looked up. BY: its value, as in EQUAL or as -2 - id. OLD: 1 if the arriving triple is excluded, because another path
has it here. NEXT_PROBE: the node's next probe. FILTER: one bit per pattern that is searched, number modulo 64.
"""
FORM, NEXT_END, VALUES, VALUES_STOP = 0, 1, 2, 3
"""Columns of an end: the number of the conjunction, the node's next end, and the range of its variables in `values`."""


class PatternTrie(NamedTuple):
    """Leads from state 0 by subject, predicate and object to the patterns that a triple matches."""

    table: Ints
    """(state, id) → entry; the next state has this entry's number plus 1"""
    states: Ints
    patterns: Ints


class JoinTrie(NamedTuple):
    """Leads from the pattern that the arriving triple matches (its root) by probes of the window to conjunctions."""

    roots: int
    """the number of patterns; nodes with lower numbers are their roots"""
    table: Ints
    """(probe, pattern) → entry; the next node has this entry's number plus `roots`"""
    nodes: Ints
    probes: Ints
    ends: Ints
    values: Ints
    """where the values of variables are found: 4 · step + position"""


def build_tries(rows: Ints, starts: Ints, forms: Ints) -> tuple[PatternTrie, JoinTrie]:
    """Build both tries; conjunction f has the rows from starts[f] on, and the number forms[f]."""
    states, lengths = 3 * len(rows) + 1, np.diff(starts)
    patterns = PatternTrie(table_for(states), _none(states, 2), _none(len(rows), 2))
    numbers = np.empty(len(rows), np.int64)
    roots, steps = lay_patterns(patterns, rows, numbers), int((lengths * lengths).sum())
    values = np.empty(int((3 * lengths * lengths).sum()), np.int64)
    joins = JoinTrie(
        roots,
        table_for(steps),
        nodes=_none(roots + steps, 2),
        probes=_none(steps, 8),
        ends=_none(len(rows), 4),
        values=values,
    )
    lay_joins(joins, rows, starts, forms, numbers)
    return patterns, joins


def chains(joins: JoinTrie) -> int:
    """Return the positions that any probe looks up, as bits."""
    return sum(1 << position for position in range(3) if (joins.probes[:, LEAD] == position).any())


def _none(rows: int, columns: int) -> Ints:
    return np.full((rows, columns), NONE, np.int64)


@njit(cache=True, nogil=True)
def lay_patterns(trie: PatternTrie, rows: Ints, numbers: Ints) -> int:
    """Enter all triple patterns, write the number of each into `numbers`, and return how many are distinct."""
    entries = patterns = 0
    for r in range(rows.shape[0]):
        state = 0
        for c in range(3):
            id = rows[r, c] if rows[r, c] >= 0 else ANY
            entry = enter(trie.table, entries, state, id)
            entries = max(entries, entry + 1)
            if id == ANY:
                trie.states[state, ANY_ID] = entry + 1
            state = entry + 1
        same, found = sameness(rows[r]), trie.states[state, PATTERN]
        while found >= 0 and trie.patterns[found, SAME] != same:
            found = trie.patterns[found, SIBLING]
        if found < 0:
            found = patterns
            trie.patterns[found, SAME], trie.patterns[found, SIBLING] = same, trie.states[state, PATTERN]
            trie.states[state, PATTERN] = found
            patterns += 1
        numbers[r] = found
    return patterns


@njit(cache=True, nogil=True)
def sameness(row: Ints) -> int:
    """Return which positions of a pattern share a variable, as bits."""
    same = 1 if row[0] < 0 and row[0] == row[1] else 0
    same += 2 if row[0] < 0 and row[0] == row[2] else 0
    return same + (4 if row[1] < 0 and row[1] == row[2] else 0)


@njit(cache=True, nogil=True)
def lay_joins(trie: JoinTrie, rows: Ints, starts: Ints, forms: Ints, numbers: Ints) -> None:
    """Enter every path of every conjunction."""
    known = np.full(trie.table.shape, -1, np.int64)  # (node, signature) → probe
    probes = nodes = ends = used = 0
    for f in range(starts.size - 1):
        own = rows[starts[f] : starts[f + 1]]
        for start in range(own.shape[0]):
            order, place = arrange(own, start), np.full(3 * own.shape[0], -1, np.int64)
            note(own[start], 0, place)
            node = numbers[starts[f] + start]
            for step in range(1, order.size):
                row, pattern = own[order[step]], numbers[starts[f] + order[step]]
                # If the arriving triple matches two patterns, the path of the earlier pattern finds the solution with
                # both; the path of the later one must exclude it there.
                old = 1 if order[step] < start and overlap(row, own[start]) else 0
                probe = enter(known, probes, node, signature(row, place, old))
                if probe == probes:
                    describe(trie.probes[probe], row, place, old)
                    trie.probes[probe, NEXT_PROBE], trie.nodes[node, PROBE] = trie.nodes[node, PROBE], probe
                    probes += 1
                trie.probes[probe, FILTER] |= 1 << (pattern & 63)
                child = enter(trie.table, nodes, probe, pattern)
                nodes = max(nodes, child + 1)
                node = trie.roots + child
                note(row, step, place)
            end = trie.ends[ends]
            end[FORM], end[NEXT_END], trie.nodes[node, END] = forms[f], trie.nodes[node, END], ends
            end[VALUES], used = used, used + keep(trie.values[used:], place)
            end[VALUES_STOP] = used
            ends += 1


@njit(cache=True, nogil=True)
def arrange(rows: Ints, start: int) -> Ints:
    """Return the order in which the patterns of a conjunction are searched: joined and most selective first."""
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
    """Return a rough rank of how many triples a pattern has, given which variables are bound."""
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
    """Return True if one triple may match both patterns."""
    apart = 0
    for c in range(3):
        apart += 1 if a[c] >= 0 and b[c] >= 0 and a[c] != b[c] else 0
    return apart == 0


@njit(cache=True, nogil=True)
def note(row: Ints, step: int, place: Ints) -> None:
    """Record the first position of each variable, where it gets its value."""
    for c in range(3):
        if row[c] < 0 and place[-1 - row[c]] < 0:
            place[-1 - row[c]] = 4 * step + c


@njit(cache=True, nogil=True)
def keep(values: Ints, place: Ints) -> int:
    """Write where variables get their values; return how many there are."""
    count = 0
    while count < place.size and place[count] >= 0:
        values[count] = place[count]
        count += 1
    return count


@njit(cache=True, nogil=True)
def referred(value: int, place: Ints) -> int:
    """Return the earlier position that a variable equals, or NOWHERE."""
    return int(place[-1 - value]) if value < 0 else NONE


@njit(cache=True, nogil=True)
def signature(row: Ints, place: Ints, old: int) -> int:
    """Return an integer that is equal for equal probes of a node, so that they are shared."""
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
def describe(probe: Ints, row: Ints, place: Ints, old: int) -> None:
    """Fill the columns of a probe: look up a joined position, otherwise a constant, otherwise scan the window."""
    probe[OLD], probe[LEAD], probe[BY], probe[FILTER] = old, BY_NOTHING, 0, 0
    for c in (1, 2, 0):
        if row[c] >= 0:
            probe[LEAD], probe[BY] = c, -2 - row[c]
    for c in (1, 2, 0):
        probe[EQUAL + c] = referred(row[c], place)
        if probe[EQUAL + c] >= 0:
            probe[LEAD], probe[BY] = c, probe[EQUAL + c]
