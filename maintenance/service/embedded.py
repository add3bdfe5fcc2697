"""A source inside the process: a pyoxigraph store, asked in SPARQL as a remote one would be.

The SERVICE pattern comes in its two parts: the static one says which SRs belong to an SN, the dynamic one what their
values are. Keys are pyoxigraph terms; their text is the library's own, so no key can change a query's meaning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, QuerySolution, QuerySolutions, Store

from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.service.endpoint import Copy, Expanded, Fetched, Key, Price
from freshkeeper.policies.errors import ConfigError, EndpointError

Term: TypeAlias = NamedNode | BlankNode | Literal
Row: TypeAlias = tuple[tuple[str, Term], ...]


@dataclass(eq=False)
class Embedded:
    """SERVICE { static . dynamic } over a store, with the variable that joins (`sn`) and the one that is refreshed."""

    store: Store
    static: str
    dynamic: str
    sn: str
    sr: str
    price: Price = field(default_factory=Price)
    requests: int = 0

    def __post_init__(self) -> None:
        """Find mistakes in the patterns now, not at the first evaluation."""
        try:
            self._ask(f"SELECT * WHERE {{ {self.static} . {self.dynamic} }} LIMIT 0")
        except SyntaxError as error:
            raise ConfigError(f"the SERVICE pattern is no SPARQL: {error}") from error
        for name in (self.sn, self.sr):
            if not name.isidentifier():
                raise ConfigError(f"{name!r} is no variable name; give it without the question mark")

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """Requests of `batch` keys each; a value is the rows of the other variables, in a fixed order."""
        del now
        batches = [keys[n : n + self.price.batch] for n in range(0, len(keys), self.price.batch)]
        found: dict[Key, list[Row]] = {}
        for batch in batches:
            for row in self._request(f"SELECT * WHERE {{ {_values(self.sr, batch)} {self.dynamic} }}"):
                found.setdefault(row[self.sr], []).append(_rest(row, {self.sr}))
        return Fetched([_copy(found.get(key, [])) for key in keys], self.price.of(len(keys)), len(batches))

    def expand(self, sn: Key, now: int) -> Expanded:
        """One request for the whole pattern."""
        del now
        found: dict[Key, list[Row]] = {}
        for row in self._request(f"SELECT * WHERE {{ {_values(self.sn, [sn])} {self.static} . {self.dynamic} }}"):
            found.setdefault(row[self.sr], []).append(_rest(row, {self.sn, self.sr}))
        copies = {key: _copy(rows) for key, rows in found.items()}
        return Expanded(copies, self.price.of(1), 1)

    def _request(self, query: str) -> list[dict[str, Term]]:
        self.requests += 1
        return self._ask(query)

    def _ask(self, query: str) -> list[dict[str, Term]]:
        solutions = self.store.query(sound(query))
        if not isinstance(solutions, QuerySolutions):
            raise EndpointError("the SERVICE pattern did not give solutions")
        names = [variable.value for variable in solutions.variables]
        return [_named(names, solution) for solution in solutions]


def _named(names: list[str], solution: QuerySolution) -> dict[str, Term]:
    return {name: solution[name] for name in names if solution[name] is not None}


def _rest(row: dict[str, Term], known: set[str]) -> Row:
    return tuple((name, row[name]) for name in sorted(row) if name not in known)


def _copy(rows: list[Row]) -> Copy:
    """The order in which a store gives rows means nothing, so it must not look like a change."""
    return Copy(tuple(sorted(rows, key=str)))


def _values(name: str, keys: Sequence[Key]) -> str:
    return f"VALUES ?{name} {{ {' '.join(_text(key) for key in keys)} }}"


def _text(key: Key) -> str:
    if not isinstance(key, NamedNode | Literal):
        raise EndpointError(f"{key!r} cannot be asked for: a key must be an IRI or a literal of pyoxigraph")
    return str(key)
