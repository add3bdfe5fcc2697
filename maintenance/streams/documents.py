"""Documents whose graphs say when they were made: TriG and JSON-LD with `prov:generatedAtTime` for each named graph.

    :g1 prov:generatedAtTime "2015-07-01T00:00:00Z"^^xsd:dateTime .
    :g1 { :ann :at :rome }

The triples of a graph are elements of its time. The time stands in the default graph, or in the graph itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, parse

from maintenance.durations import to_instant
from maintenance.streams.batch import DEFAULT, Batch
from maintenance.streams.errors import StreamError
from maintenance.streams.lines import Mistakes

GENERATED = NamedNode("http://www.w3.org/ns/prov#generatedAtTime")


@dataclass(eq=False)
class TimedGraphs:
    """One document, read whole."""

    path: Path
    mistakes: Mistakes = field(default_factory=Mistakes)

    def batches(self) -> Iterator[Batch]:
        """One batch: the graphs by time, and by the order in which they stand."""
        try:
            kind = RdfFormat.from_extension(self.path.suffix[1:])
            quads = list(parse(path=str(self.path), format=kind, base_iri=self.path.resolve().as_uri()))
        except SyntaxError as error:
            self.mistakes.found(StreamError(str(self.path), error.lineno or 1, error.msg))
            return
        times = dict(self._times(quads))
        found = [(times[q.graph_name], q) for q in quads if q.graph_name in times and q.predicate != GENERATED]
        for name in dict.fromkeys(q.graph_name for q in quads):
            if name != DEFAULT and name not in times:
                self.mistakes.found(StreamError(str(self.path), 1, f"the graph {name} has no prov:generatedAtTime"))
        if quads and not times:
            problem = "no graph has a prov:generatedAtTime, and triples without a time are no elements"
            self.mistakes.found(StreamError(str(self.path), 1, problem))
        found.sort(key=lambda item: item[0])
        triples = [Quad(quad.subject, quad.predicate, quad.object) for _, quad in found]
        yield Batch([time for time, _ in found], triples)

    def _times(self, quads: list[Quad]) -> Iterator[tuple[NamedNode | BlankNode, int]]:
        for quad in quads:
            if quad.predicate == GENERATED and isinstance(quad.object, Literal):
                try:
                    yield _graph(quad), to_instant(quad.object.value)
                except ValueError as error:
                    self.mistakes.found(StreamError(str(self.path), 1, str(error)))


def _graph(quad: Quad) -> NamedNode | BlankNode:
    assert isinstance(quad.subject, NamedNode | BlankNode)
    return quad.subject
