"""Queries over sources whose triples say how long they hold: what is true now, and until when.

A query is split by its predicates: dynamic ones are those whose triples are spoken of with a time, which is found by
asking, once, or said by hand. Static fragments are asked for once and kept. Of the dynamic ones, those that hold now
by their source's clock are put beside the static triples, and the query is asked of that as it stands; it has the same
answers until the first of what was read ends, or another one begins. Of several sources the query is asked as if they
were one; their times are brought to the clock of the first one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from pyoxigraph import DefaultGraph, NamedNode, Quad, QuerySolutions, Store

from freshkeeper.maintenance.budget.ledger import Ledger
from freshkeeper.maintenance.fragments.annotated_source import AnnotatedSource, KeptFragments
from freshkeeper.maintenance.fragments.annotation_style import BEGINNING, END, Held, Read, Style, read_elements
from freshkeeper.maintenance.fragments.needed_fragments import as_sparql, needed
from freshkeeper.maintenance.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.query.service_split import is_open
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.query.syntax.tree import Graph, Path, Select, Service, Source, TriplePattern
from freshkeeper.maintenance.query.syntax.tree import Triple as TripleOfTree
from freshkeeper.maintenance.service.bounds import bounded
from freshkeeper.maintenance.service.transport import Bound, Term
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
    styles: tuple[Style, ...] = ()
    """how the sources say it"""


@dataclass(eq=False)
class AnnotatedQuery:
    """One query, over the sources together."""

    sources: Sequence[AnnotatedSource]
    text: str
    dynamic: frozenset[NamedNode] | None = None
    """predicates that change, where they are said by hand"""
    ledger: Ledger | None = None
    """what an evaluation may cost; None: whatever it takes"""
    torn: int = 0
    """evaluations that were read again, because something ended meanwhile"""
    _predicates: frozenset[NamedNode] = field(init=False)

    def __post_init__(self) -> None:
        patterns = _patterns(tree_of(self.text))
        self._predicates = frozenset(NamedNode(p) for element in patterns for p in element.predicates)

    @property
    def requests(self) -> int:
        """So far, of all sources."""
        return sum(source.requests.sent for source in self.sources)

    def now(self) -> int:
        """By the first source's clock, in milliseconds."""
        return round(self.sources[0].client.wall() * 1000) + self.sources[0].ahead

    def latest(self) -> int:
        """What the clock of any may show at most."""
        return self.now() + max(source.ahead_at_most - source.ahead for source in self.sources)

    def parts(self) -> Parts:
        """The split; some requests for each source and each predicate, where it is not said by hand."""
        every = (source.found_style(self._pay) for source in self.sources)
        styles = tuple(dict.fromkeys(style for style in every if style is not None))
        if self.dynamic is not None:
            changing = self._predicates & self.dynamic
            return Parts(changing, self._predicates - changing, changing, styles)
        pairs = list(zip(self.sources, self._readers(frozenset()), strict=True))
        dynamic, mixed = set[NamedNode](), set[NamedNode]()
        for predicate in sorted(self._predicates, key=str):
            told = [source.spoken_of(predicate, reader) for source, reader in pairs]
            timed, plain = any(each[0] for each in told), any(each[1] for each in told)
            dynamic |= {predicate} if timed or not plain else set()
            mixed |= {predicate} if timed == plain else set()
        return Parts(frozenset(dynamic), self._predicates - dynamic, frozenset(mixed & dynamic), styles)

    def evaluate(self, parts: Parts) -> Moment:
        """What is true now."""
        before, text = self.requests, self.asked(parts)
        for _ in range(TRIES):
            began = self.now()
            every = Together(self._readers(parts.static))
            needed(text, every)
            read = self._read(every)
            at = self.now()
            if not any(began < held.until <= at for held in read.held):
                break
            self.torn += 1
        holding = [held for held in read.held if held.since <= at < held.until]
        rows = _rows(self.text, [*read.plain, *(Quad(*_terms(held)) for held in holding)])
        since, until = _interval(read.held, at)
        gap = bool(parts.dynamic) and not holding
        return Moment(at, since, until, rows, self.requests - before, gap, tuple(read.odd))

    def asked(self, parts: Parts) -> str:
        """The query with every dynamic pattern where its annotations are: what fragments are asked for."""
        tree = tree_of(self.text)
        number, edits = count(), list[Edit]()
        for run in _runs(_patterns(tree)) if parts.styles else ():
            triples = [triple for element in run for triple in element.triples]
            if any(_predicates(triple) & parts.dynamic or _has_blank(triple) for triple in triples):
                texts = (_written(triple, number, parts) for triple in triples)
                edits.append(Edit(run[0].start, _end(run[-1]), f" {' '.join(texts)} "))
        weaver, source = Weaver(tree.source.tokens.text), tree.source.tokens.text
        weaver.copy(0, len(source), edits)
        return weaver.done().text

    def _readers(self, static: frozenset[NamedNode]) -> list[KeptFragments]:
        return [source.reader(static, self._pay) for source in self.sources]

    def _pay(self, cost: float) -> bool:
        if self.ledger is None:
            return True
        if self.ledger.available < cost:
            return False
        self.ledger.spend(cost)
        return True

    def _read(self, every: "Together") -> Read:
        """What was found at each source, with its times by the first one's clock."""
        whole = Read([], [], [])
        for source, reader, quads in zip(self.sources, every.readers, every.found, strict=True):
            shift = self.sources[0].ahead - source.ahead
            if source.style is None:
                whole.plain.extend(quad for quad in quads if isinstance(quad.graph_name, DefaultGraph))
                continue
            read = read_elements(quads, source.style, reader.form().address)
            whole.held.extend(_moved(held, shift) for held in read.held)
            whole.plain.extend(read.plain)
            whole.odd.extend(read.odd)
        return whole


