"""The compiled main loop of the automaton: elements move the window, and new solutions are searched."""

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.engine.automaton.kernel_window import FREE, AutomatonWindow, evict, insert, lookup, renew
from freshkeeper.maintenance.engine.automaton.search import DONE, JOINING, NEXT, NO_SLOT, READY, SolutionBuffer, solve
from freshkeeper.maintenance.engine.automaton.tries import MOST_PATTERNS, JoinTrie, PatternTrie


@njit(cache=True, nogil=True)
def read(
    patterns: PatternTrie, joins: JoinTrie, held: AutomatonWindow, found: SolutionBuffer,
    clock: Ints, s: Ints, p: Ints, o: Ints, new: Bools, at: Ints, first: int, reach: int, most: int,
) -> int:  # fmt: skip
    """Read elements until all are read or something is missing; a further call continues at the same place.

    `clock` is each element's time or ordinal, `reach` how long its triple stays. Solutions name elements by numbers
    that start with `first`; a form may have at most `most` solutions per element. `at` holds the progress: the next
    element, the end of the instant for which `new` is known, whether the next element's triple has been inserted, and
    the form that was cut.
    """
    path = np.empty((4, MOST_PATTERNS + 1), np.int64)
    while at[NEXT] < clock.size:
        x = at[NEXT]
        if x == at[READY]:
            # First renew all triples of this instant that are in the window, then evict: otherwise a triple that
            # arrives again now would be taken for a new one.
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
                    # Undo the element's solutions: they are found again once there is room.
                    found.used[0], found.used[1] = solutions, values
                    return why
                at[JOINING] = 0
        at[NEXT] = x + 1
    return DONE


@njit(cache=True, nogil=True)
def begin_instant(held: AutomatonWindow, clock: Ints, s: Ints, p: Ints, o: Ints, new: Bools, first: int) -> int:
    """Renew the triples of this instant that the window holds; return the position after the instant."""
    x = first
    while x < clock.size and clock[x] == clock[first]:
        slot = lookup(held, s[x], p[x], o[x])
        new[x] = slot < 0
        if slot >= 0:
            renew(held, slot, clock[x])
        x += 1
    return x
