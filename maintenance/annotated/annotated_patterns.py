"""What a query over annotated data asks its sources for: the query, with each pattern where its annotations are.

An open pattern, of which the predicate is a variable, may match what changes and what does not. A path over what
changes is not asked for where it stands, for no triple says what it leads to: all triples of its predicates are asked
for beside the query. One that may pass over any predicate, or begin and end at any node, takes all triples there are.

What is said of times is read beside the query as well, where it is not found from a pattern (`Style.unreached_times`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import NamedNode

from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tree import Element, GraphBlock, Path, Position, Select, TriplePattern
from freshkeeper.maintenance.query.syntax.tree import Triple as TripleOfTree
from freshkeeper.maintenance.sources.fragments.annotation_style import Style
from freshkeeper.maintenance.sources.fragments.needed_fragments import as_sparql, takes_all


@dataclass(frozen=True)
class Parts:
    """Which predicates of a query change; which of these have triples without a time as well."""

    dynamic: frozenset[NamedNode]
    static: frozenset[NamedNode]
    mixed: frozenset[NamedNode] = frozenset()
    styles: tuple[Style, ...] = ()
    """how the sources say it"""
    open: tuple[str, ...] = ()
    """patterns that may match what changes whatever it is, as they are written"""

    @property
    def changing(self) -> bool:
        """Whether there is anything to ask again."""
        return bool(self.dynamic or self.open)


def predicates_in(tree: Select) -> frozenset[NamedNode]:
    """Those that its patterns name, but for paths that take all triples there are."""
    triples = (triple for element in _patterns(tree) for triple in element.triples)
    return frozenset(predicate for triple in triples for predicate in _predicates(triple))


def open_in(tree: Select) -> tuple[str, ...]:
    """Its patterns that may match any predicate; in GRAPH is nothing that changes."""
    inside = _in_graphs(tree)
    found = (e for e in _patterns(tree) if id(e) not in inside and any(map(_is_open, e.triples)))
    return tuple(dict.fromkeys(" ".join(element.text.split()) for element in found))


def asked(tree: Select, parts: Parts) -> list[str]:
    """The queries of which fragments are asked for: first the query itself, then what is needed beside it."""
    writing, source = _Writing(parts), tree.source.tokens.text
    weaver = Weaver(source)
    weaver.copy(0, len(source), writing.edits(tree) if parts.styles else [])
    unreached = (style.unreached_times() for style in parts.styles if parts.changing)
    queries = (f"SELECT * {{ {each} }}" for each in unreached if each)
    return [weaver.finish().text, *writing.extra, *dict.fromkeys(queries)]


@dataclass(eq=False)
class _Writing:
    parts: Parts
    extra: dict[str, None] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def edits(self, tree: Select) -> list[Edit]:
        """Every sentence with something in it that changes, written anew; so are blank nodes, which join sentences."""
        found, inside = list[Edit](), _in_graphs(tree)
        for run in _runs([element for element in _patterns(tree) if id(element) not in inside]):
            triples = [triple for element in run for triple in element.triples]
            if any(self._changes(triple) or _has_blank(triple) for triple in triples):
                found.append(Edit(run[0].start, _end(run[-1]), f" {' '.join(map(self._written, triples))} "))
        return found

    def _changes(self, triple: TripleOfTree) -> bool:
        return _is_open(triple) or not _predicates(triple).isdisjoint(self.parts.dynamic)

    def _written(self, triple: TripleOfTree) -> str:
        if isinstance(triple[1], Path) and self._changes(triple):
            return self._steps(triple)
        return self._annotated(*triple)

    def _steps(self, path: TripleOfTree) -> str:
        """Nothing where a path stands; beside the query each step that it may take, from anywhere to anywhere."""
        steps: list[Position] = ["freshkeeper_step"] if _is_open(path) else sorted(_predicates(path), key=str)
        for step in steps:
            self.extra[f"SELECT * {{ {self._annotated('freshkeeper_from', step, 'freshkeeper_to', 'path')} }}"] = None
        return ""

    def _annotated(self, subject: Position, predicate: Position, value: Position, number: object = None) -> str:
        """A pattern of its own, one that changes as each of the styles has it."""
        triple = (subject, predicate, value)
        if not self._changes(triple):
            return " ".join(map(as_sparql, triple)) + " ."
        mixed, n = predicate in self.parts.mixed or _is_open(triple), number or next(self._numbers)
        terms = as_sparql(subject), _apart(predicate, n, subject), _apart(value, n, subject, predicate)
        ways = dict.fromkeys(style.pattern(*terms, n, mixed) for style in self.parts.styles)
        return next(iter(ways)) if len(ways) == 1 else f"{{ {' UNION '.join(f'{{ {way} }}' for way in ways)} }}"


def _apart(position: Position, number: object, *before: Position) -> str:
    """As SPARQL; by another name where it stands before: what is read then has its times read as well."""
    return as_sparql(f"freshkeeper_same_{number}_{len(before)}" if position in before else position)


def _patterns(tree: Select) -> list[TriplePattern]:
    return [element for element in tree.deep() if isinstance(element, TriplePattern)]


def _in_graphs(tree: Select) -> set[int]:
    """What stands in GRAPH, by identity."""
    graphs: Iterable[Element] = (element for element in tree.deep() if isinstance(element, GraphBlock))
    return {id(element) for graph in graphs for element in graph.deep()}


def _is_open(triple: TripleOfTree) -> bool:
    """Whether it may match any predicate."""
    predicate = triple[1]
    return isinstance(predicate, str) or (isinstance(predicate, Path) and takes_all(triple[0], predicate, triple[2]))


def _predicates(triple: TripleOfTree) -> frozenset[NamedNode]:
    """Those that are written in a triple, if it matches no others."""
    predicate = triple[1]
    if isinstance(predicate, Path):
        return frozenset(map(NamedNode, () if _is_open(triple) else predicate.predicates))
    return frozenset({predicate} if isinstance(predicate, NamedNode) else ())


def _has_blank(triple: TripleOfTree) -> bool:
    """Whether it has a blank node: in a query it stands in one block only, and is a variable that is not shown."""
    return any(isinstance(term, str) and term.startswith("_:") for term in triple)


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
    """Where its sentence ends, with what ends it."""
    last = element.stop
    while element.source.items[last].is_mark(";"):
        last += 1
    last += element.source.items[last].is_mark(".")
    return element.source.items[last - 1].end
