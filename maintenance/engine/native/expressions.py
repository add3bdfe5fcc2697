"""FILTER and BIND over columns of ids: the SPARQL library evaluates each combination of values once.

Equality of IRIs is decided by their ids; everything else, above all literals, is left to the library.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import number_columns
from freshkeeper.maintenance.engine.evaluator import Snapshot, Table, TermRow
from freshkeeper.maintenance.engine.native.joins import PartialSolutions
from freshkeeper.maintenance.engine.native.native_plan import PlanExpression
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph

ROW = "freshkeeper_row"
NO_VALUE = -1
_IS_ROW = NamedNode("v:row")
MAX_CACHED_COMBINATIONS = 1_000_000


@dataclass(eq=False)
class LiteralIds:
    """Knows which ids stand for literals, or for triple terms, which may contain literals."""

    dictionary: Dictionary
    _is_literal: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Forget everything at a sweep, after which an id may stand for another term."""
        self.dictionary.hold(self._forget)

    def of(self, ids: Ints) -> Bools:
        """Return which of these ids are literals or triple terms."""
        each, places = np.unique(ids, return_inverse=True)
        for id in each.tolist():
            if id not in self._is_literal:
                self._is_literal[id] = isinstance(self.dictionary.term(id), Literal | Triple)
        return np.array([self._is_literal[id] for id in each.tolist()], bool)[places]

    def _forget(self, _: Bools) -> None:
        self._is_literal.clear()


@dataclass(eq=False)
class ExpressionEvaluator:
    """A FILTER or BIND, and its values for the combinations that were seen."""

    expression: PlanExpression
    prologue: str
    dictionary: Dictionary
    literals: LiteralIds
    _is_literal: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build the query that evaluates the expression for many rows at once."""
        self.dictionary.hold(self._forget)
        names = self.expression.variables
        patterns = " ".join(f"OPTIONAL {{ ?{ROW} <v:{n}> ?{name} }}" for n, name in enumerate(names))
        if self.expression.name is None:
            shown = f"?{ROW}"
        else:
            shown = f"?{ROW} ?{self.expression.name}"
        body = f"?{ROW} <v:row> <v:row> . {patterns} {self.expression.text}"
        self._text = rewrite_for_pyoxigraph(f"{self.prologue}SELECT {shown} WHERE {{ {body} }}")

    def holds(self, columns: Sequence[Ints], size: int) -> Bools:
        """Return for which rows a FILTER is true."""
        if self.expression.differ is None or len(columns) != 2 or not all((c >= 0).all() for c in columns):
            return self.values(columns, size) > 0
        found: Bools = (columns[0] != columns[1]) == self.expression.differ
        # Two different ids are two different IRIs or blank nodes, but two literals may be equal by value.
        valued = np.flatnonzero(self.literals.of(columns[0]) & self.literals.of(columns[1]))
        if valued.size:
            found[valued] = self.values([column[valued] for column in columns], valued.size) > 0
        return found

    def values(self, columns: Sequence[Ints], size: int) -> Ints:
        """Return the id of each row's value, -1 if there is none; for a FILTER 1 if it is true."""
        if not columns:
            return np.full(size, self._of([()])[()], np.int64)
        rows = np.stack(columns)
        numbers, most = number_columns(rows)
        first = np.empty(most, np.int64)
        first[numbers[::-1]] = np.arange(size)[::-1]
        wanted = list(map(tuple, rows[:, first].T.tolist()))
        values = self._of(wanted)
        found: Ints = np.array([values[one] for one in wanted], np.int64)[numbers]
        return found

    def _of(self, wanted: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
        if len(self._is_literal) > MAX_CACHED_COMBINATIONS:
            self._is_literal.clear()
        if new := [one for one in wanted if one not in self._is_literal]:
            found = Snapshot(quad for n, one in enumerate(new) for quad in self._quads(n, one)).find(self._text, {})
            assert isinstance(found, Table)
            computed = {row[0]: self._value(row) for row in found.rows}
            self._is_literal |= {one: computed.get(_row(n), NO_VALUE) for n, one in enumerate(new)}
        return {one: self._is_literal[one] for one in wanted}

    def _quads(self, number: int, ids: tuple[int, ...]) -> Iterator[Quad]:
        yield Quad(_row(number), _IS_ROW, _IS_ROW)
        for place, id in enumerate(ids):
            if id >= 0:
                yield Quad(_row(number), NamedNode(f"v:{place}"), self.dictionary.term(id))

    def _value(self, row: TermRow) -> int:
        if self.expression.name is None:
            return 1
        return NO_VALUE if row[1] is None else self.dictionary.id(row[1])

    def _forget(self, _: Bools) -> None:
        self._is_literal.clear()


def apply_expressions(solutions: PartialSolutions, expressions: Sequence[ExpressionEvaluator]) -> PartialSolutions:
    """Return the solutions that pass all FILTERs, with the values of BINDs.

    Expressions over variables of a SERVICE are skipped: they are evaluated after the SERVICE join.
    """
    for asked in expressions:
        if not solutions.bound.keys() >= set(asked.expression.variables):
            continue
        columns = [solutions.bound[name] for name in asked.expression.variables]
        if asked.expression.name is not None:
            solutions.bound[asked.expression.name] = asked.values(columns, solutions.size)
        elif not (holds := asked.holds(columns, solutions.size)).all():
            solutions = solutions.take(holds)
    return solutions


def _row(number: int) -> NamedNode:
    return NamedNode(f"r:{number}")
