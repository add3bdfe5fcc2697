"""Documents whose graphs say when they were made: TriG and JSON-LD with `prov:generatedAtTime` for each named graph.

    :g1 prov:generatedAtTime "2015-07-01T00:00:00Z"^^xsd:dateTime .
    :g1 { :ann :at :rome }

The triples of a graph are elements of its time. The time stands in the default graph, or in the graph itself; what else
the default graph says of a graph is no element. A graph without a time, and other triples of the default graph, should
have been some: each counts as one that cannot be read.
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
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.stream_error import StreamError
from freshkeeper.maintenance.streams.timed_lines import ReadErrors

GENERATED = NamedNode("http://www.w3.org/ns/prov#generatedAtTime")
Name: TypeAlias = NamedNode | BlankNode | Triple | DefaultGraph
Graphs: TypeAlias = dict[Name, list[Quad]]
T = TypeVar("T")


@dataclass(eq=False)
class TimedGraphs:
    """One document, read whole."""

    path: Path
    read_errors: ReadErrors = field(default_factory=ReadErrors)
    steps: Steps = field(default_factory=Steps)
    document: tuple[bytes, RdfFormat] | None = None
    """what it says, where that is no file; the path is then what it is called"""

    def batches(self) -> Iterator[Batch]:
        """One batch: the graphs by time, and by the order in which they stand."""
        graphs, dates, loose = _parted(self._quads())
        made = self._read(((name, name) for name in graphs), lambda name: _instant(dates.get(name, [])))
        plausible = self._read(sorted(made, key=itemgetter(1)), self.steps.check)
        found = [(at, quad) for name, at in plausible for quad in graphs[name]]
        for quad in loose:
            problem = f"{quad.triple} is in no graph, and dates none that is here, so it has no time"
            self.read_errors.found(StreamError(str(self.path), "default graph", problem))
        triples = [Quad(quad.subject, quad.predicate, quad.object) for _, quad in found]
        yield Batch([time for time, _ in found], triples)

    def _quads(self) -> list[Quad]:
        """All that the document says; nothing where it is broken, which is one mistake."""
        try:
            if self.document is not None:
                text, kind = self.document
                return list(parse(checked(text, kind), format=kind))
            known = RdfFormat.from_extension(self.path.suffix[1:].lower())
            return list(parse(readable(self.path, known), format=known, base_iri=self.path.resolve().as_uri()))
        except SyntaxError as error:
            self.read_errors.found(StreamError(str(self.path), error.lineno or 1, error.msg))
        except OSError as error:
            raise InputError(f"the stream {self.path} cannot be read: {error}") from None
        return []

    def _read(self, graphs: Iterable[tuple[Name, T]], instant: Callable[[T], int]) -> Iterator[tuple[Name, int]]:
        """The graphs with their instants; one that has none, or to which time cannot have passed, is a mistake."""
        for name, told in graphs:
            try:
                yield name, instant(told)
            except ValueError as error:
                self.read_errors.found(StreamError(str(self.path), f"graph {name}", str(error)))


def _parted(quads: list[Quad]) -> tuple[Graphs, Graphs, list[Quad]]:
    """The content of each graph, the triples that date each, and what belongs to none."""
    graphs: Graphs = {}
    dates: Graphs = {}
    loose = []
    for quad in quads:
        dating = quad.predicate == GENERATED and quad.graph_name in (quad.subject, DEFAULT)
        if dating:
            dates.setdefault(quad.subject, []).append(quad)
        if quad.graph_name != DEFAULT:
            graphs.setdefault(quad.graph_name, []).extend(() if dating else (quad,))
        elif not dating:
            loose.append(quad)
    loose += [quad for those in dates.values() for quad in those]
    return graphs, dates, [quad for quad in loose if quad.subject not in graphs]


def _instant(dates: list[Quad]) -> int:
    """When a graph was made; a ValueError says why nobody knows."""
    found = {to_instant(quad.object.value if isinstance(quad.object, Literal) else str(quad.object)) for quad in dates}
    if not found:
        raise ValueError("it has no prov:generatedAtTime")
    if len(found) > 1:
        raise ValueError("it has more than one prov:generatedAtTime")
    return found.pop()
