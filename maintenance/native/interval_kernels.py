"""Loops over triples that are held during [since, until), compiled; tables are those of `slot_kernels`."""

from numba import njit

from freshkeeper.maintenance.native.hash_kernels import place
from freshkeeper.maintenance.native.slot_kernels import find
from freshkeeper.policies.arrays import Ints

GONE = -2


@njit(cache=True, nogil=True)
def enter(
    table: Ints, terms: Ints, held_since: Ints, held_until: Ints, held_latest: Ints, free: Ints, width: int,
    s: Ints, p: Ints, o: Ints, since: Ints, until: Ints, latest: Ints, added: Ints,
) -> int:  # fmt: skip
    """A row for every arrival that none of its triple holds on to; returns how many there are."""
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
def where(table: Ints, terms: Ints, row: int) -> int:
    """The place in the table of a row that is in it, -1 where another one has its place."""
    mask = table.size - 1
    at: int = place(terms[0, row], terms[1, row], terms[2, row], mask)
    while table[at] != row and table[at] != -1:
        at = (at + 1) & mask
    return at if table[at] == row else -1


@njit(cache=True, nogil=True)
def forget(table: Ints, terms: Ints, rows: Ints) -> None:
    """What these rows held is found no more, unless another row holds it."""
    for n in range(rows.size):
        at = where(table, terms, rows[n])
        if at >= 0:
            table[at] = GONE
