"""The snapshot evaluator: a dataset kept up to date by difference, and SPARQL over all of it.

`Evaluator` is the seam. `Snapshot` keeps the dataset in pyoxigraph and evaluates the whole query every time; an
incremental evaluator must give the same answers.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, overload

from pyoxigraph import (
    BlankNode,
    Literal,
    NamedNode,
    Quad,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    Store,
    Triple,
)

from freshkeeper.maintenance.base.unread_results import Unread, read_here
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimits
from freshkeeper.maintenance.engine.wide_sums import EXACT_AGGREGATES, SUMS, exact_sums

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
TermRow: TypeAlias = tuple[Term | None, ...]
Function: TypeAlias = Callable[..., Term | None]

CUSTOM_FUNCTION_CALL = re.compile(r"freshkeeper:(?!/|window/)|larkc\.eu")
"""Matches texts that call one of our functions; resolved IRIs and unnamed windows do not match."""
RENEW_FROM_REMOVALS = 50_000
"""Removed quads after which a store may be renewed."""


@dataclass(eq=False)
class LazyRows(Sequence[TermRow]):
    """The rows of a pyoxigraph result, decoded on first access; until then available as JSON."""

    unread: Unread | None
    _rows: list[TermRow] = field(default_factory=list)

    def json(self) -> bytes | None:
        """Return the whole result as SPARQL-JSON, once, instead of the rows; None if the rows have been read."""
        if self.unread is None:
            return None
        unread, self.unread = self.unread, None
        return unread.take().serialize(format=QueryResultsFormat.JSON)

    def _read(self) -> list[TermRow]:
        if self.unread is not None:
            unread, self.unread = self.unread, None
            with read_here():
                self._rows = list(map(tuple, unread.take()))
        return self._rows

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[TermRow]:
        return iter(self._read())

    @overload
    def __getitem__(self, number: int) -> TermRow: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[TermRow]: ...

    def __getitem__(self, number: int | slice) -> TermRow | Sequence[TermRow]:
        return self._read()[number]


@dataclass(frozen=True, eq=False)
class Table:
    """Solutions: the variables, and one row of terms per solution."""

    variables: tuple[str, ...]
    rows: Sequence[TermRow]


QueryResult: TypeAlias = Table | list[Triple] | bool
"""The result of SELECT; of CONSTRUCT and DESCRIBE; of ASK"""


class Evaluator(Protocol):
    """A dataset that changes, and queries over its present state."""

    def apply(self, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        """Remove quads from the dataset, then add others."""
        ...

    def find(self, sparql: str, functions: Mapping[str, Function]) -> QueryResult:
        """Evaluate a SPARQL query with these custom functions."""
        ...


@dataclass(eq=False)
class Snapshot:
    """A pyoxigraph store. GRAPH sees the graphs in `named`, or all if that is None."""

    static: Iterable[Quad] = ()
    named_graphs: list[NamedNode | BlankNode] | None = None
    limits: EvaluationLimits = field(default_factory=EvaluationLimits)
    store: Store = field(init=False)
    _churn: int = 0

    def __post_init__(self) -> None:
        self.store = Store()
        self.store.extend(self.static)

    def apply(self, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        for quad in removed:
            self.store.remove(quad)
        if added:
            self.store.extend(added)
        self._churn += len(removed)
        if self._churn > RENEW_FROM_REMOVALS and self._churn > 2 * len(self.store):
            # A store never frees the text of a term it has seen. Copy the live quads into a new one, or memory grows
            # for as long as a stream brings new terms.
            live, self.store, self._churn = self.store, Store(), 0
            self.store.extend(live)

    def find(self, sparql: str, functions: Mapping[str, Function]) -> QueryResult:
        custom = {NamedNode(name): function for name, function in functions.items()}
        with read_here():
            found = self._evaluate(sparql, custom)
            if isinstance(found, Table) and SUMS.search(sparql):
                exact = exact_sums(sparql, found.variables, found.rows)
                if exact is not None:
                    return self._evaluate(exact, custom)
            return found

    def _evaluate(self, sparql: str, custom: dict[NamedNode, Function]) -> QueryResult:
        found = self.limits.in_time(
            lambda: self.store.query(
                sparql,
                named_graphs=self.named_graphs,
                custom_functions=custom,
                custom_aggregate_functions=EXACT_AGGREGATES,
            )
        )
        if isinstance(found, QuerySolutions):
            names = tuple(variable.value for variable in found.variables)
            if self.limits.rows is not None:
                return Table(names, self.limits.counted(map(tuple, found)))
            rows = LazyRows(Unread.of(found))
            # Our functions depend on the evaluation time, so rows that call them must be decoded now.
            time_dependent = CUSTOM_FUNCTION_CALL.search(sparql)
            return Table(names, list(rows) if time_dependent else rows)
        if isinstance(found, QueryBoolean):
            return bool(found)
        # pyoxigraph repeats triples with blank nodes.
        return list(dict.fromkeys(self.limits.counted(found)))
