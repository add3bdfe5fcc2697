"""FILTER over columns of ids: the SPARQL library is asked once for each combination of values, and remembered.

Whether two names differ their ids tell; all else, literals above all, is SPARQL's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store, Triple

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.id_rows import numbered
from freshkeeper.maintenance.native.plan import Expression
from freshkeeper.policies.arrays import Bools, Ints

REMEMBERED = 1_000_000
"""Combinations whose verdict is kept."""


@dataclass(eq=False)
class LiteralIds:
    """Which ids stand for literals, or for triples that may have some inside, found out once for each."""

    dictionary: Dictionary
    _known: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A sweep may give an id to another term."""
        self.dictionary.hold(lambda _: self._known.clear())

    def of(self, ids: Ints) -> Bools:
        """Which of these."""
        each, places = np.unique(ids, return_inverse=True)
        for id in each.tolist():
            if id not in self._known:
                self._known[id] = isinstance(self.dictionary.term(id), Literal | Triple)
        return np.array([self._known[id] for id in each.tolist()], bool)[places]


@dataclass(eq=False)
class Condition:
    """One FILTER."""

    expression: Expression
    prologue: str
    dictionary: Dictionary
    literals: LiteralIds
    _known: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A sweep may give an id to another term."""
        self.dictionary.hold(lambda _: self._known.clear())
        names = self.expression.variables
        patterns = " ".join(f"?freshkeeper_row <v:{n}> ?{name} ." for n, name in enumerate(names))
        self._text = f"{self.prologue}SELECT ?freshkeeper_row WHERE {{ {patterns} {self.expression.text} }}"

    def holds(self, columns: Sequence[Ints], size: int) -> Bools:
        """For which rows it is true."""
        if self.expression.differ is None or len(columns) != 2:
            return self._asked(columns, size)
        found: Bools = (columns[0] != columns[1]) == self.expression.differ
        valued = np.flatnonzero(self.literals.of(columns[0]) & self.literals.of(columns[1]))
        if valued.size:
            found[valued] = self._asked([column[valued] for column in columns], valued.size)
        return found

    def _asked(self, columns: Sequence[Ints], size: int) -> Bools:
        if not columns:
            return np.full(size, bool(self._of([()])[()]), bool)
        rows = np.stack(columns)
        numbers, most = numbered(rows)
        first = np.empty(most, np.int64)
        first[numbers[::-1]] = np.arange(size)[::-1]
        wanted = list(map(tuple, rows[:, first].T.tolist()))
        verdicts = self._of(wanted)
        found: Bools = np.array([verdicts[one] for one in wanted], bool)[numbers]
        return found

    def _of(self, wanted: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], bool]:
        if len(self._known) > REMEMBERED:
            self._known.clear()
        if new := [one for one in wanted if one not in self._known]:
            store = Store()
            store.extend(
                Quad(NamedNode(f"r:{n}"), NamedNode(f"v:{place}"), self.dictionary.term(id))
                for n, one in enumerate(new)
                for place, id in enumerate(one)
            )
            found = store.query(self._text)
            assert isinstance(found, QuerySolutions)
            true = {row[0].value for row in found} if new != [()] else {"r:0"} if list(found) else set()
            self._known |= {one: f"r:{n}" in true for n, one in enumerate(new)}
        return {one: self._known[one] for one in wanted}
