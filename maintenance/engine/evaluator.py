"""The evaluation of one instant: a dataset kept up to date by difference, and SPARQL over it.

`Evaluator` is the seam. `Snapshot` gives the dataset to pyoxigraph and evaluates the whole query at every instant; an
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
from freshkeeper.maintenance.engine.evaluation_limits import Limits

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Row: TypeAlias = tuple[Term | None, ...]
Function: TypeAlias = Callable[..., Term | None]

OWN = re.compile(r"freshkeeper:(?!/|window/)|larkc\.eu")
"""This is in every text that calls one of our functions; names that are resolved and windows without one are not."""
CHURN = 50_000
"""Removed triples before a store may be renewed."""


@dataclass(eq=False)
class LazyRows(Sequence[Row]):
    """The rows of a pyoxigraph result, made into terms when somebody looks; until then they can be had as JSON."""

    unread: Unread | None
    _rows: list[Row] = field(default_factory=list)

    def json(self) -> bytes | None:
        """The whole result as SPARQL-JSON, once, instead of the rows."""
        if self.unread is None:
            return None
        unread, self.unread = self.unread, None
        return unread.take().serialize(format=QueryResultsFormat.JSON)

    def _read(self) -> list[Row]:
        if self.unread is not None:
            unread, self.unread = self.unread, None
            with read_here():
                self._rows = list(map(tuple, unread.take()))
        return self._rows

    def __len__(self) -> int:
        """How many rows there are, none of them decoded."""
        return len(self._read())

    def __iter__(self) -> Iterator[Row]:
        """The rows in order, each decoded when it is reached."""
        return iter(self._read())

    @overload
    def __getitem__(self, number: int) -> Row: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Row]: ...

    def __getitem__(self, number: int | slice) -> Row | Sequence[Row]:
        return self._read()[number]


@dataclass(frozen=True, eq=False)
class Table:
    """Solutions: the variables, and a row of terms for each."""

    variables: tuple[str, ...]
    rows: Sequence[Row]


Found: TypeAlias = Table | list[Triple] | bool
"""What a query gives: SELECT, CONSTRUCT and DESCRIBE, ASK"""


class Evaluator(Protocol):
    """One dataset that changes, and queries over it as it is now."""

    def apply(self, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        """Take quads out of the dataset and put others in."""
        ...

    def find(self, sparql: str, functions: Mapping[str, Function]) -> Found:
        """The solutions, quads or truth value of a query in SPARQL, with these functions."""
        ...


@dataclass(eq=False)
class Snapshot:
    """A pyoxigraph store; `named` are the graphs that GRAPH sees, None for all."""

    static: Iterable[Quad] = ()
    named: list[NamedNode | BlankNode] | None = None
    limits: Limits = field(default_factory=Limits)
    store: Store = field(init=False)
    _churn: int = 0

    def __post_init__(self) -> None:
        self.store = Store()
        self.store.extend(self.static)

    def apply(self, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        """First what left, then what came."""
        for quad in removed:
            self.store.remove(quad)
        if added:
            self.store.extend(added)
        self._churn += len(removed)
        if self._churn > CHURN and self._churn > 2 * len(self.store):
            seen, self.store, self._churn = self.store, Store(), 0  # one never forgets a term that it has seen
            self.store.extend(seen)

    def find(self, sparql: str, functions: Mapping[str, Function]) -> Found:
        """Evaluate the whole query on the dataset as it is now."""
        custom = {NamedNode(name): function for name, function in functions.items()}
        with read_here():
            return self._found(sparql, custom)

    def _found(self, sparql: str, custom: dict[NamedNode, Function]) -> Found:
        found = self.limits.in_time(lambda: self.store.query(sparql, named_graphs=self.named, custom_functions=custom))
        if isinstance(found, QuerySolutions):
            names = tuple(variable.value for variable in found.variables)
            if self.limits.rows is not None:
                return Table(names, self.limits.counted(map(tuple, found)))
            rows = LazyRows(Unread.of(found))
            ours = OWN.search(sparql)  # what our functions say is of this instant
            return Table(names, list(rows) if ours else rows)
        if isinstance(found, QueryBoolean):
            return bool(found)
        return list(dict.fromkeys(self.limits.counted(found)))  # the library repeats those with blank nodes
