"""Terms as numbers: an id stands for one term, and what the store calls equal is one term.

An id is never renumbered. One that nobody keeps any more is freed by a sweep and stands for another term later, so
that ids stay dense and memory stays flat where new terms never end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import RLock
from typing import Protocol
from weakref import WeakSet

import numpy as np

from freshkeeper.maintenance.rsp.evaluator import Term
from freshkeeper.maintenance.rsp.stored_literals import stored_terms
from freshkeeper.policies.arrays import Bools, Ints

SMALL = 1 << 16
"""Terms that are not worth a sweep."""


class Keeper(Protocol):
    """Something that keeps ids as long as somebody has it."""

    def mark(self, live: Bools) -> None:
        """Set live[id] for every id that is kept."""
        ...


@dataclass(eq=False)
class Dictionary:
    """The terms of one run, shared by its queries, streams, graphs and views."""

    width: int = 0
    """an array of this length has a place for every id"""
    sweeps: int = 0
    """how often ids were freed: what is remembered by id is of this many sweeps"""
    lock: RLock = field(default_factory=RLock)
    """held by a thread between the ids that it has got and the columns that keep them"""
    _ids: dict[Term, int] = field(default_factory=dict)
    _terms: list[Term | None] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)
    _holders: list[Callable[[Bools], None]] = field(default_factory=list)
    _keepers: WeakSet[Keeper] = field(default_factory=WeakSet)
    _left: int = 0

    def __len__(self) -> int:
        """How many ids stand for a term."""
        return self.width - len(self._free)

    def encode(self, terms: Iterable[Term]) -> Ints:
        """The ids of some terms."""
        with self.lock:
            wanted = list(terms)
            new = list(dict.fromkeys(term for term in wanted if term not in self._ids))
            for term, stored in zip(new, stored_terms(new), strict=True):
                self._ids[term] = self._of_stored(stored)
            return np.fromiter(map(self._ids.__getitem__, wanted), np.int64, len(wanted))

    def id(self, term: Term) -> int:
        """The id of one term."""
        return int(self.encode([term])[0])

    def term(self, id: int) -> Term:
        """What an id stands for."""
        found = self._terms[id]
        assert found is not None, f"the id {id} was freed"
        return found

    def terms(self, ids: Ints) -> list[Term]:
        """What some ids stand for."""
        return [self.term(id) for id in ids.tolist()]

    def hold(self, mark: Callable[[Bools], None]) -> None:
        """Whoever keeps ids for as long as the dictionary lives says which: `mark(live)` sets live[id] for each."""
        self._holders.append(mark)

    def keep(self, keeper: Keeper) -> None:
        """The same for what may go: it is asked as long as somebody else has it."""
        with self.lock:
            self._keepers.add(keeper)

    def sweep(self) -> None:
        """Free what nobody keeps, where there is twice as much as the last sweep left; between evaluations alone."""
        with self.lock:
            if len(self._ids) <= max(SMALL, 2 * self._left):
                return
            live = np.zeros(self.width, np.bool_)
            for mark in self._holders:
                mark(live)
            for keeper in self._keepers:
                keeper.mark(live)
            self._ids = {term: id for term, id in self._ids.items() if live[id]}
            self._terms = [term if kept else None for term, kept in zip(self._terms, live.tolist(), strict=True)]
            self._free = np.flatnonzero(~live).tolist()
            self._left = len(self._ids)
            self.sweeps += 1

    def _of_stored(self, term: Term) -> int:
        found = self._ids.get(term)
        if found is None:
            found = self._ids[term] = self._place()
            self._terms[found] = term
        return found

    def _place(self) -> int:
        if self._free:
            return self._free.pop()
        self._terms.append(None)
        self.width += 1
        return self.width - 1
