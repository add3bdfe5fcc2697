"""Queries over sources whose triples say how long they hold: what is true now, and until when.

A query is split by its predicates: dynamic ones are those whose triples are spoken of with a time, which is found by
asking, once, or said by hand. Static fragments are asked for once and kept. Of the dynamic ones, those that hold now
by their source's clock are put beside the static triples, and the query is asked of that as it stands; it has the same
answers until the first of what was read ends, or another one begins. Of several sources the query is asked as if they
were one; their times are brought to the clock of the first one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pyoxigraph import NamedNode, Quad, Store

from freshkeeper.maintenance.annotated.annotated_patterns import Parts, asked, open_in, predicates_in
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource, StaticFragments
from freshkeeper.maintenance.annotated.followable import as_graphs, services, tree_of
from freshkeeper.maintenance.annotated.together import Together
from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.ledger import Ledger
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.syntax.tree import GraphBlock, Select
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    BEGINNING,
    END,
    Held,
    Read,
    Speaking,
    read_elements,
)
from freshkeeper.maintenance.sources.fragments.needed_fragments import needed
from freshkeeper.maintenance.sources.transport import Bound, Term

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
    _tree: Select = field(init=False)

    def __post_init__(self) -> None:
        self._tree = tree_of(self.text, [source.client.url for source in self.sources])

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
        self._check_graphs()
        named, open_ = predicates_in(self._tree), open_in(self._tree)
        if self.dynamic is not None:
            changing = named & self.dynamic
            return Parts(changing, named - changing, changing, styles, open_)
        pairs = list(zip(self.sources, self._readers(frozenset()), strict=True))
        dynamic, mixed = set[NamedNode](), set[NamedNode]()
        for predicate in sorted(named, key=str):
            told = [source.spoken_of(predicate, reader) for source, reader in pairs]
            timed, plain = any(each[0] for each in told), any(each[1] for each in told)
            dynamic |= {predicate} if timed or not plain else set()
            mixed |= {predicate} if timed == plain else set()
        return Parts(frozenset(dynamic), named - dynamic, frozenset(mixed & dynamic), styles, open_)

    def evaluate(self, parts: Parts) -> Moment:
        """What is true now."""
        before, texts = self.requests, self.asked(parts)
        for _ in range(TRIES):
            began = self.now()
            every = Together(self._readers(parts.static))
            for text in texts:
                needed(text, every, more=True)
            reads = self._read(every)
            at = self.now()
            held = [one for read in reads for one in read.held]
            if any(began < one.until <= at for one in held):
                self.torn += 1
            elif any(one.since <= at < one.until for one in held) or not self._forgot():
                break
        for source, found in zip(self.sources, every.found, strict=True):
            source.leave_over(found, at - self.sources[0].ahead + source.ahead)
        rows = _rows(as_graphs(self._tree), self._data(reads, at))
        since, until = _interval(held, at)
        gap = parts.changing and not any(one.since <= at < one.until for one in held)
        odd = tuple(said for read in reads for said in read.odd)
        return Moment(at, since, until, rows, self.requests - before, gap, odd)

    def asked(self, parts: Parts) -> list[str]:
        """The queries of which fragments are asked for."""
        return asked(self._tree, parts)

    def _data(self, reads: Sequence[Read], at: int) -> Iterable[Quad]:
        """What holds of all sources together, and of those that a SERVICE asks alone."""
        alone = services(self._tree)
        for source, read in zip(self.sources, reads, strict=True):
            holding = (Quad(*_terms(one)) for one in read.held if one.since <= at < one.until)
            data = [*read.plain, *holding]
            yield from data
            if source.client.url in alone:
                graph = NamedNode(source.client.url)
                yield from (Quad(quad.subject, quad.predicate, quad.object, graph) for quad in data)

    def _check_graphs(self) -> None:
        """Where graphs say times, nothing tells a graph of the data from one of which the time was not read yet."""
        speaking = [source for source in self.sources if source.style and source.style.speaking is Speaking.GRAPH]
        asks = next((element for element in self._tree.deep() if isinstance(element, GraphBlock)), None)
        if asks is not None and speaking:
            raise ConfigError(
                f"{asks.flat[:80]}: {shown(speaking[0].client.url)} says by its graphs until when triples hold, so "
                "these are no graphs of the data, and what they hold now is asked for without GRAPH"
            )

    def _forgot(self) -> bool:
        """Whether anything was taken to be over for good; then nothing is until it was read again."""
        forgotten = [source.forget_over() for source in self.sources]
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

    def _read(self, every: Together) -> list[Read]:
        """What was found at each source, with its times by the first one's clock."""
        reads = []
        for source, reader, quads in zip(self.sources, every.readers, every.found, strict=True):
            shift = self.sources[0].ahead - source.ahead
            if source.style is None:
                reads.append(Read([], list(quads), []))
                continue
            read = read_elements(quads, source.style, reader.form().address)
            reads.append(replace(read, held=[_moved(held, shift) for held in read.held]))
        return reads


def _terms(held: Held) -> tuple[NamedNode, NamedNode, Term]:
    return held.triple.subject, held.triple.predicate, held.triple.object  # type: ignore[return-value]


def _moved(held: Held, shift: int) -> Held:
    """The same interval by a clock that is `shift` milliseconds ahead; what never begins or ends stays so."""
    since = held.since if held.since == BEGINNING else held.since + shift
    return replace(held, since=since, until=held.until if held.until == END else held.until + shift)


def _rows(query: str, quads: Iterable[Quad]) -> list[Bound]:
    store = Store()
    store.extend(quads)
    return bounded(lambda: store.query(rewrite_for_pyoxigraph(query)))


def _interval(held: Iterable[Held], at: int) -> tuple[int, int]:
    """Since the last one came or went, until the next one does."""
    since, until = BEGINNING, END
    for one in held:
        for change in (one.since, one.until):
            since, until = (max(since, change), until) if change <= at else (since, min(until, change))
    return since, until