@dataclass(eq=False)
class Together:
    """Several sources read as one, with what each of them gave."""

    readers: Sequence[KeptFragments]
    found: list[dict[Quad, None]] = field(init=False)

    def __post_init__(self) -> None:
        self.found = [{} for _ in self.readers]

    @property
    def quads(self) -> bool:
        """Whether any of them has graphs."""
        return any(reader.quads for reader in self.readers)

    def pages(self, pattern: QuadPattern) -> float:
        """How many requests a fragment takes of all of them."""
        return sum(reader.pages(pattern) for reader in self.readers if _has(reader, pattern))

    def whole(self, pattern: QuadPattern) -> list[Quad]:
        """The fragment of each of them."""
        every = []
        for reader, found in zip(self.readers, self.found, strict=True):
            quads = reader.whole(pattern) if _has(reader, pattern) else []
            if not reader.quads:
                quads = [Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
            found.update(dict.fromkeys(quads))
            every += quads
        return every


def _has(reader: KeptFragments, pattern: QuadPattern) -> bool:
    """Whether it can have any of it: what has no graphs has the default graph alone."""
    return reader.quads or isinstance(pattern.graph, DefaultGraph)


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
            raise ConfigError(f"{element.flat[:80]}: a query over sources with annotations has no GRAPH or SERVICE")
    return tree


def _patterns(tree: Select) -> list[TriplePattern]:
    """Its triple patterns, each with predicates that are named."""
    found = [element for element in tree.deep() if isinstance(element, TriplePattern)]
    for element in found:
        if is_open(element):
            raise ConfigError(f"name the predicate of {element.flat}: whether it changes is asked of each predicate")
    return found


def _runs(patterns: Sequence[TriplePattern]) -> list[list[TriplePattern]]:
    """Those that share a subject as they are written, with ; or a comma between."""
    runs = list[list[TriplePattern]]()
    for element in patterns:
        before = runs[-1][-1] if runs else None
        if before is not None and not before.alone and before.spans[0] == element.spans[0]:
            runs[-1].append(element)
        else:
            runs.append([element])
    return runs


def _end(element: TriplePattern) -> int:
    """Where it ends, with a ; behind which nothing comes."""
    last = element.stop
    while element.source.items[last].is_mark(";"):
        last += 1
    return element.source.items[last - 1].end


def _predicates(triple: TripleOfTree) -> frozenset[NamedNode]:
    """Those that are written in a triple."""
    predicate = triple[1]
    if isinstance(predicate, Path):
        return frozenset(map(NamedNode, predicate.predicates))
    return frozenset({predicate} if isinstance(predicate, NamedNode) else ())


def _has_blank(triple: TripleOfTree) -> bool:
    """Whether it has a blank node: in a query it stands in one block only, and is a variable that is not shown."""
    return any(isinstance(term, str) and term.startswith("_:") for term in triple)


def _written(triple: TripleOfTree, number: Iterator[int], parts: Parts) -> str:
    """A pattern of its own, a dynamic one as each of the styles has it."""
    subject, predicate, value = map(as_sparql, triple)
    changing = _predicates(triple) & parts.dynamic
    if not changing:
        return f"{subject} {predicate} {value} ."
    if isinstance(triple[1], Path):
        raise ConfigError(f"{predicate}: triples of {min(map(str, changing))} have times, so write it without a path")
    mixed, n = bool(changing & parts.mixed), next(number)
    ways = [style.pattern(subject, predicate, value, n, mixed) for style in parts.styles]
    return ways[0] if len(ways) == 1 else f"{{ {' UNION '.join(f'{{ {way} }}' for way in ways)} }}"


def _terms(held: Held) -> tuple[NamedNode, NamedNode, Term]:
    return held.triple.subject, held.triple.predicate, held.triple.object  # type: ignore[return-value]


def _moved(held: Held, shift: int) -> Held:
    """By another clock."""
    since = held.since if held.since == BEGINNING else held.since + shift
    return replace(held, since=since, until=held.until if held.until == END else held.until + shift)


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
