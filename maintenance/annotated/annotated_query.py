"""Queries over sources whose triples state how long they hold: the current answers, and until when they hold.

A query is split by its predicates. Dynamic predicates have triples with a time; they are found by requests, once, or
given by the user. Static fragments are fetched once and kept. The dynamic triples that hold now, by their source's
clock, are added to the static ones, and the original query is evaluated on both. Its answers stay the same until the
first triple ends or another one begins. Several sources are queried as if they were one; their times are converted to
the clock of the first source.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pyoxigraph import DefaultGraph, NamedNode, Quad, QuerySolutions, Store

from freshkeeper.maintenance.annotated.annotated_patterns import (
    PredicateSplit,
    fragment_queries,
    open_in,
    predicates_in,
)
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource, StaticFragments
from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.cache.budget.ledger import Ledger
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.source_text import SourceText
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, tokenize
from freshkeeper.maintenance.query.syntax.tree import GraphBlock, Select, ServiceBlock
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    AnnotationEncoding,
    ReadElements,
    TimedTriple,
    read_elements,
)
from freshkeeper.maintenance.sources.fragments.needed_fragments import fetch_needed
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.sources.transport import Bound, Term


@dataclass(eq=False)
class FederatedReader:
    """Reads the fragments of all sources for one evaluation."""

    readers: Sequence[StaticFragments]
    quads_by_source: Sequence[dict[Quad, None]] = ()
    """the quads of each source"""
    federation: "FederatedReader | None" = field(default=None, repr=False)
    """the reader of all sources, if this one reads only one"""

    def __post_init__(self) -> None:
        self.quads_by_source = self.quads_by_source or [{} for _ in self.readers]

    @property
    def quads(self) -> bool:
        return any(reader.quads for reader in (self.federation or self).readers)

    def pages(self, pattern: QuadPattern) -> float:
        """Return how many requests a fragment needs over all sources."""
        return sum(reader.pages(pattern) for reader in self.readers if _can_have(reader, pattern))

    def has(self, pattern: QuadPattern) -> bool:
        return all(reader.has(pattern) for reader in self.readers if _can_have(reader, pattern))

    def read_all(self, pattern: QuadPattern) -> list[Quad]:
        """Return the fragment from all sources.

        For an open graph only named graphs, as GRAPH does not match the default.
        """
        every = []
        for reader, found in zip(self.readers, self.quads_by_source, strict=True):
            quads = reader.read_all(pattern) if _can_have(reader, pattern) else []
            if not reader.quads:
                quads = [Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
            elif pattern.graph is None:
                quads = [quad for quad in quads if not isinstance(quad.graph_name, DefaultGraph)]
            found.update(dict.fromkeys(quads))
            every += quads
        return every

    def service(self, address: str) -> "FederatedReader | None":
        """Return a reader of only the source at this address, or None."""
        every = self.federation or self
        for reader, found in zip(every.readers, every.quads_by_source, strict=True):
            if reader.start == address:
                return FederatedReader([reader], [found], every)
        return None


def _can_have(reader: StaticFragments, pattern: QuadPattern) -> bool:
    """Return True if a source may have quads of a fragment: without graphs it has the default graph only."""
    return reader.quads or isinstance(pattern.graph, DefaultGraph)


def tree_of(query: str, addresses: Sequence[str]) -> Select:
    """Return the syntax tree of a query over the sources at these addresses.

    Raise an error if it cannot be followed.
    """
    try:
        if not isinstance(Store().query(query), QuerySolutions):
            raise InputError("the query is not a SELECT query; only SELECT can be followed")
    except SyntaxError as error:
        raise InputError(f"the query is not valid SPARQL: {' '.join(str(error.msg).split())}") from None
    tokens = tokenize(query)
    tree = read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    if any(token.is_word("FROM") for token in tree.head):
        raise ConfigError("FROM is not supported: a query follows the whole of each --source")
    _check_services(tree, addresses)
    return tree


def services(tree: Select) -> frozenset[str]:
    return frozenset(e.iri for e in tree.deep() if isinstance(e, ServiceBlock) and e.iri is not None)


def as_graphs(tree: Select) -> str:
    """Return the query with GRAPH in place of SERVICE: one graph per source."""
    found = [e for e in tree.deep() if isinstance(e, ServiceBlock)]
    weaver, source = Weaver(tree.source.tokens.text), tree.source.tokens.text
    weaver.copy(0, len(source), [Edit(e.start, e.name.end, f"GRAPH <{e.iri}>") for e in found])
    return weaver.finish().text


def _check_services(tree: Select, addresses: Sequence[str]) -> None:
    found = [element for element in tree.deep() if isinstance(element, ServiceBlock)]
    for element in found:
        if element.iri not in addresses:
            raise ConfigError(
                f"SERVICE {element.name.text} is not a followed source: add it with --source; "
                f"there is {', '.join(addresses)}"
            )
        if any(isinstance(each, GraphBlock) for each in element.walk()):
            raise ConfigError(f"{element.flat[:80]}: GRAPH is not supported inside SERVICE")
    if found and any(isinstance(e, GraphBlock) and e.name.kind is TokenKind.VAR for e in tree.deep()):
        raise ConfigError("GRAPH with a variable is not supported beside SERVICE: name the graph")


MAX_READS = 3
"""Reads per evaluation: pages of one answer may have been read before and after a change."""


@dataclass(frozen=True)
class CurrentAnswers:
    """The answers of one evaluation, and the interval during which they hold by the source's clock."""

    at: int
    since: int
    until: int
    rows: list[Bound]
    requests: int
    gap: bool = False
    """no dynamic triple holds"""
    odd: tuple[str, ...] = ()
    """annotations that are inconsistent or incomplete"""


