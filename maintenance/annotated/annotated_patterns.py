"""Rewrites a query over annotated data so that each pattern also matches its annotations.

An open pattern (one with a variable as predicate) may match static and dynamic triples. A path over dynamic predicates
is not rewritten in place, because no triple states where it leads: all triples of its predicates are requested in extra
queries. A path that may use any predicate, or begin and end at any node, requests all triples.

Times that no pattern leads to are requested in extra queries as well (`AnnotationStyle.unreached_times`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import NamedNode

from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.source_text import Path, Position
from freshkeeper.maintenance.query.syntax.source_text import Triple as TripleOfTree
from freshkeeper.maintenance.query.syntax.tree import Element, GraphBlock, Select, TriplePattern
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationStyle
from freshkeeper.maintenance.sources.fragments.needed_fragments import as_sparql, takes_all


@dataclass(frozen=True)
class PredicateSplit:
    """The dynamic predicates of a query, and those of them that also have triples without a time."""

    dynamic: frozenset[NamedNode]
    static: frozenset[NamedNode]
    mixed: frozenset[NamedNode] = frozenset()
    styles: tuple[AnnotationStyle, ...] = ()
    """the annotation styles of the sources"""
    open: tuple[str, ...] = ()
    """the texts of patterns that may match any dynamic predicate"""

    @property
    def changing(self) -> bool:
        return bool(self.dynamic or self.open)


def predicates_in(tree: Select) -> frozenset[NamedNode]:
    """Return the predicates in the query's patterns, except in paths that request all triples."""
    triples = (triple for element in _patterns(tree) for triple in element.triples)
    return frozenset(predicate for triple in triples for predicate in _predicates(triple))


def open_in(tree: Select) -> tuple[str, ...]:
    """Return the texts of patterns that may match any predicate; GRAPH contains nothing dynamic."""
    inside = _in_graphs(tree)
    found = (e for e in _patterns(tree) if id(e) not in inside and any(map(_is_open, e.triples)))
    return tuple(dict.fromkeys(" ".join(element.text.split()) for element in found))


def fragment_queries(tree: Select, parts: PredicateSplit) -> list[str]:
    """Return the queries whose fragments must be fetched: the rewritten query, then the extra ones."""
    writing, source = _Writing(parts), tree.source.tokens.text
    weaver = Weaver(source)
    weaver.copy(0, len(source), writing.edits(tree) if parts.styles else [])
    unreached = (style.unreached_times() for style in parts.styles if parts.changing)
    queries = (f"SELECT * {{ {each} }}" for each in unreached if each)
    return [weaver.finish().text, *writing.extra, *dict.fromkeys(queries)]


@dataclass(eq=False)
class _Writing:
    parts: PredicateSplit
    extra: dict[str, None] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def edits(self, tree: Select) -> list[Edit]:
        """Rewrite every sentence with something dynamic in it, or with a blank node, as blank nodes link sentences."""
        found, inside = list[Edit](), _in_graphs(tree)
        for run in _runs([element for element in _patterns(tree) if id(element) not in inside]):
            triples = [triple for element in run for triple in element.triples]
            if any(self._changes(triple) or _has_blank(triple) for triple in triples):
                found.append(Edit(run[0].start, _end(run[-1]), f" {' '.join(map(self._pattern_text, triples))} "))
        return found

    def _changes(self, triple: TripleOfTree) -> bool:
        return _is_open(triple) or not _predicates(triple).isdisjoint(self.parts.dynamic)

    def _pattern_text(self, triple: TripleOfTree) -> str:
        if isinstance(triple[1], Path) and self._changes(triple):
            return self._steps(triple)
        return self._annotated(*triple)

    def _steps(self, path: TripleOfTree) -> str:
        """Add an extra query for every step of a path; nothing remains in its place."""
        if _is_open(path):
            steps: list[Position] = ["freshkeeper_step"]
        else:
            steps = sorted(_predicates(path), key=str)
        for step in steps:
            self.extra[f"SELECT * {{ {self._annotated('freshkeeper_from', step, 'freshkeeper_to', 'path')} }}"] = None
        return ""

    def _annotated(self, subject: Position, predicate: Position, value: Position, number: object = None) -> str:
        """Return one pattern, if dynamic in every style of the sources."""
        triple = (subject, predicate, value)
        if not self._changes(triple):
            return " ".join(map(as_sparql, triple)) + " ."
        mixed, n = predicate in self.parts.mixed or _is_open(triple), number or next(self._numbers)
        terms = as_sparql(subject), _apart(predicate, n, subject), _apart(value, n, subject, predicate)
        ways = dict.fromkeys(style.pattern(*terms, n, mixed) for style in self.parts.styles)
        if len(ways) == 1:
            return next(iter(ways))
        return f"{{ {' UNION '.join(f'{{ {way} }}' for way in ways)} }}"


def _apart(position: Position, number: object, *before: Position) -> str:
    """Return a position as SPARQL, under a new name if it occurs before: then the times of all candidates are read."""
    return as_sparql(f"freshkeeper_same_{number}_{len(before)}" if position in before else position)


def _patterns(tree: Select) -> list[TriplePattern]:
    return [element for element in tree.deep() if isinstance(element, TriplePattern)]


def _in_graphs(tree: Select) -> set[int]:
    """Return the identities of all elements inside GRAPH."""
    graphs: Iterable[Element] = (element for element in tree.deep() if isinstance(element, GraphBlock))
    return {id(element) for graph in graphs for element in graph.deep()}


def _is_open(triple: TripleOfTree) -> bool:
    """Return True if a triple may match any predicate."""
    predicate = triple[1]
    return isinstance(predicate, str) or (isinstance(predicate, Path) and takes_all(triple[0], predicate, triple[2]))


def _predicates(triple: TripleOfTree) -> frozenset[NamedNode]:
    """Return the predicates of a triple, if it cannot match others."""
    predicate = triple[1]
    if isinstance(predicate, Path):
        return frozenset(map(NamedNode, () if _is_open(triple) else predicate.predicates))
    return frozenset({predicate} if isinstance(predicate, NamedNode) else ())


def _has_blank(triple: TripleOfTree) -> bool:
    return any(isinstance(term, str) and term.startswith("_:") for term in triple)


def _runs(patterns: Sequence[TriplePattern]) -> list[list[TriplePattern]]:
    """Group patterns that share a subject by ; or a comma."""
    runs = list[list[TriplePattern]]()
    for element in patterns:
        before = runs[-1][-1] if runs else None
        if before is not None and not before.alone and before.spans[0] == element.spans[0]:
            runs[-1].append(element)
        else:
            runs.append([element])
    return runs


def _end(element: TriplePattern) -> int:
    """Return the end of a sentence, including its punctuation."""
    last = element.stop
    while element.source.items[last].is_mark(";"):
        last += 1
    last += element.source.items[last].is_mark(".")
    return element.source.items[last - 1].end
