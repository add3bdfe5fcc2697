"""What a join asks: window patterns over slots, relations over rows; each by whatever variables are bound so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.native.group_index import GroupIndex
from freshkeeper.maintenance.engine.native.triple_slots import Positions

Bindings: TypeAlias = Mapping[str, Ints]
"""Ids by variable, a row for each partial solution"""
MOST_KEYS = 3


class MemberGroups(Protocol):
    """Members of an input by the value of a key: what a join looks up."""

    def counts(self, groups: Ints) -> Ints:
        """How many members each group has; none where there is no group."""
        ...

    def expand(self, groups: Ints, total: int) -> tuple[Ints, Ints]:
        """Every member of these groups, beside the place of its group in the list."""
        ...


@dataclass(frozen=True, eq=False)
class Probe:
    """What an input has for some rows: a group of members for each."""

    index: MemberGroups
    groups: Ints
    total: int

    @property
    def counts(self) -> Ints:
        """How many members each row meets."""
        return self.index.counts(self.groups)


class JoinInput(Protocol):
    """Members with variables; a member is a slot or a row."""

    @property
    def variables(self) -> frozenset[str]:
        """What a member binds."""
        ...

    def probe(self, bound: Bindings, size: int) -> Probe:
        """What it has for these rows."""
        ...

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """Which pairs of a row and a member are right after all; None where the probe has asked all."""
        ...

    def column(self, name: str, members: Ints) -> Ints:
        """The ids that members bind to a variable."""
        ...


class HeldTriples(Protocol):
    """What a window holds, by slot or row."""

    terms: Ints

    def index(self, positions: Positions) -> GroupIndex:
        """By the terms at these positions."""
        ...


@dataclass(frozen=True, eq=False)
class WindowInput:
    """A triple pattern over what a window holds: names of variables, and ids."""

    held: HeldTriples
    terms: tuple[str | int, str | int, str | int]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each variable stands first."""
        return {term: self.terms.index(term) for term in self.terms if isinstance(term, str)}

    @property
    def variables(self) -> frozenset[str]:
        """What a triple binds."""
        return frozenset(self.places)

    def probe(self, bound: Bindings, size: int) -> Probe:
        """By its ids and by what is bound."""
        known = [n for n, term in enumerate(self.terms) if not isinstance(term, str) or term in bound]
        index = self.held.index(tuple(known))
        groups, total = index.find([self._key(n, bound, size) for n in known], size)
        return Probe(index, groups, total)

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """A variable that stands twice and was not bound before."""
        del rows
        return self._same(members, [name for name in self.places if name not in bound])

    def column(self, name: str, members: Ints) -> Ints:
        """What triples have where the variable stands."""
        found: Ints = self.held.terms[self.places[name], members]
        return found

    def matching(self, slots: Ints) -> Ints:
        """Those of some slots whose triple the pattern stands for."""
        found = np.ones(slots.size, bool)
        for n, term in enumerate(self.terms):
            if not isinstance(term, str):
                found &= self.held.terms[n, slots] == term
        same = self._same(slots, list(self.places))
        return slots[found if same is None else found & same]

    def mark(self, live: Bools) -> None:
        """Its own ids are kept."""
        live[[term for term in self.terms if not isinstance(term, str)]] = True

    def _same(self, members: Ints, names: Sequence[str]) -> Bools | None:
        found = None
        for name in names:
            for n in range(self.places[name] + 1, 3):
                if self.terms[n] == name:
                    equal = self.held.terms[n, members] == self.held.terms[self.places[name], members]
                    found = equal if found is None else found & equal
        return found

    def _key(self, position: int, bound: Bindings, size: int) -> Ints:
        term = self.terms[position]
        return bound[term] if isinstance(term, str) else np.full(size, term, np.int64)


@dataclass(eq=False)
class Relation:
    """Solutions of a static part; the same one serves all queries that need it."""

    names: tuple[str, ...]
    rows: Ints
    """variables × solutions"""
    _indexes: dict[tuple[int, ...], GroupIndex] = field(default_factory=dict)

    @cached_property
    def variables(self) -> frozenset[str]:
        """What a solution binds."""
        return frozenset(self.names)

    def mark(self, live: Bools) -> None:
        """Its ids are kept."""
        live[self.rows[self.rows >= 0]] = True

    def probe(self, bound: Bindings, size: int) -> Probe:
        """By what is bound, up to three variables of it."""
        known = tuple(n for n, name in enumerate(self.names) if name in bound)[:MOST_KEYS]
        index = self._index(known)
        groups, total = index.find([bound[self.names[n]] for n in known], size)
        return Probe(index, groups, total)

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """What is bound beyond three variables."""
        found = None
        for n in [n for n, name in enumerate(self.names) if name in bound][MOST_KEYS:]:
            equal = self.rows[n, members] == bound[self.names[n]][rows]
            found = equal if found is None else found & equal
        return found

    def column(self, name: str, members: Ints) -> Ints:
        """What solutions have for a variable."""
        found: Ints = self.rows[self.names.index(name), members]
        return found

    def _index(self, known: tuple[int, ...]) -> GroupIndex:
        if known not in self._indexes:
            self._indexes[known] = index = GroupIndex()
            index.add(np.arange(self.rows.shape[1]), [self.rows[n] for n in known])
        return self._indexes[known]
