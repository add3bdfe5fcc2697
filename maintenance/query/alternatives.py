"""The rewriting of p|q, of which pyoxigraph returns common solutions once and SPARQL once for each alternative.

    ?x :p|:q ?y                 { ?x :p ?y } UNION { ?x :q ?y }
    _:b :p|:q ?y . ?x :r _:b    { SELECT ?x ?y { { ?b :p ?y } UNION { ?b :q ?y } . ?x :r ?b } }

A label of a blank node cannot stand in two groups, and so becomes a variable, which a sub-query hides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter

from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.source_text import Path, Position, Quoted, Triple, blank_variable
from freshkeeper.maintenance.query.syntax.tokens import Token, tokenize
from freshkeeper.maintenance.query.syntax.tree import Bind, Element, Filter, Minus, TriplePattern

EMPTY_COLUMN = "freshkeeper_nothing"
"""A column of a sub-query that shows nothing; it is never bound."""
MAX_BRANCHES = 50
"""Limit of alternatives: a path with more stays as it is."""


def alternative_edits(group: Sequence[Element], graph: str, star: bool) -> Iterator[Edit]:
    """Yield edits that write alternative paths as alternative patterns, and the triples of their subject one by one.

    `graph` is the variable that ranges over the group's graphs, and `star` is set for SELECT *.
    """
    joined = _joined(group)
    hidden = _Hidden.of(joined, graph, star)
    triples = [element for element in group if isinstance(element, TriplePattern)]
    for start, sharing_subject in groupby(triples, key=attrgetter("start")):
        sentence = list(sharing_subject)
        # beside blank nodes that cannot be hidden, the path stays as it is
        if any(triple in joined and triple not in hidden.elements for triple in sentence):
            continue
        branches = [_alternatives(triple) for triple in sentence]
        needs_edit = 1 < max(map(len, branches)) <= MAX_BRANCHES
        if needs_edit or not hidden.elements.isdisjoint(sentence):
            texts = []
            for triple, patterns in zip(sentence, branches, strict=True):
                texts.append(hidden.text(triple) if triple in hidden.elements else _union(patterns))
            yield Edit(start, sentence[-1].end, " . ".join(texts))


def has_inseparable(group: Sequence[Element], star: bool) -> bool:
    """Return whether some p|q stays: too many alternatives, or beside blank nodes that no sub-query can hide."""
    joined = _joined(group)
    if len(joined) > len(_Hidden.of(joined, "", star).elements):
        return True
    return any(_has_inseparable(element, star) for element in group)


def _has_inseparable(element: Element, star: bool) -> bool:
    if isinstance(element, TriplePattern):
        return len(_alternatives(element)) > MAX_BRANCHES
    if isinstance(element, Filter | Bind | Minus):
        return False  # how often a solution comes makes no difference there
    return any(has_inseparable(part, star) for part in element.parts)


@dataclass(frozen=True)
class _Hidden:
    """A sub-query for triple patterns that share blank nodes with alternatives, in the place of the first of them."""

    elements: frozenset[TriplePattern]
    first: TriplePattern | None
    graph: str

    @classmethod
    def of(cls, found: Sequence[TriplePattern], graph: str, star: bool) -> "_Hidden":
        """Return the sub-query for some patterns, or an empty one if a sub-query cannot take them."""
        terms = [term for e in found for triple in e.triples for term in triple]
        has_columns = any(map(_is_variable, terms)) or bool(found and not star)  # else EMPTY_COLUMN would show in *
        is_small = all(len(_ways(term)) <= MAX_BRANCHES for term in terms)
        has_quoted_blank = any(isinstance(term, Quoted) and "_:" in term.text for term in terms)
        if has_columns and is_small and not has_quoted_blank:
            return cls(frozenset(found), found[0], graph)
        return cls(frozenset(), None, graph)

    def text(self, element: TriplePattern) -> str:
        """Return the text that replaces one of the patterns."""
        if element is self.first:
            return self._query
        return "{}"

    @cached_property
    def _query(self) -> str:
        triples = [triple for e in sorted(self.elements, key=attrgetter("first")) for triple in e.triples]
        names = {f"?{term}" for triple in triples for term in triple if _is_variable(term)}
        patterns = " . ".join(map(_union_of_ways, triples))
        columns = sorted(names)
        if self.graph:
            columns = list(dict.fromkeys([self.graph, *columns]))
        return f"{{ SELECT {' '.join(columns or [f'?{EMPTY_COLUMN}'])} {{ {patterns} }} }}"


def _joined(group: Sequence[Element]) -> list[TriplePattern]:
    """Return the triple patterns with alternatives of blank nodes, and those that share blank nodes with them."""
    triples = [e for e in group if isinstance(e, TriplePattern)]
    if not any(item.is_mark("|") for e in triples for item in e.items):
        return []
    blanks = {e: _blank_nodes(e) for e in triples}
    reached = set[Position]()
    for element in triples:
        for subject, path, value in element.triples:
            if len(_ways(path)) > 1:
                reached.update(filter(_is_blank, (subject, value)))
    # follow shared blank nodes until no pattern is new
    found: set[TriplePattern] = set()
    while new := [e for e in triples if e not in found and not blanks[e].isdisjoint(reached)]:
        found.update(new)
        for element in new:
            reached |= blanks[element]
    return [e for e in triples if e in found]


def _blank_nodes(element: TriplePattern) -> frozenset[Position]:
    return frozenset(term for triple in element.triples for term in triple if _is_blank(term))


def _alternatives(triple: TriplePattern) -> list[str]:
    """Return the triple patterns for which one with a path stands; if there are too many, MAX_BRANCHES + 1 of them."""
    if not triple.path:
        return [triple.text]
    subject, _, value = (triple.source.text(*span) for span in triple.spans)
    branches = _Path(triple.source.items[slice(*triple.spans[1])]).alternatives()
    return [f"{subject} {branch} {value}" for branch in branches]


def _ways(term: Position) -> list[str]:
    """Return the texts of a term: of a path, the paths without alternatives for which it stands."""
    if isinstance(term, Path):
        return _Path(tokenize(term.text).items).alternatives()
    return [_text_of(term)]


def _text_of(term: Position) -> str:
    if isinstance(term, Path | Quoted):
        return term.text
    if _is_blank(term):
        return f"?{blank_variable(str(term))}"
    if isinstance(term, str):
        return f"?{term}"
    return str(term)


def _union(patterns: Sequence[str]) -> str:
    if len(patterns) == 1:
        return patterns[0]
    return " UNION ".join(f"{{ {pattern} }}" for pattern in patterns)


def _union_of_ways(triple: Triple) -> str:
    subject, predicate, value = triple
    return _union([f"{_text_of(subject)} {way} {_text_of(value)}" for way in _ways(predicate)])


def _is_blank(term: Position) -> bool:
    return isinstance(term, str) and term.startswith("_:")


def _is_variable(term: Position) -> bool:
    return isinstance(term, str) and not _is_blank(term)


@dataclass
class _Path:
    """A property path, read as the paths without alternatives that it stands for; repetitions stay whole."""

    items: Sequence[Token]
    index: int = 0

    def alternatives(self) -> list[str]:
        """Read a|b and return the paths for which it stands, as SPARQL."""
        paths = self._sequence()
        while self._accept("|"):
            paths += self._sequence()
        return paths

    def _sequence(self) -> list[str]:
        paths = self._step()
        while self._accept("/"):
            following = self._step()
            # the product may explode: one more than the limit tells that there are too many
            paths = [f"{before}/{after}" for before in paths for after in following][: MAX_BRANCHES + 1]
        return paths

    def _step(self) -> list[str]:
        inverse = self._accept("^")
        paths = self._primary()
        if self.index < len(self.items) and self.items[self.index].is_mark("*", "+", "?"):
            paths = [f"({'|'.join(paths)}){self._take().text}"]
        if inverse:
            paths = [f"^({path})" for path in paths]
        return paths

    def _primary(self) -> list[str]:
        if self._accept("!"):
            return self._negated()
        if not self._accept("("):
            return [self._take().text]
        paths = self.alternatives()
        self._accept(")")
        return paths

    def _negated(self) -> list[str]:
        """Read !(a|^b): any other predicate forwards, and any other one backwards."""
        forwards: list[str] = []
        backwards: list[str] = []
        in_brackets = self._accept("(")
        while not self._accept(")"):
            names = backwards if self._accept("^") else forwards
            names.append(self._take().text)
            self._accept("|")
            if not in_brackets:
                break
        paths = []
        if forwards or not backwards:
            paths.append(f"!({'|'.join(forwards)})")
        if backwards:
            paths.append(f"^(!({'|'.join(backwards)}))")
        return paths

    def _accept(self, mark: str) -> bool:
        follows = self.index < len(self.items) and self.items[self.index].is_mark(mark)
        self.index += follows
        return follows

    def _take(self) -> Token:
        self.index += 1
        return self.items[self.index - 1]
