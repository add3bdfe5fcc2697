"""The windows of a query as graphs of one dataset: named ones apart, merged ones together in the default graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.evaluator import Evaluator
from freshkeeper.maintenance.engine.held_triples import Move
from freshkeeper.maintenance.engine.stored_literals import stored_quads
from freshkeeper.maintenance.engine.window_content import Content
from freshkeeper.maintenance.query.model import Query

Graphs = Mapping[str, Iterable[Quad]]
"""Static graphs by IRI; "" is the default graph where a query names none."""
Place: TypeAlias = DefaultGraph | NamedNode


def static_quads(query: Query, graphs: Graphs) -> list[Quad]:
    """FROM and FROM NAMED: the static part of the dataset, each graph where the query wants it."""
    return [quad for name, place in static_places(query, graphs) for quad in placed(graphs[name], place)]


def static_places(query: Query, graphs: Graphs) -> list[tuple[str, Place]]:
    """The static graphs of a query, and where in its dataset each is."""
    default = query.dataset.default_graphs or (("",) if "" in graphs else ())
    found: list[tuple[str, Place]] = [(checked(name, graphs), DefaultGraph()) for name in default]
    return [*found, *((checked(name, graphs), NamedNode(name)) for name in query.dataset.named_graphs)]


def placed(quads: Iterable[Quad], place: Place) -> list[Quad]:
    """The same triples in a graph."""
    return [Quad(quad.subject, quad.predicate, quad.object, place) for quad in quads]


def checked(name: str, graphs: Graphs) -> str:
    """The name of a graph that is there."""
    if name not in graphs:
        raise ConfigError(f"there is no graph <{name}>: give its file, as in --graph '{name}=FILE'")
    return name


MERGED = 2
"""So many contributors make a default graph that must be counted."""


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
    """Tells the evaluator what the moves of the windows, and changes of static graphs, mean for the dataset."""

    evaluator: Evaluator
    merged: Merged | None

    @classmethod
    def of(cls, query: Query, graphs: Graphs, evaluator: Evaluator) -> "WindowDataset":
        """Counting is only needed where several contribute to the default graph."""
        fixed = [name for name, place in static_places(query, graphs) if isinstance(place, DefaultGraph)]
        if len(query.dataset.merged_windows) + len(fixed) < MERGED:
            return cls(evaluator, None)
        merged = Merged()
        for name in fixed:
            merged.add(set(stored_quads(placed(graphs[name], DefaultGraph()))))
        return cls(evaluator, merged)

    def apply(self, content: Content, move: Move) -> None:
        """A window has moved."""
        removed, added = cast(Sequence[Quad], move.removed), cast(Sequence[Quad], move.added)
        self._apply(removed, added, self.merged is not None and not content.window.named)

    def change(self, place: Place, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        """The static graph at a place is another one."""
        default = isinstance(place, DefaultGraph)
        self._apply(placed(removed, place), placed(added, place), self.merged is not None and default)

    def _apply(self, removed: Sequence[Quad], added: Sequence[Quad], shared: bool) -> None:
        if self.merged is not None and shared:
            removed, added = self.merged.remove(removed), self.merged.add(added)
        if removed or added:
            self.evaluator.apply(removed, added)
