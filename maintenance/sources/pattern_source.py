"""A SERVICE pattern as a source of keys: keys are tuples of terms, requests are the queries of its split."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, TypeAlias, cast

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded, Key, Price
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import FetchReply, FetchRequest, Outcome
from freshkeeper.maintenance.query.service_split import EDGE_COUNT, SR_EXISTS, Split
from freshkeeper.maintenance.sources.annotations import valid
from freshkeeper.maintenance.sources.transport import Bound, GraphQuery, Solutions, Term, Terms, Transport

NO_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\]")
"""Characters that would end an IRI in a query, or change what follows it."""
MAX_EDGES_PER_REPLY = 1_000_000
UNREAD = Copy(error="not sent: its document was not read with those that lead to it")


def pattern_fetcher(
    split: Split,
    transport: Transport,
    price: Price | None = None,
    *,
    within: float = math.inf,
    price_of_misses: Price | None = None,
    learns_pages: bool = False,
) -> "PatternFetcher":
    """Return the fetcher of one SERVICE pattern, whose orders wait at most `within` seconds for the source."""
    return KeyFetcher(
        PatternSource(split, transport),
        price or Price(),
        transport.executor,
        price_of_misses=price_of_misses,
        within=within,
        problem=problem_of,
        learns_pages=learns_pages,
    )


@dataclass(eq=False)
class PatternSource:
    """A SERVICE pattern of a source; it remembers the edges of every lookup key that was fetched."""

    split: Split
    transport: Transport
    differs: ClassVar[str] = "--volatile or the source has changed"
    edges: dict[Key, dict[Terms, list[Terms]]] = field(default_factory=dict)
    """per SN and key, the rows of the static part"""

    @property
    def identity(self) -> str:
        """The queries: with others a view is another one."""
        return json.dumps([self.split.expand_query(), self.split.refresh_query()])

    @property
    def limits(self) -> RateLimiter | None:
        dispatcher = self.transport.dispatcher
        if dispatcher is None:
            return None
        return dispatcher.limiter

    @property
    def edge(self) -> tuple[str, ...]:
        return self.split.edge or self.split.sn

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a whole row: edge, key, values."""
        return tuple(dict.fromkeys((*self.edge, *self.split.key, *self.split.values)))

    def fetch(self, request: FetchRequest) -> FetchReply:
        """Ask the query of these keys; the reply is read by the thread that gave the order, as it changes the edges."""
        keys = cast("tuple[Terms, ...]", tuple(request.keys))
        if request.kind is Kind.MISS:
            query = GraphQuery(self.split.expand_query(keys), self.split.sn, keys, expands=True)
        else:
            query = GraphQuery(self.split.refresh_query(keys), self.split.key, keys, expands=False)
        solutions = self.transport.service.select(query, request.now, request.deadline)
        return FetchReply(partial(self._read, query, solutions, request.now))

    def rows(self, sn: Key, key: Key, value: object) -> list[Terms]:
        """Return the SERVICE pattern's solutions for one edge and one copy, over `variables`."""
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
        if len(self.edges) > 2 * len(sns) + 1_000:
            self.edges = {sn: edges for sn, edges in self.edges.items() if sn in sns}

    def _read(self, query: GraphQuery, found: Solutions, now: int) -> Sequence[Outcome]:
        if query.expands:
            _check_times(found)
            return [self._learn(sn, query, found, now) for sn in query.keys]
        by_key: dict[Terms, list[Bound]] = {key: [] for key in query.keys}
        for row in found.rows:
            key = _over(row, self.split.key)
            if key in by_key:
                by_key[key].append(row)
        return [self._copy(by_key[key], found, now) for key in query.keys]

    def _learn(self, sn: Terms, query: GraphQuery, found: Solutions, now: int) -> Expanded:
        edges: dict[Terms, list[Terms]] = {}
        values: dict[Terms, list[Bound]] = {}
        for row in found.rows:
            if len(query.keys) > 1 and _over(row, self.split.sn) != sn:
                continue
            key, edge = _over(row, self.split.key), _over(row, self.edge)
            known = edges.setdefault(key, [])
            if edge not in known:
                known += [edge] * _times(row)
            if SR_EXISTS in row and edge == known[0]:  # with every edge of a key come all its values again
                values.setdefault(key, []).append(row)
        if self.split.one_to_one and not edges:
            edges = {tuple(sn[self.split.sn.index(name)] for name in self.split.key): [sn]}
        self.edges[sn] = edges
        copies: dict[Key, Copy] = {key: self._copy(values.get(key, ()), found, now) for key in edges}
        if found.resources_read is not None:
            copies |= {key: UNREAD for key in edges if key not in values and not found.resources_read.intersection(key)}
        return Expanded(copies)

    def _copy(self, rows: Sequence[Bound], found: Solutions, now: int) -> Copy:
        """Return the copy of a key, with its rows sorted: another order must not look like a change."""
        kept, told = valid(rows, self.split.validity_variables, now)
        modified = found.modified if told.modified == UNKNOWN else told.modified
        expires = found.expires if told.expires == UNKNOWN else told.expires
        return Copy(tuple(sorted((_over(row, self.split.values) for row in kept), key=str)), modified, expires)


PatternFetcher: TypeAlias = KeyFetcher[PatternSource]


def problem_of(key: Key) -> str | None:
    """Return why a key cannot be asked for, if it cannot."""
    assert isinstance(key, tuple)
    return _problem(key)


def _problem(terms: Iterable[Term | None]) -> str | None:
    for term in terms:
        if isinstance(term, BlankNode):
            return f"not sent: {term} is a blank node: it means nothing to another source, and cannot be a key"
        iri = ""
        if isinstance(term, Triple):
            problem = _problem((term.subject, term.predicate, term.object))
            if problem:
                return problem
        elif isinstance(term, NamedNode):
            iri = term.value
        elif isinstance(term, Literal):
            iri = term.datatype.value
        if NO_IRI.search(iri):
            return f"not sent: {iri!r} is no IRI, and cannot be a key"  # lenient parsers let them through
    return None


def _check_times(found: Solutions) -> None:
    """Raise FetchError where rows stand for more edges than memory may hold: a large number is quickly written."""
    edges = sum(map(_times, found.rows))
    if edges > MAX_EDGES_PER_REPLY:
        raise FetchError(f"too large: the answer stands for {edges} edges, and {MAX_EDGES_PER_REPLY} are read")


def _times(row: Bound) -> int:
    found = row.get(EDGE_COUNT)
    if isinstance(found, Literal):
        return int(found.value)
    return 1


def _over(row: Bound, names: Sequence[str]) -> Terms:
    return tuple(row.get(name) for name in names)
