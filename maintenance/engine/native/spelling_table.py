"""A hash table from bytes to numbers, open addressing over rows of integers: compiled."""

from typing import Any

import numpy as np
from numba import njit

from freshkeeper.maintenance.base.arrays import Bools, Bytes, Ids, Ints, Words

HASH, START, SIZE, ID = 0, 1, 2, 3
"""What a row says of a spelling: the hash of its bytes, where they lie, how many they are, and the term's id."""
NONE, UNKNOWN = -1, -2
"""Instead of an id: these bytes are no term; nobody has said yet."""
USED = 128
"""The first bytes of the heap are no spelling, but what stands between spellings in texts."""
FIRST, ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HALF, EIGHT, FULL = np.uint64(32), np.uint64(8), np.uint64(64)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True)
def last_word(words: Words, at: int, size: int) -> Any:
    """The last one to eight bytes of a span as a number."""
    return words[at] & (ALL >> (FULL - EIGHT * np.uint64(size)))


@njit(cache=True, nogil=True)
def hashed(words: Words, at: int, size: int) -> int:
    """The hash of a span, never empty, whose bytes may be read beyond its end."""
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
    """Whether two spans are the same bytes."""
    while size > 8:
        if words[at] != others[other]:
            return False
        at, other, size = at + 8, other + 8, size - 8
    return bool(last_word(words, at, size) == last_word(others, other, size))


@njit(cache=True, nogil=True)
def gather(heap: Bytes, starts: Ints, sizes: Ints, out: Bytes) -> None:
    """Some spans of the heap, one behind the other."""
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
    """Enter the first rows into an empty table."""
    for row in range(count):
        place(table, row, rows[row, HASH])


@njit(cache=True, nogil=True)
def find(
    words: Words, starts: Ints, sizes: Ints, table: Ids, rows: Ints, count: int, heap: Words, used: int, found: Ids
) -> tuple[int, int]:
    """The row of every span, -1 for an empty one; one that is not there is put there, its id unknown.

    Its bytes go to the heap. There must be room for all of them. Gives the new number of rows and of bytes on the heap.
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
    """Keep the rows of live ids alone, and their bytes, in the same order; the table is empty before."""
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
