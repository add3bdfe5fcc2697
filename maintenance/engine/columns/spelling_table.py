"""A compiled hash table from bytes to integers, with open addressing over rows of integers."""

from typing import Any

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Bytes, Ids, Ints, Words
from freshkeeper.maintenance.base.compiled import njit

HASH, START, SIZE, ID = 0, 1, 2, 3
"""Columns of a spelling: the hash of its bytes, where they start, how many they are, and the id of its term."""
NONE, UNKNOWN = -1, -2
"""Instead of an id: the bytes are not a term; not known yet."""
USED = 128
"""The first bytes of the heap are reserved for text that is put between spellings."""
FIRST, ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HALF, EIGHT, FULL = np.uint64(32), np.uint64(8), np.uint64(64)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True)
def last_word(words: Words, at: int, size: int) -> Any:
    """Return the last one to eight bytes of a span as an integer."""
    return words[at] & (ALL >> (FULL - EIGHT * np.uint64(size)))


@njit(cache=True, nogil=True)
def hashed(words: Words, at: int, size: int) -> int:
    """Return the hash of a non-empty span; bytes after its end must be readable."""
    found = FIRST ^ np.uint64(size)
    while size > 8:
        found = (found ^ words[at]) * ODD
        found ^= found >> HALF
        at, size = at + 8, size - 8
    found = (found ^ last_word(words, at, size)) * ODD
    found = (found ^ (found >> HALF)) * ODD
    return int(np.int64(found ^ (found >> HALF)))


@njit(cache=True, nogil=True)
def same(words: Words, at: int, others: Words, other: int, size: int) -> bool:
    """Return True if two spans have equal bytes."""
    while size > 8:
        if words[at] != others[other]:
            return False
        at, other, size = at + 8, other + 8, size - 8
    return bool(last_word(words, at, size) == last_word(others, other, size))


@njit(cache=True, nogil=True)
def gather(heap: Bytes, starts: Ints, sizes: Ints, out: Bytes) -> None:
    """Copy spans of the heap one after the other."""
    at = 0
    for n in range(starts.size):
        for step in range(sizes[n]):
            out[at + step] = heap[starts[n] + step]
        at += sizes[n]


@njit(cache=True, nogil=True)
def place(table: Ids, row: int, hash: int) -> None:
    """Enter a row that is not in the table."""
    mask = table.size - 1
    slot = hash & mask
    while table[slot] >= 0:
        slot = (slot + 1) & mask
    table[slot] = row


@njit(cache=True, nogil=True)
def fill(table: Ids, rows: Ints, count: int) -> None:
    """Enter the first `count` rows into an empty table."""
    for row in range(count):
        place(table, row, rows[row, HASH])


@njit(cache=True, nogil=True)
def find(
    words: Words, starts: Ints, sizes: Ints, table: Ids, rows: Ints, count: int, heap: Words, used: int, found: Ids
) -> tuple[int, int]:
    """Write the row of every span into `found`, -1 for an empty span; add missing spellings with an unknown id.

    The bytes of new spellings are copied to the heap, which must have room for them. Return the new number of rows and
    of bytes on the heap.
    """
    mask = table.size - 1
    for n in range(starts.size):
        at, size = starts[n], sizes[n]
        found[n] = -1
        if not size:
            continue
        hash = hashed(words, at, size)
        slot = hash & mask
        row = table[slot]
        while row >= 0:
            if rows[row, HASH] == hash and rows[row, SIZE] == size and same(words, at, heap, rows[row, START], size):
                break
            slot = (slot + 1) & mask
            row = table[slot]
        if row < 0:
            row = table[slot] = count
            rows[row, HASH], rows[row, START], rows[row, SIZE], rows[row, ID] = hash, used, size, UNKNOWN
            for step in range(0, size, 8):
                heap[used + step] = words[at + step]
            count, used = count + 1, used + size
        found[n] = row
    return count, used


@njit(cache=True, nogil=True)
def compact(rows: Ints, count: int, heap: Bytes, live: Bools, row_of: Ids, table: Ids) -> tuple[int, int]:
    """Keep only the rows of live ids and their bytes, in the same order.

    The table must be empty. Return counts as `find`.
    """
    kept, used = 0, USED
    for row in range(count):
        id, start, size = rows[row, ID], rows[row, START], rows[row, SIZE]
        if id < 0 or not live[id]:
            continue
        for step in range(size):
            heap[used + step] = heap[start + step]
        rows[kept] = rows[row]
        rows[kept, START] = used
        if row_of[id] == row:
            row_of[id] = kept
        place(table, kept, rows[kept, HASH])
        kept, used = kept + 1, used + size
    return kept, used
