"""The windows of a query as graphs of one dataset: named windows apart, merged ones in the default graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.evaluator import Evaluator
from freshkeeper.maintenance.engine.held_triples import WindowMove
from freshkeeper.maintenance.engine.stored_literals import stored_quads
from freshkeeper.maintenance.engine.window_content import WindowState
from freshkeeper.maintenance.query.model import Query

Graphs = Mapping[str, Iterable[Quad]]
"""Static graphs by IRI; "" is the default graph of queries that name none."""
TargetGraph: TypeAlias = DefaultGraph | NamedNode


def static_quads(query: Query, graphs: Graphs) -> list[Quad]:
    """Return the static part of the dataset (FROM and FROM NAMED), each quad in its graph."""
    return [quad for name, place in static_targets(query, graphs) for quad in in_target_graph(graphs[name], place)]


def static_targets(query: Query, graphs: Graphs) -> list[tuple[str, TargetGraph]]:
    """Return the names of a query's static graphs, each with its graph in the dataset."""
    default = query.dataset.default_graphs or (("",) if "" in graphs else ())
    found: list[tuple[str, TargetGraph]] = [(checked_graph(name, graphs), DefaultGraph()) for name in default]
    return [*found, *((checked_graph(name, graphs), NamedNode(name)) for name in query.dataset.named_graphs)]


def in_target_graph(quads: Iterable[Quad], place: TargetGraph) -> list[Quad]:
    """Return the same triples as quads of another graph."""
    return [Quad(quad.subject, quad.predicate, quad.object, place) for quad in quads]


def checked_graph(name: str, graphs: Graphs) -> str:
    """Return the name of a static graph; raise ConfigError if there is none of that name."""
    if name not in graphs:
        raise ConfigError(f"there is no graph <{name}>: add its file with --graph '{name}=FILE'")
    return name


COUNT_FROM = 2
"""With this many contributors a triple of the default graph needs a count."""


@dataclass(eq=False)
class MergedGraph:
    """Reference counts for a default graph with several contributors: a triple stays as long as one has it."""

    counts: dict[Quad, int] = field(default_factory=dict)

    def add(self, quads: Iterable[Quad]) -> list[Quad]:
        """Count triples that one contributor adds; return those that are new to the graph."""
        new = []
        for quad in quads:
            count = self.counts.get(quad, 0)
            self.counts[quad] = count + 1
            if not count:
                new.append(quad)
        return new

    def remove(self, quads: Iterable[Quad]) -> list[Quad]:
        """Count triples that one contributor removes; return those that no contributor has any more."""
        gone = []
        for quad in quads:
            self.counts[quad] -= 1
            if not self.counts[quad]:
                del self.counts[quad]
                gone.append(quad)
        return gone


@dataclass(eq=False)
class WindowDataset:
    """Translates moves of windows, and changes of static graphs, into changes of the dataset."""

    evaluator: Evaluator
    merged: MergedGraph | None

    @classmethod
    def of(cls, query: Query, graphs: Graphs, evaluator: Evaluator) -> "WindowDataset":
        """Create it for a query; triples are counted only if several sources share the default graph."""
        fixed = [name for name, place in static_targets(query, graphs) if isinstance(place, DefaultGraph)]
        if len(query.dataset.merged_windows) + len(fixed) < COUNT_FROM:
            return cls(evaluator, None)
        merged = MergedGraph()
        for name in fixed:
            merged.add(set(stored_quads(in_target_graph(graphs[name], DefaultGraph()))))
        return cls(evaluator, merged)

    def apply(self, content: WindowState, move: WindowMove) -> None:
        """Apply the move of a window."""
        removed, added = cast(Sequence[Quad], move.removed), cast(Sequence[Quad], move.added)
        self._apply(removed, added, self.merged is not None and not content.window.is_named)

    def change(self, place: TargetGraph, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        """Apply the change of a static graph."""
        default = isinstance(place, DefaultGraph)
        self._apply(in_target_graph(removed, place), in_target_graph(added, place), self.merged is not None and default)

    def _apply(self, removed: Sequence[Quad], added: Sequence[Quad], shared: bool) -> None:
        if self.merged is not None and shared:
            removed, added = self.merged.remove(removed), self.merged.add(added)
        if removed or added:
            self.evaluator.apply(removed, added)