@dataclass(eq=False)
class AnnotatedQuery:
    """A query over the union of its sources."""

    sources: Sequence[AnnotatedSource]
    text: str
    dynamic: frozenset[NamedNode] | None = None
    """the dynamic predicates, if given by the user"""
    ledger: Ledger | None = None
    """the budget of evaluations; None: unlimited"""
    repeated_reads: int = 0
    """evaluations that were repeated because something ended while reading"""
    _tree: Select = field(init=False)

    def __post_init__(self) -> None:
        self._tree = tree_of(self.text, [source.client.url for source in self.sources])

    @property
    def requests(self) -> int:
        return sum(source.requests.sent for source in self.sources)

    def now(self) -> int:
        return round(self.sources[0].client.wall() * 1000) + self.sources[0].ahead

    def latest(self) -> int:
        return self.now() + max(source.ahead_at_most - source.ahead for source in self.sources)

    def parts(self) -> PredicateSplit:
        """Return the split of the query, using some requests per source and predicate unless it is given."""
        every = (source.find_style(self._pay) for source in self.sources)
        styles = tuple(dict.fromkeys(style for style in every if style is not None))
        self._check_graphs()
        named, open_ = predicates_in(self._tree), open_in(self._tree)
        if self.dynamic is not None:
            changing = named & self.dynamic
            return PredicateSplit(changing, named - changing, changing, styles, open_)
        pairs = list(zip(self.sources, self._readers(frozenset()), strict=True))
        dynamic, mixed = set[NamedNode](), set[NamedNode]()
        for predicate in sorted(named, key=str):
            told = [source.annotates(predicate, reader) for source, reader in pairs]
            timed = any(has_times for has_times, _ in told)
            plain = any(has_none for _, has_none in told)
            if timed or not plain:
                dynamic.add(predicate)
            if timed == plain:
                mixed.add(predicate)
        return PredicateSplit(frozenset(dynamic), named - dynamic, frozenset(mixed & dynamic), styles, open_)

    def evaluate(self, parts: PredicateSplit) -> CurrentAnswers:
        before, texts = self.requests, self.queries(parts)
        for _ in range(MAX_READS):
            began = self.now()
            every = FederatedReader(self._readers(parts.static))
            for text in texts:
                fetch_needed(text, every, more=True)
            reads = self._read(every)
            at = self.now()
            held = [one for read in reads for one in read.elements]
            # Pages read before the end may not contain what followed; read again.
            if any(began < one.until <= at for one in held):
                self.repeated_reads += 1
            elif any(one.since <= at < one.until for one in held) or not self._forgot():
                break
        for source, found in zip(self.sources, every.quads_by_source, strict=True):
            source.keep_ended(found, at - self.sources[0].ahead + source.ahead)
        rows = _rows(as_graphs(self._tree), self._data(reads, at))
        since, until = _interval(held, at)
        gap = parts.changing and not any(one.since <= at < one.until for one in held)
        odd = tuple(said for read in reads for said in read.odd)
        return CurrentAnswers(
            at=at, since=since, until=until, rows=rows, requests=self.requests - before, gap=gap, odd=odd
        )

    def queries(self, parts: PredicateSplit) -> list[str]:
        return fragment_queries(self._tree, parts)

    def _data(self, reads: Sequence[ReadElements], at: int) -> Iterable[Quad]:
        """Yield what holds now at any source; for sources that a SERVICE refers to also in a graph of their own."""
        alone = services(self._tree)
        for source, read in zip(self.sources, reads, strict=True):
            holding = (Quad(*_terms(one)) for one in read.elements if one.since <= at < one.until)
            data = [*read.plain, *holding]
            yield from data
            if source.client.url in alone:
                graph = NamedNode(source.client.url)
                yield from (Quad(quad.subject, quad.predicate, quad.object, graph) for quad in data)

    def _check_graphs(self) -> None:
        """Refuse GRAPH if a source annotates by graphs, as its graphs cannot be told from those of the data."""
        speaking = [
            source for source in self.sources if source.style and source.style.speaking is AnnotationEncoding.GRAPH
        ]
        asks = next((element for element in self._tree.deep() if isinstance(element, GraphBlock)), None)
        if asks is not None and speaking:
            raise ConfigError(
                f"{asks.flat[:80]}: {mask_secrets(speaking[0].client.url)} uses graphs "
                "to annotate triples with times, so they are not part of the data: query it without GRAPH"
            )

    def _forgot(self) -> bool:
        """Discard what was assumed to be over; return True if there was any."""
        forgotten = [source.forget_ended() for source in self.sources]
        return any(forgotten)

    def _readers(self, static: frozenset[NamedNode]) -> list[StaticFragments]:
        return [source.reader(static, self._pay) for source in self.sources]

    def _pay(self, cost: float) -> bool:
        if self.ledger is None:
            return True
        if self.ledger.available < cost:
            return False
        self.ledger.spend(cost)
        return True

    def _read(self, every: FederatedReader) -> list[ReadElements]:
        """Return what was read from each source, with times converted to the first source's clock."""
        reads = []
        for source, reader, quads in zip(self.sources, every.readers, every.quads_by_source, strict=True):
            shift = self.sources[0].ahead - source.ahead
            if source.style is None:
                reads.append(ReadElements([], list(quads), []))
                continue
            read = read_elements(quads, source.style, reader.form().address)
            reads.append(replace(read, elements=[_shifted(held, shift) for held in read.elements]))
        return reads


def _terms(held: TimedTriple) -> tuple[NamedNode, NamedNode, Term]:
    return held.triple.subject, held.triple.predicate, held.triple.object  # type: ignore[return-value]


def _shifted(held: TimedTriple, shift: int) -> TimedTriple:
    """Return the element by a clock that is `shift` milliseconds ahead; unbounded ends stay unbounded."""
    since = held.since if held.since == DISTANT_PAST else held.since + shift
    return replace(held, since=since, until=held.until if held.until == DISTANT_FUTURE else held.until + shift)


def _rows(query: str, quads: Iterable[Quad]) -> list[Bound]:
    store = Store()
    store.extend(quads)
    return bounded(lambda: store.query(rewrite_for_pyoxigraph(query)))


def _interval(held: Iterable[TimedTriple], at: int) -> tuple[int, int]:
    """Return when the last element began or ended before `at`, and when the next one does."""
    since, until = DISTANT_PAST, DISTANT_FUTURE
    for one in held:
        for change in (one.since, one.until):
            since, until = (max(since, change), until) if change <= at else (since, min(until, change))
    return since, until
