"""Fetches the fragments that a query needs into a store, on which the original query is then evaluated.

For every triple pattern the store contains at least the triples that can contribute to an answer; more do no harm,
because they are triples of the source. A pattern may therefore be restricted to values of what it is joined with:

    required patterns       to the values of their variables in their group and the groups around it
    OPTIONAL, MINUS, EXISTS to what always precedes them in their own group: a variable that only they bind must not be
                            restricted, or they would seem to find nothing
    sub-queries             to what passes through their visible variables; nothing passes a LIMIT

Patterns are fetched one after the other, cheapest first: as a whole, by the count on its first page, or with one
request per known value.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, QuerySolutions, Store

from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_text import Path, Position, SourceText
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    GraphBlock,
    GroupBlock,
    Lateral,
    Minus,
    Optional,
    Select,
    ServiceBlock,
    TriplePattern,
    Union,
    Values,
    bound_variables,
)
from freshkeeper.maintenance.sources.fragments.quad_pattern import PatternTerm, QuadPattern
from freshkeeper.maintenance.sources.fragments.vocabulary import XSD

REQUIRED = (GroupBlock, Union, Select)
"""Blocks that are joined with their surroundings."""
ALWAYS_BY_VALUE = 2
"""Up to this many values are requested one by one without asking for the count, which costs a request too."""
ZERO = ("*", "?")
"""Operators of a path that may have length zero, so that it begins and ends at any node."""
_IRI = re.compile(r"<[^>]*>")


class FragmentSource(Protocol):
    """Reads fragments."""

    @property
    def quads(self) -> bool:
        """Return whether fragments are made of quads."""

    def pages(self, pattern: QuadPattern) -> float:
        """Return how many more requests a whole fragment needs."""

    def read_all(self, pattern: QuadPattern) -> list[Quad]:
        """Return all quads of a fragment."""

    def has(self, pattern: QuadPattern) -> bool:
        """Return True if a fragment needs no request."""

    def service(self, address: str) -> "FragmentSource | None":
        """Return a reader of one source alone, or None."""


def fetch_needed(query: str, reader: FragmentSource, more: bool = False) -> Store:
    """Return a store with everything a query needs; with `more` it will be evaluated on any subset of the store."""
    tree = _tree(query)
    work = _Fetching(reader, tree.source.prologue.text, more)
    work.group(tree.inner, _Bindings(), None)
    for block in tree.expressions:
        work.group(block, _Bindings(), None)
    work.check_blanks()
    return work.store


def count_patterns(query: str) -> int:
    """Return the number of triple patterns of a query; each needs at least one page."""
    triples = (e.triples for e in _tree(query).deep() if isinstance(e, TriplePattern))
    return sum(map(len, triples))


def _tree(query: str) -> Select:
    tokens = tokenize(query)
    return read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))


@dataclass(frozen=True)
class _Bindings:
    """Bindings that a pattern is joined with: SPARQL blocks over fetched triples, and the variables each always binds.

    The values of a variable are the intersection of what each block has for it on its own: a superset of the join,
    found without computing it.
    """

    blocks: tuple[tuple[str, frozenset[str]], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(names for _, names in self.blocks))

    def and_(self, text: str, names: Iterable[str]) -> "_Bindings":
        return _Bindings((*self.blocks, (text, frozenset(names))))

    def restricted_to(self, names: Iterable[str]) -> "_Bindings":
        """Return the bindings of only these variables."""
        kept = ((text, own.intersection(names)) for text, own in self.blocks)
        return _Bindings(tuple((text, own) for text, own in kept if own))


@dataclass(frozen=True)
class _TripleRequest:
    """A triple pattern; variables are given by name."""

    subject: Position
    predicate: Position
    object: Position
    graph: NamedNode | str | None

    @property
    def variables(self) -> dict[str, str]:
        """The variables by role; blank nodes and unnamed positions are open."""
        roles = {"subject": self.subject, "predicate": self.predicate, "object": self.object, "graph": self.graph}
        return {role: term for role, term in roles.items() if isinstance(term, str) and not term.startswith("_:")}

    @property
    def joins(self) -> dict[str, str]:
        return {
            role: term for role, term in (("subject", self.subject), ("object", self.object)) if isinstance(term, str)
        }

    @property
    def pattern(self) -> QuadPattern:
        """The pattern with everything open that is not a term."""
        graph = DefaultGraph() if self.graph is None else _term(self.graph)
        return QuadPattern(_term(self.subject), _term(self.predicate), _term(self.object), graph)

    @property
    def text(self) -> str:
        inner = f"{as_sparql(self.subject)} {as_sparql(self.predicate)} {as_sparql(self.object)} ."
        if self.graph is None:
            return inner
        return f"GRAPH {as_sparql(self.graph)} {{ {inner} }}"


@dataclass(eq=False)
class _Fetching:
    reader: FragmentSource
    prologue: str
    more: bool = False
    """more is fetched than the query is finally evaluated on"""
    store: Store = field(default_factory=Store)
    _uses: dict[str, int] = field(default_factory=dict)
    """by variable: in how many triple patterns it occurs"""
    _blank: set[str] = field(default_factory=set)
    """variables that were bound to blank nodes"""

    def group(self, elements: Sequence[Element], bindings: _Bindings, graph: NamedNode | str | None) -> None:
        """Fetch what the elements of a group need; `bindings` is joined with it."""
        if any(isinstance(e, ServiceBlock) and self._alone(e) is None for e in elements):
            raise FetchError("refused: fragments cannot evaluate a nested SERVICE: put it beside the outer one")
        joined, blocks = bindings, [e for e in elements if isinstance(e, (*REQUIRED, GraphBlock, ServiceBlock))]
        for element in elements:
            if isinstance(element, Values):
                joined = joined.and_(element.text, element.always)
        left = [one for e in elements if isinstance(e, TriplePattern) for one in _triple_requests(e, graph)]
        for variable in (name for one in left for name in set(one.joins.values())):
            self._uses[variable] = self._uses.get(variable, 0) + 1
        while left or blocks:
            ready = [one for one in left if joined.names.intersection(one.variables.values())]
            if blocks and not ready and (not left or _narrows(blocks[0])):
                joined = self._block(blocks.pop(0), joined, graph)
                continue
            one, pattern, values = self._cheapest(ready or left, joined)
            self._fetch(one, pattern, values)
            left.remove(one)
            if not isinstance(one.predicate, Path):
                joined = joined.and_(one.text, one.variables.values())
        self._optional(elements, joined, graph)

    def check_blanks(self) -> None:
        """Raise FetchError if a blank node joins patterns.

        Labels on different pages are unrelated, so joins would be lost.
        """
        for name in sorted(self._blank):
            if self._uses.get(name, 0) > 1:
                raise FetchError(
                    f"malformed: ?{name} is a blank node and joins several patterns: the source must use IRIs, "
                    "because blank nodes of different pages cannot be matched",
                    refused=True,
                )

    def _block(self, block: Element, bindings: _Bindings, graph: NamedNode | str | None) -> _Bindings:
        """Fetch a joined block; return the bindings with its values."""
        if isinstance(block, ServiceBlock):
            self._service(block, bindings)
            return bindings
        if isinstance(block, GraphBlock):
            name = block.name.text[1:]
            self.group(block.inner, bindings, name if block.iri is None else NamedNode(block.iri))
        elif isinstance(block, Select):
            self.group(block.inner, bindings.restricted_to(block.passing), graph)
            for inner in block.expressions:
                self.group(inner, _Bindings(), graph)
        else:
            for part in block.parts:
                self.group(part, bindings, graph)
        if self.more and not _grows(block):
            return bindings
        if isinstance(block, Select):
            text = f"{{ {block.text} }}"
        else:
            text = block.text
        return bindings.and_(_in_graph(text, graph), block.always)

    def _alone(self, block: ServiceBlock) -> FragmentSource | None:
        if block.iri is None:
            return None
        return self.reader.service(block.iri)

    def _service(self, block: ServiceBlock, bindings: _Bindings) -> None:
        reader, one = self.reader, self._alone(block)
        assert one is not None
        self.reader = one
        self.group(block.inner, bindings, None)
        self.reader = reader

    def _optional(self, elements: Sequence[Element], joined: _Bindings, graph: NamedNode | str | None) -> None:
        """Fetch blocks that may find nothing, restricted by what always precedes them; filters come last."""
        for n, element in enumerate(elements):
            before = elements if isinstance(element, Filter) else elements[:n]
            if isinstance(element, (Optional, Minus, Filter, Bind, Lateral)):
                own = bound_variables([e for e in before if not isinstance(e, (Optional, Minus, Filter, Bind))])
                for part in element.parts:
                    self.group(part, joined.restricted_to(own), graph)

    def _cheapest(
        self, wanted: Sequence[_TripleRequest], bindings: _Bindings
    ) -> tuple[_TripleRequest, QuadPattern, dict[str, list[PatternTerm]]]:
        """Return the pattern with the fewest requests, as `_narrowed` returns it."""
        choices: list[tuple[float, int, _TripleRequest, QuadPattern, dict[str, list[PatternTerm]]]] = []
        for one in wanted:
            if self.reader.has(one.pattern):
                return one, one.pattern, {}
            pattern, values = self._narrowed(one, bindings)
            fewest = min((self._requests(pattern, role, values[role]) for role in values), default=math.inf)
            if fewest <= ALWAYS_BY_VALUE:
                return one, pattern, values
            if isinstance(one.predicate, Path):
                pages = math.inf
            else:
                pages = self.reader.pages(pattern)
            choices.append((min(fewest, pages), len(choices), one, pattern, values))
        _, _, one, pattern, values = min(choices, key=lambda choice: choice[:2])
        return one, pattern, values

    def _narrowed(self, one: _TripleRequest, bindings: _Bindings) -> tuple[QuadPattern, dict[str, list[PatternTerm]]]:
        """Return the pattern with known single values filled in, and the values of its other variables by role."""
        pattern, values = one.pattern, dict[str, list[PatternTerm]]()
        for role, name in one.variables.items():
            if name not in bindings.names or (role == "graph" and not self.reader.quads):
                continue
            found = self._values(name, bindings)
            if not all(map(_means_the_same, found)):
                continue
            values[role] = [term for term in found if isinstance(term, NamedNode) or role == "object"]
            if len(values[role]) == 1:
                pattern = _with(pattern, role, *values.pop(role))
        return pattern, values

    def _values(self, name: str, bindings: _Bindings) -> list[PatternTerm]:
        """Return the values of a variable, in a deterministic order."""
        common: set[PatternTerm] | None = None
        for text in (text for text, names in bindings.blocks if name in names):
            found = self.store.query(
                rewrite_for_pyoxigraph(f"{self.prologue} SELECT DISTINCT ?{name} WHERE {{ {text} }}")
            )
            assert isinstance(found, QuerySolutions)
            values = {row[0] for row in found if row[0] is not None}
            common = values if common is None else common & values
        return sorted(common or (), key=str)

    def _fetch(self, one: _TripleRequest, pattern: QuadPattern, values: dict[str, list[PatternTerm]]) -> None:
        """Fetch the triples of a pattern, as a whole or per value."""
        if isinstance(one.graph, str | NamedNode) and not self.reader.quads:
            raise FetchError(
                "refused: the source has fragments of triples, and the pattern asks for a graph", refused=True
            )
        for part in _path_parts(one, pattern):
            for each in [part] if isinstance(one.predicate, Path) else self._fragments(part, values):
                self._add(one, self.reader.read_all(each))

    def _fragments(self, pattern: QuadPattern, values: Mapping[str, Sequence[PatternTerm]]) -> list[QuadPattern]:
        """Return the fragments of a pattern: the whole, or one per value if that needs fewer requests."""
        costs = {role: self._requests(pattern, role, found) for role, found in values.items()}
        role = min(costs, key=lambda each: costs[each], default=None)
        if role is None or (costs[role] > ALWAYS_BY_VALUE and costs[role] >= self.reader.pages(pattern)):
            return [pattern]
        return [_with(pattern, role, term) for term in values[role]]

    def _requests(self, pattern: QuadPattern, role: str, values: Sequence[PatternTerm]) -> int:
        """Return the minimum number of requests for these values."""
        return sum(not self.reader.has(_with(pattern, role, term)) for term in values)

    def _add(self, one: _TripleRequest, quads: Sequence[Quad]) -> None:
        for quad in quads:
            graph = quad.graph_name if self.reader.quads else DefaultGraph()
            self.store.add(Quad(quad.subject, quad.predicate, quad.object, graph))
            for role, term in (("subject", quad.subject), ("object", quad.object)):
                if isinstance(term, BlankNode) and role in one.joins:
                    self._blank.add(one.joins[role])


def _triple_requests(element: TriplePattern, graph: NamedNode | str | None) -> list[_TripleRequest]:
    return [_TripleRequest(*triple, graph) for triple in element.triples]


def _path_parts(one: _TripleRequest, pattern: QuadPattern) -> list[QuadPattern]:
    """Return the fragments of a path: all triples of its predicates, or all triples if it may begin anywhere."""
    if not isinstance(one.predicate, Path):
        return [pattern]
    if takes_all(one.subject, one.predicate, one.object):
        return [QuadPattern(graph=pattern.graph)]
    return [QuadPattern(predicate=NamedNode(p), graph=pattern.graph) for p in sorted(one.predicate.predicates)]


def takes_all(subject: Position, path: Path, value: Position) -> bool:
    """Return True if a path may use any predicate, or begin and end at any node."""
    marks = _IRI.sub("", path.text)
    open_ends = _term(subject) is None and _term(value) is None
    return "!" in marks or (open_ends and any(mark in marks for mark in ZERO))


def _grows(block: Element) -> bool:
    """Return True if more triples can only add solutions to a block."""
    return all(isinstance(each, (TriplePattern, Values, GroupBlock, Union)) for each in block.walk())


def _narrows(block: Element) -> bool:
    """Return True if a block contains VALUES, so that it is worth fetching first."""
    return any(isinstance(e, Values) for e in block.walk())


def _in_graph(text: str, graph: NamedNode | str | None) -> str:
    if graph is None:
        return text
    return f"GRAPH {as_sparql(graph)} {{ {text} }}"


def _term(position: Position | None) -> NamedNode | Literal | None:
    if isinstance(position, NamedNode | Literal):
        return position
    return None


def _means_the_same(term: PatternTerm) -> bool:
    """Return True if a term can be requested: the store normalises numbers and dates, the source may not."""
    if isinstance(term, Literal):
        return bool(term.language) or term.datatype.value == f"{XSD}string"
    return isinstance(term, NamedNode)


def _with(pattern: QuadPattern, role: str, term: PatternTerm) -> QuadPattern:
    return QuadPattern(**{**pattern.terms, role: term})


def as_sparql(position: Position) -> str:
    """Return a position as SPARQL; blank nodes become variables."""
    if isinstance(position, NamedNode | Literal):
        return str(position)
    if not isinstance(position, str):
        return position.text
    if position.startswith("_:"):
        return f"?freshkeeper_blank_{''.join(c if c.isalnum() else '_' for c in position[2:])}"
    return f"?{position}"
