"""The automaton at work, compiled: what arrives moves the window, and new solutions that contain it are found."""

from typing import NamedTuple

import numpy as np
from numba import njit

from freshkeeper.maintenance.native.automaton_tables import find
from freshkeeper.maintenance.native.automaton_tries import BY_NOTHING, MOST_PATTERNS, NOWHERE, JoinTrie, PatternTrie
from freshkeeper.maintenance.native.automaton_window import FREE, OLDEST, Held, bucket, evict, insert, lookup, renew
from freshkeeper.policies.arrays import Bools, Ids, Ints

DONE, NO_ROOM, NO_SLOT, TOO_MANY = 0, 1, 2, 3
"""Why the automaton stops: all is read; solutions, or triples, need more room; one form had too many solutions."""
NEXT, READY, JOINING, CUT = 0, 1, 2, 3
DEEPEST = MOST_PATTERNS + 1


class Found(NamedTuple):
    """Solutions one behind the other: the element that made it, its form, and the values of the form's variables."""

    element: Ints
    form: Ids
    value: Ints
    used: Ints
    """how many solutions, and how many values"""
    tally: Ints
    """by form: an element, and how many solutions it made"""


@njit(cache=True, nogil=True)
def read(
    patterns: PatternTrie, joins: JoinTrie, held: Held, found: Found, clock: Ints, s: Ints, p: Ints, o: Ints,
    new: Bools, at: Ints, first: int, reach: int, most: int,
) -> int:  # fmt: skip
    """Read elements until all are read or something is missing; called again, it goes on where it was.

    `clock` is each element's time or ordinal, `reach` how much later its triple is over; solutions name elements by
    numbers that begin with `first`, and a form has at most so many of one element. `at` says which element is
    next, up to which `new` is known, whether the triple of the next is there already, and which form was cut.
    """
    while at[NEXT] < clock.size:
        x = at[NEXT]
        if x == at[READY]:
            at[READY] = begin_instant(held, clock, s, p, o, new, x)
            evict(held, clock[x] - reach)
        if new[x]:
            slot = lookup(held, s[x], p[x], o[x])
            if slot < 0:
                if held.ends[FREE] < 0:
                    return NO_SLOT
                slot, at[JOINING] = insert(held, s[x], p[x], o[x], clock[x], patterns), 1
            if at[JOINING]:
                solutions, values = found.used[0], found.used[1]
                why = solve(joins, held, slot, first + x, most, found, at)
                if why != DONE:
                    found.used[0], found.used[1] = solutions, values
                    return why
                at[JOINING] = 0
        at[NEXT] = x + 1
    return DONE


@njit(cache=True, nogil=True)
def begin_instant(held: Held, clock: Ints, s: Ints, p: Ints, o: Ints, new: Bools, first: int) -> int:
    """Renew what is held and comes again at this instant; returns where the instant ends."""
    x = first
    while x < clock.size and clock[x] == clock[first]:
        slot = lookup(held, s[x], p[x], o[x])
        new[x] = slot < 0
        if slot >= 0:
            renew(held, slot, clock[x])
        x += 1
    return x


@njit(cache=True, nogil=True)
def solve(joins: JoinTrie, held: Held, slot: int, element: int, most: int, found: Found, at: Ints) -> int:
    """Every solution that contains the triple of this slot, by all paths that begin with a pattern which it matches."""
    stack = np.empty((4, DEEPEST), np.int64)
    chosen, probe, candidate, branch = stack[0], stack[1], stack[2], stack[3]
    chosen[0] = slot
    for r in range(held.matches[slot]):
        node, depth = held.matched[slot, r], 0
        while True:
            why = give(joins, held, chosen, node, element, most, found, at)
            if why != DONE:
                return why
            probe[depth] = joins.probe[node]
            if probe[depth] >= 0:
                candidate[depth], branch[depth] = first_candidate(joins, held, chosen, probe[depth]), 0
                depth += 1
            node = NOWHERE
            while depth and node < 0:
                d = depth - 1
                c = candidate[d]
                if c < 0:
                    probe[d] = joins.next_probe[probe[d]]
                    if probe[d] < 0:
                        depth -= 1
                    else:
                        candidate[d], branch[d] = first_candidate(joins, held, chosen, probe[d]), 0
                elif branch[d] == held.matches[c]:
                    candidate[d], branch[d] = next_candidate(joins, held, chosen, probe[d], c), 0
                else:
                    node = find(joins.table, joins.keys, probe[d], held.matched[c, branch[d]])
                    branch[d] += 1
                    if node >= 0:
                        node += joins.roots
                        chosen[depth] = c
            if node < 0:
                break
    return DONE


@njit(cache=True, nogil=True)
def first_candidate(joins: JoinTrie, held: Held, chosen: Ints, probe: int) -> int:
    """The first triple of the window that a probe finds."""
    chain = joins.lead[probe, 0]
    if chain == BY_NOTHING:
        slot = held.ends[OLDEST]
    else:
        slot = held.head[chain, bucket(held, chain, leading(joins, held, chosen, probe))]
    return (
        slot
        if slot < 0 or suits(joins, held, chosen, probe, slot)
        else next_candidate(joins, held, chosen, probe, slot)
    )


@njit(cache=True, nogil=True)
def next_candidate(joins: JoinTrie, held: Held, chosen: Ints, probe: int, slot: int) -> int:
    """The one behind."""
    chain = joins.lead[probe, 0]
    while slot >= 0:
        slot = held.newer[slot] if chain == BY_NOTHING else held.after[slot, chain]
        if slot >= 0 and suits(joins, held, chosen, probe, slot):
            return int(slot)
    return NOWHERE


@njit(cache=True, nogil=True)
def leading(joins: JoinTrie, held: Held, chosen: Ints, probe: int) -> int:
    """The id that is looked up."""
    place = joins.lead[probe, 1]
    return int(held.ids[chosen[place >> 2], place & 3]) if place >= 0 else int(-2 - place)


@njit(cache=True, nogil=True)
def suits(joins: JoinTrie, held: Held, chosen: Ints, probe: int, slot: int) -> bool:
    """Whether a triple has the ids that a probe asks for."""
    for c in range(3):
        place = joins.equal[probe, c]
        if place >= 0 and held.ids[slot, c] != held.ids[chosen[place >> 2], place & 3]:
            return False
    return not (joins.old[probe] and slot == chosen[0])


@njit(cache=True, nogil=True)
def give(joins: JoinTrie, held: Held, chosen: Ints, node: int, element: int, most: int, found: Found, at: Ints) -> int:
    """Write down the solutions of the conjunctions that are whole at a node."""
    end = joins.end[node]
    while end >= 0:
        form, first, stop = joins.form[end], joins.values_at[end], joins.values_at[end + 1]
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
            found.value[v] = held.ids[chosen[place >> 2], place & 3]
            v += 1
        found.element[n], found.form[n] = element, form
        found.used[0], found.used[1] = n + 1, v
        end = joins.next_end[end]
    return DONE
