"""The automaton at work, compiled: what arrives moves the window, and new solutions that contain it are found."""

import numpy as np
from numba import njit

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.automaton.automaton_search import DONE, JOINING, NEXT, NO_SLOT, READY, Found, solve
from freshkeeper.maintenance.engine.automaton.automaton_tries import MOST_PATTERNS, JoinTrie, PatternTrie
from freshkeeper.maintenance.engine.automaton.automaton_window import FREE, Held, evict, insert, lookup, renew


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
    path = np.empty((4, MOST_PATTERNS + 1), np.int64)
    while at[NEXT] < clock.size:
        x = at[NEXT]
        if x == at[READY]:
            at[READY] = begin_instant(held, clock, s, p, o, new, x)
            evict(held, clock[x] - reach)
        if new[x]:
            slot = lookup(held, s[x], p[x], o[x])
            if slot < 0:
                if held.edge[FREE] < 0:
                    return NO_SLOT
                slot, at[JOINING] = insert(held, s[x], p[x], o[x], clock[x], patterns), 1
            if at[JOINING]:
                solutions, values = found.used[0], found.used[1]
                why = solve(joins, held, path, slot, first + x, most, found, at)
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
