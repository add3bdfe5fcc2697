"""The windows of a query as graphs of one dataset: named ones apart, merged ones together in the default graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.rsp.evaluator import Evaluator
from freshkeeper.maintenance.rsp.held_triples import Move
from freshkeeper.maintenance.rsp.stored_literals import stored_quads
from freshkeeper.maintenance.rsp.window_content import Content
from freshkeeper.policies.errors import ConfigError

Graphs = Mapping[str, Iterable[Quad]]
"""Static graphs by IRI; "" is the default graph where a query names none."""


def static_quads(query: Query, graphs: Graphs) -> list[Quad]:
    """FROM and FROM NAMED: the static part of the dataset, each graph where the query wants it."""
    default = query.dataset.default_graphs or (("",) if "" in graphs else ())
    found = [
        Quad(q.subject, q.predicate, q.object, DefaultGraph())
        for name in default
        for q in graphs[checked(name, graphs)]
    ]
    for name in query.dataset.named_graphs:
        found += [Quad(q.subject, q.predicate, q.object, NamedNode(name)) for q in graphs[checked(name, graphs)]]
    return found


def checked(name: str, graphs: Graphs) -> str:
    """The name of a graph that is there."""
    if name not in graphs:
        raise ConfigError(f"there is no graph <{name}>: give its file, as in --graph '{name}=FILE'")
    return name


@dataclass(eq=False)
class Merged:
    """The default graph of several contributors: a triple is in it as long as one of them has it."""

    counts: dict[Quad, int] = field(default_factory=dict)

    def add(self, quads: Iterable[Quad]) -> list[Quad]:
        """One contributor has these; returns what nobody had."""
        new = []
        for quad in quads:
            count = self.counts.get(quad, 0)
            self.counts[quad] = count + 1
            if not count:
                new.append(quad)
        return new

    def remove(self, quads: Iterable[Quad]) -> list[Quad]:
        """One contributor has these no longer; returns what nobody has."""
        gone = []
        for quad in quads:
            self.counts[quad] -= 1
            if not self.counts[quad]:
                del self.counts[quad]
                gone.append(quad)
        return gone


@dataclass(eq=False)
class WindowDataset:
    """Tells the evaluator what the moves of the windows mean for the dataset."""

    evaluator: Evaluator
    merged: Merged | None

    @classmethod
    def of(cls, query: Query, static: Iterable[Quad], evaluator: Evaluator) -> "WindowDataset":
        """Counting is only needed where several contribute to the default graph."""
        fixed = set(stored_quads([quad for quad in static if isinstance(quad.graph_name, DefaultGraph)]))
        shared = len(query.dataset.merged_windows) + bool(fixed) > 1
        return cls(evaluator, Merged(dict.fromkeys(fixed, 1)) if shared else None)

    def apply(self, content: Content, move: Move) -> None:
        """A window has moved."""
        removed, added = cast(Sequence[Quad], move.removed), cast(Sequence[Quad], move.added)
        if self.merged is not None and not content.window.named:
            removed, added = self.merged.remove(removed), self.merged.add(added)
        if removed or added:
            self.evaluator.apply(removed, added)
