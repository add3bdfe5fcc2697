"""An index of the members of a table by the ids they share: joins probe it, and it supplies cardinalities."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints, grown
from freshkeeper.maintenance.engine.columns import hash_kernels
from freshkeeper.maintenance.engine.columns.hash_kernels import COUNT, GROUP_WIDTH, HEAD, MEMBER_WIDTH, OWNER

SMALLEST = 16


def _none(size: int) -> Ints:
    return np.full(size, -1, np.int64)


@dataclass(eq=False)
class GroupIndex:
    """Groups members by keys of up to three ids. Members are numbers that their owner assigns and reuses."""

    groups: int = 0
    members: int = 0
    _table: Ints = field(default_factory=lambda: _none(SMALLEST))
    _groups: Ints = field(default_factory=lambda: np.zeros((SMALLEST, GROUP_WIDTH), np.int64))
    _members: Ints = field(default_factory=lambda: np.full((SMALLEST, MEMBER_WIDTH), -1, np.int64))

    def add(self, members: Ints, keys: Sequence[Ints]) -> None:
        """Add members with their keys, one column per key position."""
        if not members.size:
            return
        self._make_room(members.size, int(members.max()) + 1)
        self.members += members.size
        self.groups = hash_kernels.link(
            self._table, self._groups, self._members, self.groups, members, *three(keys, members.size)
        )

    def remove(self, members: Ints) -> None:
        """Remove members from their groups; empty groups remain."""
        self.members -= members.size
        hash_kernels.unlink(self._groups, self._members, members)

    def find(self, keys: Sequence[Ints], size: int) -> tuple[Ints, int]:
        """Return the group of each key, -1 if there is none, and the number of their members together."""
        groups = np.empty(size, np.int64)
        a, b, c = three(keys, size)
        total = hash_kernels.probe(self._table, self._groups, a, b, c, groups)
        return groups, total

    def counts(self, groups: Ints) -> Ints:
        """Return how many members each group has, 0 for no group."""
        return np.where(groups >= 0, self._groups[groups, COUNT], 0)

    def first(self, groups: Ints) -> Ints:
        """Return the last member that was added to each group, -1 if there is none."""
        found: Ints = np.where(groups >= 0, self._groups[groups, HEAD], -1)
        return found

    def expand(self, groups: Ints, total: int) -> tuple[Ints, Ints]:
        """Return, for every member of these groups, the position of its group in the list, and the member."""
        rows, members = np.empty(total, np.int64), np.empty(total, np.int64)
        hash_kernels.expand(self._groups, self._members, groups, rows, members)
        return rows, members

    def _make_room(self, more: int, width: int) -> None:
        """Make room for more groups and for members below `width`."""
        # Empty groups keep their place, so keys that never come back would fill the table: drop them once they
        # dominate.
        if self.groups > 2 * self.members + 1_000:
            self._forget_empty()
        needed = self.groups + more
        self._groups, self._members = grown(self._groups, needed), grown(self._members, width)
        if 2 * needed > self._table.size:
            self._lay_table(needed)

    def _forget_empty(self) -> None:
        kept = np.flatnonzero(self._groups[: self.groups, COUNT])
        number = _none(self.groups)
        number[kept] = np.arange(kept.size)
        self._groups, owner = self._groups[kept], self._members[:, OWNER]
        owned = (owner >= 0) & (owner < self.groups)  # unused member numbers have an arbitrary owner
        self._members[:, OWNER] = np.where(owned, number[np.where(owned, owner, 0)], -1)
        self.groups = kept.size
        self._lay_table(self.groups)

    def _lay_table(self, groups: int) -> None:
        self._table = _none(max(SMALLEST, 1 << (4 * groups).bit_length()))
        hash_kernels.refill(self._table, self._groups, self.groups)


def three(keys: Sequence[Ints], size: int) -> list[Ints]:
    """Return three key columns, padded with zeros."""
    return [*keys, *[np.zeros(size, np.int64)] * (3 - len(keys))]
