"""Queries over a source whose triples say how long they hold: what is true now, and until when.

A query is split by its predicates: dynamic ones are those whose triples are spoken of with a time, which is found by
asking, once, or said by hand. Static fragments are asked for once and kept. Of the dynamic ones, those that hold now
by the source's clock are put beside the static triples, and the query is asked of that as it stands; it has the same
answers until the first of what was read ends, or another one begins.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, NamedNode, Quad, QuerySolutions, Store, Triple

from freshkeeper.maintenance.fragments.annotation_style import (
    BEGINNING,
    END,
    PREDICATE,
    REIFIES,
    SINGLETON,
    Held,
    Speaking,
    Style,
    read_elements,
)
from freshkeeper.maintenance.fragments.fragment_reader import FragmentReader
from freshkeeper.maintenance.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.fragments.needed_fragments import needed
from freshkeeper.maintenance.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.query.service_split import is_open
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.query.syntax.tree import Graph, Select, Service, Source, TriplePattern
from freshkeeper.maintenance.rsp.evaluator import Term
from freshkeeper.maintenance.service.bounds import bounded
from freshkeeper.maintenance.service.http.exchange import Deadline
from freshkeeper.maintenance.service.transport import Bound
from freshkeeper.policies.errors import ConfigError, InputError

TRIES = 3
"""Reads of one evaluation: pages of one answer may have been read before and after a change."""


@dataclass(frozen=True)
class Moment:
    """The answers of one evaluation, and when they hold by the source's word and clock."""

    at: int
    since: int
    until: int
    rows: list[Bound]
    requests: int
    gap: bool = False
    """whether there was nothing dynamic that holds"""
    odd: tuple[str, ...] = ()
    """annotations that make no sense, or that say nothing"""


@dataclass(frozen=True)
class Parts:
    """Which predicates of a query change; which of these have triples without a time as well."""

    dynamic: frozenset[NamedNode]
    static: frozenset[NamedNode]
    mixed: frozenset[NamedNode] = frozenset()


@dataclass(eq=False)
class AnnotatedSource:
    """One source, asked with annotations in one style."""

    client: FragmentsOverHttp
    style: Style = field(default_factory=Style)
    dynamic: frozenset[NamedNode] | None = None
    """predicates that change, where they are said by hand"""
    keep: bool = True
    """whether static fragments are asked for once"""
    timeout: float = 30.0
    requests: int = 0
    torn: int = 0
    """evaluations that were read again, because something ended meanwhile"""
    _kept: dict[QuadPattern, list[Quad]] = field(default_factory=dict)

    def now(self) -> int:
        """By the source's clock, in milliseconds."""
        return round((self.client.wall() + self.client.source_clock.ahead) * 1000)

    def latest(self) -> int:
        """What the source's clock may show at most."""
        return round((self.client.wall() + self.client.source_clock.ahead_at_most) * 1000)

    def parts(self, query: str) -> Parts:
        """The split; a request for each predicate and each way to be spoken of, where it is not said by hand."""
        named = frozenset(NamedNode(p) for e in _patterns(tree_of(query)) for p in e.predicates)
        if self.dynamic is not None:
            return Parts(named & self.dynamic, named - self.dynamic, named & self.dynamic)
        reader, dynamic, mixed = self._reader(frozenset()), set[NamedNode](), set[NamedNode]()
        for predicate in sorted(named, key=str):
            timed, plain = self._spoken_of(predicate, reader)
            dynamic |= {predicate} if timed else set()
            mixed |= {predicate} if timed and plain else set()
        return Parts(frozenset(dynamic), named - dynamic, frozenset(mixed))

    def evaluate(self, query: str, parts: Parts) -> Moment:
        """What is true now."""
        before, text = self.requests, self.asked(query, parts)
        for _ in range(TRIES):
            began, reader = self.now(), self._reader(parts.static)
            store = needed(text, reader)
            read = read_elements(store, self.style, reader.form().address)
            at = self.now()
            if not any(began < held.until <= at for held in read.held):
                break
            self.torn += 1
        holding = [held for held in read.held if held.since <= at < held.until]
        rows = _rows(query, [*read.plain, *(Quad(*_terms(held)) for held in holding)])
        since, until = _interval(read.held, at)
        gap = bool(parts.dynamic) and not holding
        return Moment(at, since, until, rows, self.requests - before, gap, tuple(read.odd))

    def asked(self, query: str, parts: Parts) -> str:
        """The query with every dynamic pattern where its annotations are: what fragments are asked for."""
        tree, edits = tree_of(query), list[Edit]()
        for number, element in enumerate(_patterns(tree)):
            found = {p for p in parts.dynamic if p.value in element.predicates}
            if found:
                mixed = bool(found & parts.mixed)
                texts = (element.source.text(*span) for span in element.spans)
                edits.append(Edit(element.start, element.end, self._written(element, texts, number, mixed)))
        weaver, source = Weaver(tree.source.tokens.text), tree.source.tokens.text
        weaver.copy(0, len(source), edits)
        return weaver.done().text

    def _written(self, element: TriplePattern, texts: Iterable[str], number: int, mixed: bool) -> str:
        if element.plain is None or not element.alone:
            raise ConfigError(f"write {element.flat} ... as triples of three terms each: its triples have times")
        subject, predicate, value = texts
        return f" {self.style.pattern(subject, predicate, value, number, mixed)} "

    def _spoken_of(self, predicate: NamedNode, reader: FragmentReader) -> tuple[bool, bool]:
        """Whether triples of a predicate have times, and whether some have none; where there are none, both may be."""
        plain = QuadPattern(predicate=predicate, graph=DefaultGraph())
        if self.style.speaking is Speaking.GRAPH:
            found = reader.whole(QuadPattern(predicate=predicate))
            graphs = {isinstance(quad.graph_name, DefaultGraph) for quad in found}
            if self.keep and False not in graphs:
                self._kept[plain] = found
            return False in graphs or not found, True in graphs
        if self.style.speaking in (Speaking.SINGLETON, Speaking.REIFICATION):
            says = SINGLETON if self.style.speaking is Speaking.SINGLETON else PREDICATE
            timed = reader.first(QuadPattern(predicate=says, object=predicate, graph=DefaultGraph())).quads
            there = reader.first(plain).quads
            return bool(timed) or not there, bool(there) or not timed
        if self.style.speaking is Speaking.STAR:
            spoken = reader.whole(QuadPattern(predicate=REIFIES, graph=DefaultGraph()))
            timed_too = any(isinstance(q.object, Triple) and q.object.predicate == predicate for q in spoken)
            return timed_too or not reader.first(plain).quads, False
        found = reader.whole(plain)
        marks = (reader.form().address(QuadPattern(q.subject, q.predicate, q.object)) for q in found[:1])
        said = (reader.first(QuadPattern(subject=NamedNode(mark), graph=DefaultGraph())).quads for mark in marks)
        return not found or any(said), False

    def _reader(self, static: frozenset[NamedNode]) -> FragmentReader:
        def go() -> bool:
            self.requests += 1
            return True

        deadline = Deadline(self.client.pool.clock() + self.timeout, go)
        plain = self.client.reader(0, deadline)
        if not self.keep:
            return plain
        given = (plain.start, plain.ask, plain.counts, plain.most, plain.allowed)
        return KeptFragments(*given, kept=self._kept, static=static)


