"""The compiled search of the automaton: every solution that contains a triple, along the paths of the join trie."""

from typing import NamedTuple

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.engine.automaton.kernel_window import (
    AFTER,
    BITS,
    MATCHED,
    MATCHES,
    NEWER,
    OLDEST,
    AutomatonWindow,
    bucket,
)
from freshkeeper.maintenance.engine.automaton.pair_table import find
from freshkeeper.maintenance.engine.automaton.tries import (
    BY,
    BY_NOTHING,
    END,
    EQUAL,
    FILTER,
    FORM,
    LEAD,
    NEXT_END,
    NEXT_PROBE,
    NONE,
    OLD,
    PROBE,
    VALUES,
    VALUES_STOP,
    JoinTrie,
)

DONE, NO_ROOM, NO_SLOT, TOO_MANY = 0, 1, 2, 3
"""Why the kernel stops: all is read; solutions, or triples, need more room; one form has too many solutions."""
NEXT, READY, JOINING, CUT = 0, 1, 2, 3
"""Progress of the kernel.

The next element, the end of its instant, whether it is being joined; the form that was cut.
"""
CHOSEN, PROBED, CANDIDATE, BRANCH = 0, 1, 2, 3
"""Rows of a path through the join trie, by step.

The triple's slot, the probe, the candidate slot, and which pattern of the candidate is next.
"""


class SolutionBuffer(NamedTuple):
    """A buffer for solutions: the element that made each, its form, and the values of the form's variables."""

    element: Ints
    form: Ids
    value: Ints
    used: Ints
    """the number of solutions, and of values"""
    tally: Ints
    """by form: the last element with solutions, and how many it made"""


@njit(cache=True, nogil=True)
def solve(
    joins: JoinTrie,
    held: AutomatonWindow,
    path: Ints,
    slot: int,
    element: int,
    most: int,
    found: SolutionBuffer,
    at: Ints,
) -> int:
    """Find every solution with the triple of this slot, along all paths that begin with a pattern it matches."""
    path[CHOSEN, 0] = slot
    for r in range(held.slots[slot, MATCHES]):
        node, depth = held.slots[slot, MATCHED + r], 0
        while node >= 0:
            if joins.nodes[node, END] >= 0:
                why = give(joins, held, path, node, element, most, found, at)
                if why != DONE:
                    return why
            if joins.nodes[node, PROBE] >= 0:
                begin_probe(joins, held, path, joins.nodes[node, PROBE], depth)
                depth += 1
            node = NONE
            while depth and node < 0:
                node = advance(joins, held, path, depth - 1)
                if node < 0 and path[PROBED, depth - 1] < 0:
                    depth -= 1
    return DONE


@njit(cache=True, nogil=True)
def advance(joins: JoinTrie, held: AutomatonWindow, path: Ints, step: int) -> int:
    """Advance one step of the path.

    Return the node that the candidate leads to. Return NOWHERE after moving on to the probe's next candidate or, when
    it has none left, to the node's next probe; PROBED is NOWHERE once no probe is left.
    """
    candidate, probe = path[CANDIDATE, step], path[PROBED, step]
    if candidate < 0:
        path[PROBED, step] = NONE
        if joins.probes[probe, NEXT_PROBE] >= 0:
            begin_probe(joins, held, path, joins.probes[probe, NEXT_PROBE], step)
        return NONE
    slot = held.slots[candidate]
    while path[BRANCH, step] < slot[MATCHES]:
        pattern = slot[MATCHED + path[BRANCH, step]]
        path[BRANCH, step] += 1
        # The filter is a Bloom filter with one bit per pattern modulo 64; the table decides.
        if joins.probes[probe, FILTER] >> (pattern & 63) & 1:
            node = find(joins.table, probe, pattern)
            if node >= 0:
                path[CHOSEN, step + 1] = candidate
                return int(joins.roots + node)
    path[BRANCH, step] = 0
    path[CANDIDATE, step] = suited(joins, held, path, probe, after(joins, held, probe, candidate))
    return NONE


@njit(cache=True, nogil=True)
def begin_probe(joins: JoinTrie, held: AutomatonWindow, path: Ints, probe: int, step: int) -> None:
    """Start a probe at the first triple of the window that it finds."""
    chain, by = joins.probes[probe, LEAD], joins.probes[probe, BY]
    if chain == BY_NOTHING:
        slot = held.edge[OLDEST]
    else:
        id = held.slots[path[CHOSEN, by >> 2], by & 3] if by >= 0 else -2 - by
        slot = held.heads[chain, bucket(held, chain, id)]
    path[PROBED, step], path[BRANCH, step] = probe, 0
    path[CANDIDATE, step] = suited(joins, held, path, probe, slot)


@njit(cache=True, nogil=True)
def after(joins: JoinTrie, held: AutomatonWindow, probe: int, slot: int) -> int:
    """Return the slot of the next triple in a probe's chain."""
    chain = joins.probes[probe, LEAD]
    return int(held.slots[slot, NEWER] if chain == BY_NOTHING else held.slots[slot, AFTER + chain])


@njit(cache=True, nogil=True)
def suited(joins: JoinTrie, held: AutomatonWindow, path: Ints, probe: int, slot: int) -> int:
    """Return the first slot, from this one on, whose triple has a pattern and the ids that the probe asks for."""
    asked = joins.probes[probe]
    while slot >= 0:
        own = held.slots[slot]
        fits = own[BITS] & asked[FILTER] != 0 and not (asked[OLD] and slot == path[CHOSEN, 0])
        for c in range(3):
            place = asked[EQUAL + c]
            fits = fits and (place < 0 or own[c] == held.slots[path[CHOSEN, place >> 2], place & 3])
        if fits:
            return int(slot)
        slot = after(joins, held, probe, slot)
    return NONE


@njit(cache=True, nogil=True)
def give(
    joins: JoinTrie,
    held: AutomatonWindow,
    path: Ints,
    node: int,
    element: int,
    most: int,
    found: SolutionBuffer,
    at: Ints,
) -> int:
    """Write the solutions of all conjunctions that are complete at a node."""
    end = joins.nodes[node, END]
    while end >= 0:
        form, first, stop = joins.ends[end, FORM], joins.ends[end, VALUES], joins.ends[end, VALUES_STOP]
        n, v = found.used[0], found.used[1]
        if n == found.element.size or v + stop - first > found.value.size:
            return NO_ROOM
        if found.tally[form, 0] != element:
            found.tally[form, 0], found.tally[form, 1] = element, 0
        found.tally[form, 1] += 1
        if found.tally[form, 1] > most:
            at[CUT] = form
            return TOO_MANY
        for x in range(first, stop):
            place = joins.values[x]
            found.value[v + x - first] = held.slots[path[CHOSEN, place >> 2], place & 3]
        found.element[n], found.form[n] = element, form
        found.used[0], found.used[1] = n + 1, v + stop - first
        end = joins.ends[end, NEXT_END]
    return DONE
