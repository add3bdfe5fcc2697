"""Documents whose graphs have dates: TriG and JSON-LD with `prov:generatedAtTime` for each named graph.

    :g1 prov:generatedAtTime "2015-07-01T00:00:00Z"^^xsd:dateTime .
    :g1 { :ann :at :rome }

The triples of a graph are elements of its time. The time stands in the default graph, or in the graph itself; other
triples of the default graph about a graph are no elements. A graph without a time counts as an element that cannot be
read, and so does each triple of the default graph about anything else.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias, TypeVar

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from freshkeeper.maintenance.base.durations import to_instant
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.nesting import checked, readable
from freshkeeper.maintenance.streams.batch import DEFAULT, Batch
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes, in_scope
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.read_errors import ReadErrors, StreamError

GENERATED = NamedNode("http://www.w3.org/ns/prov#generatedAtTime")
Name: TypeAlias = NamedNode | BlankNode | Triple | DefaultGraph
Graphs: TypeAlias = dict[Name, list[Quad]]
T = TypeVar("T")


@dataclass(eq=False)
class TimedGraphs:
    """A document, read as one batch."""

    path: Path
    read_errors: ReadErrors = field(default_factory=ReadErrors)
    steps: GapLimit = field(default_factory=GapLimit)
    document: tuple[bytes, RdfFormat] | None = None
    """text and format of a document that is not a file; `path` is its name then"""
    scope: str | None = None
    """the prefix of its blank nodes; None: made of `path`"""

    def batches(self) -> Iterator[Batch]:
        graphs, dates, loose = _group_by_graph(self._quads())
        names = ((name, name) for name in graphs)
        dated = self._read(names, lambda name: _instant(dates.get(name, [])))
        times: list[int] = []
        quads: list[Quad] = []
        for name, time in self._read(sorted(dated, key=itemgetter(1)), self.steps.check):
            for quad in graphs[name]:
                times.append(time)
                quads.append(Quad(quad.subject, quad.predicate, quad.object))  # the window's content is one graph
        for quad in loose:
            problem = f"{quad.triple} is in no graph and dates none of the document, so it has no time"
            self.read_errors.report(StreamError(str(self.path), "default graph", problem))
        scope = BlankNodes.DOCUMENT.scope(str(self.path)) if self.scope is None else self.scope
        yield Batch(times, in_scope(quads, scope))

    def _quads(self) -> list[Quad]:
        """Return the quads of the document, or none if it is broken, which is one error."""
        try:
            if self.document is not None:
                text, text_format = self.document
                return list(parse(checked(text, text_format), format=text_format))
            kind = RdfFormat.from_extension(self.path.suffix[1:].lower())
            return list(parse(readable(self.path, kind), format=kind, base_iri=self.path.resolve().as_uri()))
        except SyntaxError as error:
            self.read_errors.report(StreamError(str(self.path), error.lineno or 1, error.msg))
        except OSError as error:
            raise InputError(f"the stream {self.path} cannot be read: {error}") from None
        return []

    def _read(self, graphs: Iterable[tuple[Name, T]], instant: Callable[[T], int]) -> Iterator[tuple[Name, int]]:
        """Yield the graphs with their instants; a graph without one, or with an implausible one, is an error."""
        for name, date in graphs:
            try:
                yield name, instant(date)
            except ValueError as error:
                self.read_errors.report(StreamError(str(self.path), f"graph {name}", str(error)))


def _group_by_graph(quads: list[Quad]) -> tuple[Graphs, Graphs, list[Quad]]:
    """Return the content of each graph, the triples that date each, and triples that belong to no graph."""
    graphs: Graphs = {}
    dates: Graphs = {}
    loose = []
    for quad in quads:
        is_date = quad.predicate == GENERATED and quad.graph_name in (quad.subject, DEFAULT)
        if quad.graph_name != DEFAULT:
            content = graphs.setdefault(quad.graph_name, [])  # a graph with nothing but its date is a graph, too
            if not is_date:
                content.append(quad)
        elif not is_date:
            loose.append(quad)
        if is_date:
            dates.setdefault(quad.subject, []).append(quad)
    for dating in dates.values():
        loose += dating
    return graphs, dates, [quad for quad in loose if quad.subject not in graphs]


def _instant(dates: list[Quad]) -> int:
    """Return the date of a graph, or raise ValueError with the reason why there is none."""
    found = set()
    for quad in dates:
        date = quad.object
        found.add(to_instant(date.value if isinstance(date, Literal) else str(date)))
    if not found:
        raise ValueError("it has no prov:generatedAtTime")
    if len(found) > 1:
        raise ValueError("it has more than one prov:generatedAtTime")
    return found.pop()
