"""Compiled loops over the arrivals of a window.

A slot holds a triple. The table finds slots by triple: -1 is empty, -2 was removed.
"""

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.engine.columns.hash_kernels import place

REMOVED = -2


@njit(cache=True, nogil=True)
def find(table: Ints, terms: Ints, s: int, p: int, o: int) -> int:
    """Return the slot of a triple, or -1 - (its free position)."""
    mask = table.size - 1
    at = place(s, p, o, mask)
    free = -1
    while table[at] != -1:
        slot: int = table[at]
        if slot == REMOVED:
            free = at if free < 0 else free
        elif terms[0, slot] == s and terms[1, slot] == p and terms[2, slot] == o:
            return slot
        at = (at + 1) & mask
    return -1 - (at if free < 0 else free)


@njit(cache=True, nogil=True)
def enter(
    table: Ints, terms: Ints, latest: Ints, copies: Ints, free: Ints, width: int,
    times: Ints, s: Ints, p: Ints, o: Ints, slots: Ints, added: Ints,
) -> int:  # fmt: skip
    """Assign a slot to every arrival, for new triples a free one or the next; return how many are new."""
    new, unused = 0, free.size
    for n in range(times.size):
        slot = find(table, terms, s[n], p[n], o[n])
        if slot < 0:
            at = -1 - slot
            if unused:
                unused -= 1
                slot = free[unused]
            else:
                slot = width
                width += 1
            table[at] = slot
            terms[0, slot], terms[1, slot], terms[2, slot] = s[n], p[n], o[n]
            copies[slot] = 0
            added[new] = slot
            new += 1
        latest[slot] = times[n]
        copies[slot] += 1
        slots[n] = slot
    return new


@njit(cache=True, nogil=True)
def enter_during(
    table: Ints, terms: Ints, held_since: Ints, held_until: Ints, held_latest: Ints, free: Ints, width: int,
    s: Ints, p: Ints, o: Ints, since: Ints, until: Ints, latest: Ints, added: Ints,
) -> int:  # fmt: skip
    """Extend the row of a triple that is still held, or add a row, for every arrival; return how many rows are new."""
    new, unused = 0, free.size
    for n in range(s.size):
        if since[n] >= until[n]:
            continue
        row = find(table, terms, s[n], p[n], o[n])
        if row >= 0 and held_until[row] >= since[n]:
            held_until[row] = max(held_until[row], until[n])
            held_latest[row] = max(held_latest[row], latest[n])
            continue
        at = -1 - row
        if row >= 0:
            at = where(table, terms, row)
        if unused:
            unused -= 1
            row = free[unused]
        else:
            row = width
            width += 1
        table[at] = row
        terms[0, row], terms[1, row], terms[2, row] = s[n], p[n], o[n]
        held_since[row], held_until[row], held_latest[row] = since[n], until[n], latest[n]
        added[new] = row
        new += 1
    return new


@njit(cache=True, nogil=True)
def where(table: Ints, terms: Ints, slot: int) -> int:
    """Return the position of a slot in the table, or -1 if another slot has taken it."""
    mask = table.size - 1
    at: int = place(terms[0, slot], terms[1, slot], terms[2, slot], mask)
    while table[at] != slot and table[at] != -1:
        at = (at + 1) & mask
    return at if table[at] == slot else -1


@njit(cache=True, nogil=True)
def forget(table: Ints, terms: Ints, slots: Ints) -> None:
    """Remove these slots from the table, unless another slot of the same triple has taken their position."""
    for n in range(slots.size):
        at = where(table, terms, slots[n])
        if at >= 0:
            table[at] = REMOVED


@njit(cache=True, nogil=True)
def refill(table: Ints, terms: Ints, slots: Ints) -> None:
    """Enter these slots into an empty table."""
    for n in range(slots.size):
        slot = slots[n]
        table[-1 - find(table, terms, terms[0, slot], terms[1, slot], terms[2, slot])] = slot


@njit(cache=True, nogil=True)
def drop(slots: Ints, copies: Ints, gone: Ints) -> int:
    """Remove arrivals; write the slots of triples without another arrival to `gone`, and return how many."""
    count = 0
    for n in range(slots.size):
        copies[slots[n]] -= 1
        if not copies[slots[n]]:
            gone[count] = slots[n]
            count += 1
    return count