def tree_of(query: str) -> Select:
    """The tree of a query that can be asked here; an error says what cannot."""
    try:
        if not isinstance(Store().query(query), QuerySolutions):
            raise InputError("the query has no SELECT: what is asked again whenever it expires is a SELECT query")
    except SyntaxError as error:
        raise InputError(f"the query is no SPARQL: {' '.join(str(error.msg).split())}") from None
    tokens = tokenize(query)
    tree = read_query(Source(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    for element in tree.deep():
        if isinstance(element, Graph | Service):
            raise ConfigError(f"{element.flat[:80]}: a query over one source with annotations has no GRAPH or SERVICE")
    return tree


def _patterns(tree: Select) -> list[TriplePattern]:
    """Its triple patterns, each with predicates that are named."""
    found = [element for element in tree.deep() if isinstance(element, TriplePattern)]
    for element in found:
        if is_open(element):
            raise ConfigError(f"name the predicate of {element.flat}: whether it changes is asked of each predicate")
    return found


def _terms(held: Held) -> tuple[NamedNode, NamedNode, Term]:
    return held.triple.subject, held.triple.predicate, held.triple.object  # type: ignore[return-value]


def _rows(query: str, quads: Iterable[Quad]) -> list[Bound]:
    store = Store()
    store.extend(quads)
    found = store.query(sound(query))
    assert isinstance(found, QuerySolutions)
    return bounded(found)


def _interval(held: Iterable[Held], at: int) -> tuple[int, int]:
    """Since the last one came or went, until the next one does."""
    since, until = BEGINNING, END
    for one in held:
        for change in (one.since, one.until):
            since, until = (max(since, change), until) if change <= at else (since, min(until, change))
    return since, until


@dataclass(eq=False)
class KeptFragments(FragmentReader):
    """A reader that asks for fragments of what does not change once, in all evaluations together."""

    kept: dict[QuadPattern, list[Quad]] = field(default_factory=dict)
    static: frozenset[NamedNode] = frozenset()

    def pages(self, pattern: QuadPattern) -> float:
        """None for what is kept."""
        return 0 if pattern in self.kept else super().pages(pattern)

    def whole(self, pattern: QuadPattern) -> list[Quad]:
        """All of it."""
        if pattern not in self.kept:
            found = super().whole(pattern)
            if pattern.predicate not in self.static:
                return found
            self.kept[pattern] = found
        return self.kept[pattern]
