"""How terms are written: the bytes of every spelling that was met, and the id of its term."""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from freshkeeper.maintenance.native import spelling_table as kernels
from freshkeeper.maintenance.native.spelling_table import SIZE, START
from freshkeeper.maintenance.native.token_scan import PAD, words_of
from freshkeeper.policies.arrays import Bools, Bytes, Ids, Ints, Words

Array = TypeVar("Array", Ints, Ids, Bytes)
LEAST = 1 << 10
"""Rows that there is room for at first; the bytes of each are guessed to be 32."""


@dataclass(eq=False)
class Spellings:
    """A table of rows (hash, start, size, id) over one heap of bytes."""

    count: int = 0
    used: int = 0
    """bytes of the heap"""
    rows: Ints = field(default_factory=lambda: np.empty((LEAST, 4), np.int64))
    heap: Bytes = field(default_factory=lambda: np.zeros(32 * LEAST, np.uint8))
    _table: Ids = field(default_factory=lambda: np.full(2 * LEAST, -1, np.int32))

    def find(self, words: Words, starts: Ints, sizes: Ints) -> Ids:
        """The row of every span, -1 for an empty one; new ones have no id yet."""
        self._make_room(starts.size, int(sizes.sum()))
        found = np.empty(starts.size, np.int32)
        self.count, self.used = kernels.find(
            words, starts, sizes, self._table, self.rows, self.count, words_of(self.heap), self.used, found
        )
        return found

    def find_texts(self, texts: list[bytes]) -> Ids:
        """The row of every spelling."""
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        text = np.frombuffer(b"".join([*texts, PAD]), np.uint8)
        return self.find(words_of(text), np.cumsum(sizes) - sizes, sizes)

    def text(self, row: int) -> bytes:
        """How it is written."""
        start, size = self.rows[row, START], self.rows[row, SIZE]
        return self.heap[start : start + size].tobytes()

    def ids(self, found: Ids) -> Ints:
        """The ids of some rows."""
        ids = np.empty(found.size, np.int64)
        kernels.ids_of(found, self.rows, ids)
        return ids

    def compact(self, live: Bools, row_of: Ids) -> None:
        """Forget the spellings of ids that are no longer live; `row_of` is kept right for the others."""
        self._table.fill(-1)
        self.count, self.used = kernels.compact(self.rows, self.count, self.heap, live, row_of, self._table)

    def _make_room(self, rows: int, size: int) -> None:
        if (needed := self.count + rows) > len(self.rows):
            self.rows = grown(self.rows, needed)
        if (filled := self.used + size + 2 * len(PAD)) > self.heap.size:
            self.heap = grown(self.heap, filled)
        if 2 * needed > self._table.size:
            self._table = np.full(1 << (2 * needed).bit_length(), -1, np.int32)
            kernels.fill(self._table, self.rows, self.count)


def grown(array: Array, least: int) -> Array:
    """A longer copy, at least twice as long."""
    longer = np.empty((max(least, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
