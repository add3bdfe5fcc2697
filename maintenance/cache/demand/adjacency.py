"""Adjacency rows that grow: CSR with room behind each row, so that an edge costs a constant and not a rebuild."""

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Ids, Ints, grown, spread


def _ids(size: int = 0) -> Ids:
    return np.empty(size, np.int32)


def _ints(size: int = 0) -> Ints:
    return np.zeros(size, np.int64)


@dataclass(eq=False)
class Rows:
    """Row i is neighbours[start[i] : stop[i]], with room up to start[i] + room[i]."""

    start: Ints = field(default_factory=_ints)
    stop: Ints = field(default_factory=_ints)
    room: Ints = field(default_factory=_ints)
    neighbours: Ids = field(default_factory=_ids)
    used: int = 0
    shared: bool = False
    """the arrays are somebody's snapshot: copy before the next write"""
    _pools: tuple[Ints, Ints, Ints] = field(default_factory=lambda: (_ints(), _ints(), _ints()))
    """start, stop and room with zeros behind them, so that a row more costs a constant"""

    @classmethod
    def from_csr(cls, start: Ints, neighbours: Ids) -> "Rows":
        """Rows as they are, without room to grow and without a copy: the first edge that is new makes one."""
        return cls(start[:-1].copy(), start[1:].copy(), np.diff(start), neighbours, neighbours.size, shared=True)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.start.size

    def extend(self, rows: int) -> None:
        """Make empty rows up to `rows`."""
        columns = (self.start, self.stop, self.room)
        if rows <= self.start.size:
            return
        if rows > self._pools[0].size or any(c.base is not p for c, p in zip(columns, self._pools, strict=True)):
            self._pools = (_ints(2 * rows), _ints(2 * rows), _ints(2 * rows))
            for column, pool in zip(columns, self._pools, strict=True):
                pool[: column.size] = column
        self.start, self.stop, self.room = (pool[:rows] for pool in self._pools)

    def of(self, row: int) -> Ids:
        """Return the neighbours of a row."""
        return self.neighbours[self.start[row] : self.stop[row]]

    def append(self, row: int, neighbour: int) -> None:
        """Add one neighbour, in amortised constant time."""
        self._copy_if_shared()
        if self.stop[row] - self.start[row] == self.room[row]:
            self._move(row, max(4, 2 * int(self.room[row])))
        self.neighbours[self.stop[row]] = neighbour
        self.stop[row] += 1

    def discard(self, row: int, neighbour: int) -> None:
        """Take one neighbour out; the last one takes its place."""
        self._copy_if_shared()
        place = self.start[row] + int(np.flatnonzero(self.of(row) == neighbour)[0])
        self.stop[row] -= 1
        self.neighbours[place] = self.neighbours[self.stop[row]]

    def csr(self) -> tuple[Ints, Ids]:
        """Return the rows without room, as CSR, shared with the caller until the next write."""
        lengths = self.stop - self.start
        start = np.concatenate([[0], np.cumsum(lengths)])
        if start[-1] != self.used or self.neighbours.size != self.used or not np.array_equal(start[:-1], self.start):
            self.neighbours = self.neighbours[spread(self.start, lengths)]
            self.start, self.stop, self.room, self.used = start[:-1], start[1:].copy(), lengths, int(start[-1])
        self.shared = True
        return start, self.neighbours

    def _copy_if_shared(self) -> None:
        if self.shared:
            self.start, self.neighbours, self.shared = self.start.copy(), self.neighbours.copy(), False

    def _move(self, row: int, room: int) -> None:
        """Move a row to the end of the pool, with more room."""
        self.neighbours = grown(self.neighbours, self.used + room)
        old = self.of(row)
        self.neighbours[self.used : self.used + old.size] = old
        self.start[row], self.stop[row], self.room[row] = self.used, self.used + old.size, room
        self.used += room


def both_ways(sn: Ids | Ints, sr: Ids | Ints, sns: int, srs: int) -> tuple[Rows, Rows]:
    """Rows by SN and rows by SR of a list of edges; an edge named twice is one edge."""
    forward = sparse.csr_array((np.ones(len(sn), np.int8), (sn, sr)), shape=(sns, srs))
    backward = forward.T.tocsr()
    return _rows(forward), _rows(backward)


def _rows(matrix: "sparse.csr_array[np.int8, tuple[int, int]]") -> Rows:
    return Rows.from_csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False))
