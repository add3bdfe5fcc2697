"""Matches thousands of conjunctive patterns over streams together; reports every new solution by query name.

Queries over equal windows share an automaton (`automaton.py`); different windows read the same elements.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import TypeAlias

from pyoxigraph import Quad, Triple

from freshkeeper.maintenance.base.errors import ConfigError, TimeError, nearest
from freshkeeper.maintenance.engine.automaton.conjunction import Conjunction, refusal
from freshkeeper.maintenance.engine.automaton.pattern_window import PatternWindow, RegisteredPattern, WindowMatches
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns, columns_of
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.model import Query, WindowKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.streams.batch import Batch, Elements, TimedElements
from freshkeeper.maintenance.streams.inputs import Inputs

MAX_SOLUTIONS = 1_000_000
StreamElements: TypeAlias = TimedElements | Iterable[tuple[int, Triple | Quad]]
"""Elements of a stream: a batch of quads or columns, or pairs of (milliseconds, triple)."""
PatternQuery: TypeAlias = Conjunction | Query | str
"""A query: a conjunction, a parsed query, or its text."""
WindowKey: TypeAlias = tuple[str, WindowKind, int]
"""Stream, kind and range of a window."""


@dataclass(frozen=True, eq=False)
class Matches:
    """The new solutions that some elements make; terms are decoded on demand."""

    parts: tuple[WindowMatches, ...] = ()
    """one per window"""

    def __len__(self) -> int:
        """Return the number of solutions, counting one for every query that has it."""
        return sum(part.count for part in self.parts)

    def counts(self) -> dict[str, int]:
        """Return the number of solutions per query, for queries that have any."""
        return {name: count for part in self.parts for name, count in part.counts().items()}

    def results(self) -> Iterator[Result]:
        """Yield the solutions as results of continuous queries, by time and then in order of registration."""
        return merge(*(part.results() for part in self.parts), key=lambda result: result.t)


@dataclass(eq=False)
class PatternSet:
    """Conjunctive queries that are matched together and can be added and removed at any time.

    >>> from pyoxigraph import NamedNode, Triple
    >>> from freshkeeper import PatternSet
    >>> hot = '''PREFIX : <urn:> SELECT * { STREAM :s [TRIPLES 100] { ?sensor :in ?room ; :shows :heat } }'''
    >>> a, room, kitchen, shows, heat = (NamedNode(f"urn:{n}") for n in ("a", "in", "kitchen", "shows", "heat"))
    >>> patterns = PatternSet.of({"hot": hot})
    >>> found = patterns.feed([(1000, Triple(a, room, kitchen)), (2000, Triple(a, shows, heat))])
    >>> [(result.query, result.t, result.variables, len(result.answers)) for result in found.results()]
    [('hot', 2000, ('room', 'sensor'), 1)]
    """

    dictionary: Dictionary = field(default_factory=Dictionary)
    most: int = MAX_SOLUTIONS
    """the maximum number of solutions per element; a query with more is removed without delivering them"""
    cut: list[str] = field(default_factory=list)
    """names of queries that were removed because of `most`"""
    _windows: dict[WindowKey, PatternWindow] = field(default_factory=dict)
    _members: dict[str, tuple[RegisteredPattern, WindowKey]] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    """number of elements so far, by every stream that any query has read"""
    _latest: dict[str, int] = field(default_factory=dict)
    """by stream: elements before this time are no longer accepted"""
    _ranks: int = 0

    @classmethod
    def of(
        cls, queries: Mapping[str, PatternQuery], dictionary: Dictionary | None = None, most: int = MAX_SOLUTIONS
    ) -> "PatternSet":
        """Create a set of named queries; raise ConfigError for the first that is not a conjunction."""
        made = cls(Dictionary() if dictionary is None else dictionary, most)
        made.register_all(queries)
        return made

    @staticmethod
    def refusal(query: Query) -> str | None:
        """Return why a query cannot be in a pattern set, or None if it can."""
        return refusal(query)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all queries, in order of registration."""
        return tuple(self._members)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that any query reads."""
        return tuple(dict.fromkeys(stream for stream, _, _ in self._windows))

    def register(self, name: str, query: PatternQuery) -> None:
        """Add a query. A solution is new when its last triple arrives, also if the window held the others before."""
        self.register_all({name: query})

    def register_all(self, queries: Mapping[str, PatternQuery]) -> None:
        """Add several queries, or none if one of them is refused."""
        read = {name: self._read_query(name, query) for name, query in queries.items()}
        with self.dictionary.lock:
            terms = list(frozenset().union(*(query.terms for query in read.values())))
            ids = dict(zip(terms, self.dictionary.encode(terms).tolist(), strict=True))
            for name, query in read.items():
                self._add(name, query, ids)

    def _read_query(self, name: str, query: PatternQuery) -> Conjunction:
        if name in self._members:
            raise ConfigError(f"there is already a query {name!r}; choose another name or remove the old one")
        if isinstance(query, Conjunction):
            return query
        try:
            return Conjunction.of(parse(query) if isinstance(query, str) else query)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None

    def _add(self, name: str, query: Conjunction, ids: Mapping[Term, int]) -> None:
        window = query.window
        key = window.stream, window.kind, window.range or 0
        if key not in self._windows:
            first = self.arrived.setdefault(window.stream, 0)
            self._windows[key] = PatternWindow(window, self.dictionary, self.most, first=first)
        self._members[name] = self._windows[key].add(name, self._ranks, query, ids), key
        self._ranks += 1

    def remove(self, name: str) -> None:
        """Remove a query; a window without queries forgets its content."""
        if name not in self._members:
            if self._members:
                known = f": {nearest(name, list(self._members))}"
            else:
                known = ""
            raise ConfigError(f"there is no query {name!r}{known}")
        member, key = self._members.pop(name)
        self._windows[key].remove(member)
        self._forget_empty(key)

    def prepare(self) -> None:
        """Build the automata now instead of at the next element."""
        for window in self._windows.values():
            window.prepare()

    def feed(self, arrivals: StreamElements, stream: str = "") -> Matches:
        """Match elements of a stream, in time order. `stream` may be omitted if there is only one.

        A time window handles all elements of an instant together: solutions of the last instant are returned once a
        later element arrives, or `advance` ends the instant. The size of batches does not affect the solutions.
        """
        name = self._stream(stream)
        columns = self._columns(arrivals)
        if not len(columns):
            return Matches()
        self._check(name, columns)
        self.arrived[name] += len(columns)
        self._latest[name] = int(columns.times[-1])
        return self._read([key for key in self._windows if key[0] == name], lambda window: window.feed(columns))

    def advance(self, until: int | None = None) -> Matches:
        """Declare all instants before `until` complete; without it, those of all elements so far."""
        for name, latest in self._latest.items():
            if until is None:
                self._latest[name] = latest + 1
            else:
                self._latest[name] = max(latest, until)
        return self._read(list(self._windows), lambda window: window.advance(self._latest.get(window.window.stream, 0)))

    def over(self, inputs: Inputs) -> Iterator[Matches]:
        """Read streams to their end in time order; yield the matches of every batch and free unused terms."""
        while (behind := inputs.next()) is not None:
            yield self.feed(behind.read(), behind.name)
            yield self.advance(inputs.watermark())
            self.dictionary.sweep()
        yield self.advance()

    def _read(self, keys: list[WindowKey], read: Callable[[PatternWindow], WindowMatches]) -> Matches:
        parts = []
        for key in keys:
            window = self._windows[key]
            parts.append(read(window))
            for member in window.cut:
                del self._members[member.name]
                self.cut.append(member.name)
            window.cut.clear()
            self._forget_empty(key)
        return Matches(tuple(parts))

    def _forget_empty(self, key: WindowKey) -> None:
        if not len(self._windows[key]):
            del self._windows[key]

    def _columns(self, arrivals: StreamElements) -> Columns:
        if not isinstance(arrivals, Iterable):
            return columns_of(arrivals, self.dictionary)
        items = list(arrivals)
        parts = list(Elements(items, max(1, len(items))).batches()) or [Batch([], [])]
        return columns_of(parts[0], self.dictionary)

    def _stream(self, name: str) -> str:
        known = list(self.arrived)
        if not name and len(known) == 1:
            return known[0]
        if not name and known:
            raise ConfigError(f"the queries read {len(known)} streams; name the stream of these elements: {known}")
        if name not in known:
            near = f": {nearest(name, known)}" if known else ""
            raise ConfigError(f"no query reads the stream <{name}>{near}" if name else "no query is registered")
        return name

    def _check(self, name: str, columns: Columns) -> None:
        first, latest = int(columns.times[0]), self._latest.get(name)
        if latest is not None and first < latest:
            raise TimeError(
                f"an element of <{name}> has time {first}, before {latest}, which was reached; sort the elements"
            )
        if not columns.ordered:
            raise TimeError(f"the elements of <{name}> are not in time order; sort them")
