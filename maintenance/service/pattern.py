"""A SERVICE pattern behind the Endpoint seam: keys are tuples of terms, requests are the queries of its split.

How a query reaches the source is somebody else's business: `Ask` is a function from SPARQL text to rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from maintenance.query.errors import SplitError
from maintenance.query.split import THERE, Split
from maintenance.service.endpoint import Copy, Expanded, Fetched, Key, Price
from policies.errors import ConfigError, EndpointError

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Bound: TypeAlias = Mapping[str, Term]
"""One solution: what is unbound is not there."""
Terms: TypeAlias = tuple[Term | None, ...]


class Ask(Protocol):
    """Ask a source; EndpointError says that it did not answer."""

    def __call__(self, query: str, now: int) -> list[Bound]:
        """The solutions of a SELECT query at an instant."""
        ...


@dataclass(eq=False)
class PatternEndpoint:
    """One SERVICE pattern of one source; it remembers the edges of every SN that was fetched, with all they bind."""

    split: Split
    ask: Ask
    price: Price = field(default_factory=Price)
    batch: int = 1
    """keys per request"""
    requests: int = 0
    edges: dict[Key, dict[Terms, list[Terms]]] = field(default_factory=dict)
    """per SN and key, the rows of the static part"""

    def __post_init__(self) -> None:
        """A request without keys is none."""
        if self.batch < 1:
            raise ConfigError(f"a request holds at least 1 key, so batch cannot be {self.batch}")

    @property
    def edge(self) -> tuple[str, ...]:
        """The variables of an edge."""
        return self.split.edge or self.split.sn

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a whole row: edge, key, values."""
        return tuple(dict.fromkeys((*self.edge, *self.split.key, *self.split.values)))

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """Refresh queries of `batch` keys each; a value is the rows of the SR's other variables."""
        copies: list[Copy] = []
        spent = 0.0
        batches = [keys[n : n + self.batch] for n in range(0, len(keys), self.batch)]
        for batch in batches:
            copies += self._refresh([key for key in batch if isinstance(key, tuple)], now)
            spent += self.price.per_request + len(batch) * self.price.per_key
        return Fetched(copies, spent, len(batches))

    def expand(self, sn: Key, now: int) -> Expanded:
        """One request for all that belongs to an SN."""
        assert isinstance(sn, tuple)
        spent = self.price.per_request + self.price.per_key
        try:
            rows = self._ask(self.split.expand_query([sn]), now)
        except (EndpointError, SplitError) as error:
            return Expanded({}, spent, 1, str(error))
        return Expanded(self._learn(sn, rows), spent, 1)

    def rows(self, sn: Key, key: Key, value: object) -> list[Terms]:
        """The SERVICE pattern's solutions for one edge and one copy, over `variables`."""
        assert isinstance(key, tuple)
        assert isinstance(value, tuple)
        known = dict(zip(self.split.key, key, strict=True))
        found = []
        for edge in self.edges.get(sn, {}).get(key, ()):
            bound = known | dict(zip(self.edge, edge, strict=True))
            start = tuple(bound[name] for name in self.variables[: len(bound)])
            found += [(*start, *row) for row in value]
        return found

    def forget(self, sns: Mapping[Key, int]) -> None:
        """Keep the edges of these SNs alone."""
        if len(self.edges) > 2 * len(sns) + 1_000:
            self.edges = {sn: edges for sn, edges in self.edges.items() if sn in sns}

    def _refresh(self, keys: list[Terms], now: int) -> list[Copy]:
        try:
            rows = self._ask(self.split.refresh_query(keys), now)
        except (EndpointError, SplitError) as error:
            return [Copy(error=str(error)) for _ in keys]
        found: dict[Terms, list[Terms]] = {key: [] for key in keys}
        for row in rows:
            key = _over(row, self.split.key)
            if key in found:
                found[key].append(_over(row, self.split.values))
        return [_copy(found[key]) for key in keys]

    def _learn(self, sn: Terms, rows: list[Bound]) -> dict[Key, Copy]:
        edges: dict[Terms, list[Terms]] = {}
        values: dict[Terms, list[Terms]] = {}
        for row in rows:
            key, edge = _over(row, self.split.key), _over(row, self.edge)
            if edge not in edges.setdefault(key, []):
                edges[key].append(edge)
            value = _over(row, self.split.values)
            if THERE in row and value not in values.setdefault(key, []):
                values[key].append(value)
        if self.split.one_to_one and not edges:
            edges = {tuple(sn[self.split.sn.index(name)] for name in self.split.key): [sn]}
        self.edges[sn] = edges
        return {key: _copy(values.get(key, [])) for key in edges}

    def _ask(self, query: str, now: int) -> list[Bound]:
        self.requests += 1
        return self.ask(query, now)


def _over(row: Bound, names: Sequence[str]) -> Terms:
    return tuple(row.get(name) for name in names)


def _copy(rows: list[Terms]) -> Copy:
    """The order in which a source gives rows means nothing, so it must not look like a change."""
    return Copy(tuple(sorted(rows, key=str)))
