"""Members of a table by the ids that they have in common: what a join asks, and where cardinalities come from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.native import hash_kernels
from freshkeeper.policies.arrays import Ints, grown

SMALLEST = 16


def _none(size: int) -> Ints:
    return np.full(size, -1, np.int64)


@dataclass(eq=False)
class GroupIndex:
    """Members are numbers that their owner gives and takes back; keys are up to three ids."""

    groups: int = 0
    members: int = 0
    _table: Ints = field(default_factory=lambda: _none(SMALLEST))
    _keys: Ints = field(default_factory=lambda: np.empty((3, SMALLEST), np.int64))
    _head: Ints = field(default_factory=lambda: _none(SMALLEST))
    _count: Ints = field(default_factory=lambda: np.zeros(SMALLEST, np.int64))
    _after: Ints = field(default_factory=lambda: _none(SMALLEST))
    _before: Ints = field(default_factory=lambda: _none(SMALLEST))
    _owner: Ints = field(default_factory=lambda: _none(SMALLEST))

    def add(self, members: Ints, keys: Sequence[Ints]) -> None:
        """Members with their keys, a column each."""
        if not members.size:
            return
        self._make_room(members.size, int(members.max()) + 1)
        self.members += members.size
        self.groups = hash_kernels.link(
            self._table, self._keys, self._head, self._count, self._after, self._before, self._owner, self.groups,
            members, *three(keys, members.size),
        )  # fmt: skip

    def remove(self, members: Ints) -> None:
        """Take members out."""
        self.members -= members.size
        hash_kernels.unlink(self._head, self._count, self._after, self._before, self._owner, members)

    def find(self, keys: Sequence[Ints], size: int) -> tuple[Ints, int]:
        """The group of each key, -1 where there is none, and how many members they have together."""
        groups = np.empty(size, np.int64)
        a, b, c = three(keys, size)
        total = hash_kernels.probe(self._table, self._keys, self._count, a, b, c, groups)
        return groups, total

    def counts(self, groups: Ints) -> Ints:
        """How many members each group has; none where there is no group."""
        return np.where(groups >= 0, self._count[groups], 0)

    def first(self, groups: Ints) -> Ints:
        """The member that came last to each group, -1 where there is none."""
        found: Ints = np.where(groups >= 0, self._head[groups], -1)
        return found

    def expand(self, groups: Ints, total: int) -> tuple[Ints, Ints]:
        """Every member of these groups, beside the place of its group in the list."""
        rows, members = np.empty(total, np.int64), np.empty(total, np.int64)
        hash_kernels.expand(self._head, self._after, groups, rows, members)
        return rows, members

    def _make_room(self, more: int, width: int) -> None:
        """For so many groups more; those without members are forgotten when they are the most."""
        if self.groups > 2 * self.members + 1_000:
            self._forget_empty()
        needed = self.groups + more
        self._keys, self._head, self._count = (grown(c, needed, axis=-1) for c in (self._keys, self._head, self._count))
        self._after, self._before, self._owner = (grown(c, width) for c in (self._after, self._before, self._owner))
        if 2 * needed > self._table.size:
            self._lay_table(needed)

    def _forget_empty(self) -> None:
        kept = np.flatnonzero(self._count[: self.groups])
        number = _none(self.groups)
        number[kept] = np.arange(kept.size)
        self._keys, self._head, self._count = self._keys[:, kept], self._head[kept], self._count[kept]
        owned = (self._owner >= 0) & (self._owner < self.groups)  # of numbers that are no members it means nothing
        self._owner = np.where(owned, number[np.where(owned, self._owner, 0)], -1)
        self.groups = kept.size
        self._lay_table(self.groups)

    def _lay_table(self, groups: int) -> None:
        self._table = _none(max(SMALLEST, 1 << (4 * groups).bit_length()))
        hash_kernels.refill(self._table, self._keys, self.groups)


def three(keys: Sequence[Ints], size: int) -> list[Ints]:
    """Three columns of keys, those that there are none of being zeros."""
    return [*keys, *[np.zeros(size, np.int64)] * (3 - len(keys))]
