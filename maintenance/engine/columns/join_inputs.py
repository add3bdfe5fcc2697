"""The inputs of a join: window patterns over slots, relations over rows; probed by the variables bound so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.group_index import GroupIndex
from freshkeeper.maintenance.engine.columns.window_slots import Positions

Bindings: TypeAlias = Mapping[str, Ints]
"""Ids by variable, one row per partial solution."""
MOST_KEYS = 3


class MemberGroups(Protocol):
    """Members of an input, grouped by the value of a key."""

    def counts(self, groups: Ints) -> Ints: ...

    def expand(self, groups: Ints, total: int) -> tuple[Ints, Ints]: ...


@dataclass(frozen=True, eq=False)
class Probe:
    """The result of probing an input with some rows: a group of members for each row."""

    index: MemberGroups
    groups: Ints
    total: int

    @property
    def counts(self) -> Ints:
        """The number of members that match each row."""
        return self.index.counts(self.groups)


class JoinInput(Protocol):
    """An input of a join: members that bind variables. A member is a slot or a row."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables that a member binds."""
        ...

    def probe(self, bound: Bindings, size: int) -> Probe:
        """Look up the members that match these rows, by as many bound variables as an index has."""
        ...

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """Check what `probe` did not: return which pairs of a row and a member match, None if all do."""
        ...

    def column(self, name: str, members: Ints) -> Ints:
        """Return the ids that members bind to a variable."""
        ...


class IndexedTriples(Protocol):
    """The triples of a window, by slot or row."""

    terms: Ints

    def index(self, positions: Positions) -> GroupIndex:
        """Return the index by the terms at these positions."""
        ...


@dataclass(frozen=True, eq=False)
class WindowInput:
    """A triple pattern over the content of a window, with variable names and ids."""

    store: IndexedTriples
    terms: tuple[str | int, str | int, str | int]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The first position of each variable."""
        return {term: self.terms.index(term) for term in self.terms if isinstance(term, str)}

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(self.places)

    def probe(self, bound: Bindings, size: int) -> Probe:
        known = [n for n, term in enumerate(self.terms) if not isinstance(term, str) or term in bound]
        index = self.store.index(tuple(known))
        groups, total = index.find([self._key(n, bound, size) for n in known], size)
        return Probe(index, groups, total)

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """Check variables that occur twice in the pattern and were not bound before."""
        del rows
        return self._same(members, [name for name in self.places if name not in bound])

    def column(self, name: str, members: Ints) -> Ints:
        found: Ints = self.store.terms[self.places[name], members]
        return found

    def matching(self, slots: Ints) -> Ints:
        """Return those of some slots whose triple matches the pattern."""
        found = np.ones(slots.size, bool)
        for n, term in enumerate(self.terms):
            if not isinstance(term, str):
                found &= self.store.terms[n, slots] == term
        same = self._same(slots, list(self.places))
        return slots[found if same is None else found & same]

    def mark(self, live: Bools) -> None:
        """Set live[id] for the constants of the pattern."""
        live[[term for term in self.terms if not isinstance(term, str)]] = True

    def _same(self, members: Ints, names: Sequence[str]) -> Bools | None:
        found = None
        for name in names:
            for n in range(self.places[name] + 1, 3):
                if self.terms[n] == name:
                    equal = self.store.terms[n, members] == self.store.terms[self.places[name], members]
                    found = equal if found is None else found & equal
        return found

    def _key(self, position: int, bound: Bindings, size: int) -> Ints:
        term = self.terms[position]
        if isinstance(term, str):
            return bound[term]
        return np.full(size, term, np.int64)


@dataclass(eq=False)
class Relation:
    """The solutions of a static part, shared by all queries that need it."""

    names: tuple[str, ...]
    rows: Ints
    """variables × solutions"""
    _indexes: dict[tuple[int, ...], GroupIndex] = field(default_factory=dict)

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset(self.names)

    def mark(self, live: Bools) -> None:
        """Keep the ids of all solutions."""
        live[self.rows[self.rows >= 0]] = True

    def probe(self, bound: Bindings, size: int) -> Probe:
        """Look up by the bound variables, up to MOST_KEYS of them."""
        known = tuple(n for n, name in enumerate(self.names) if name in bound)[:MOST_KEYS]
        index = self._index(known)
        groups, total = index.find([bound[self.names[n]] for n in known], size)
        return Probe(index, groups, total)

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """Check the bound variables beyond MOST_KEYS."""
        found = None
        for n in [n for n, name in enumerate(self.names) if name in bound][MOST_KEYS:]:
            equal = self.rows[n, members] == bound[self.names[n]][rows]
            found = equal if found is None else found & equal
        return found

    def column(self, name: str, members: Ints) -> Ints:
        found: Ints = self.rows[self.names.index(name), members]
        return found

    def _index(self, known: tuple[int, ...]) -> GroupIndex:
        if known not in self._indexes:
            self._indexes[known] = index = GroupIndex()
            index.add(np.arange(self.rows.shape[1]), [self.rows[n] for n in known])
        return self._indexes[known]
