"""The snapshot evaluator: the windows and static graphs of a query as one dataset, which SPARQL evaluates whole.

Named windows are graphs of their own, merged ones are in the default graph.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.columns.window_slots import WindowMove
from freshkeeper.maintenance.engine.construct import ConstructTemplate, solutions_text
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimits
from freshkeeper.maintenance.engine.evaluator import Evaluator, Function, QueryResult, Snapshot, Table, Term
from freshkeeper.maintenance.engine.r2s import Answer, AnswerBag, Freshness
from freshkeeper.maintenance.engine.stored_literals import stored_quads
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob
from freshkeeper.maintenance.query.function_calls import CSPARQL_TIMESTAMP, NOW, TIMESTAMP
from freshkeeper.maintenance.query.model import Form, Operator, Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.row_order import order_aggregates


def query_functions(contents: Sequence[WindowState], now: int) -> Mapping[str, Function]:
    """Return the functions by IRI, for these windows at the evaluation time `now`."""

    def timestamp(s: Term, p: Term, o: Term, window: Term | None = None) -> Literal | None:
        searched = [c.quads for c in contents if window is None or c.quads.graph == window]
        times = [quads.latest_time(s, p, o) for quads in searched]
        latest = max((at for at in times if at is not None), default=None)
        return None if latest is None else Literal(latest)

    return {TIMESTAMP: timestamp, CSPARQL_TIMESTAMP: timestamp, NOW: lambda: Literal(now)}


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
    """The dataset of one query: the content of its windows, and its static graphs."""

    contents: Sequence[WindowState]
    evaluator: Evaluator
    merged: MergedGraph | None = None
    """counts the triples of the default graph, if several sources share it"""
    _changes: deque[Callable[[], None]] = field(default_factory=deque)

    @classmethod
    def create(
        cls, query: Query, graphs: Graphs, contents: Sequence[WindowState], limits: EvaluationLimits
    ) -> "WindowDataset":
        """Load the static graphs of a query into a new dataset, and follow their changes."""
        visible = [*query.dataset.named_graphs, *(window.name for window in query.dataset.named_windows)]
        evaluator = Snapshot(static_quads(query, graphs), [NamedNode(name) for name in visible], limits)
        dataset = cls(contents, evaluator, _merged_graph(query, graphs))
        if isinstance(graphs, StaticGraphs):
            targets = static_targets(query, graphs)
            graphs.follow(dataset, lambda dataset, *change: dataset._queue(targets, *change))
        return dataset

    def find(self, sparql: str, now: int) -> QueryResult:
        """Evaluate a SPARQL query on the present dataset."""
        return self.evaluator.find(sparql, query_functions(self.contents, now))

    def apply(self, content: WindowState, move: WindowMove) -> None:
        """Apply the move of a window."""
        removed, added = content.quads.follow(move)
        self._apply(removed, added, not content.window.is_named)

    def refresh(self) -> None:
        """Apply the changes of static graphs that have been queued."""
        while self._changes:
            self._changes.popleft()()

    def _queue(
        self,
        targets: Sequence[tuple[str, TargetGraph]],
        name: str,
        removed: Sequence[Quad],
        added: Sequence[Quad],
    ) -> None:
        """Queue the change of a static graph for the next evaluation; safe from any thread."""
        for graph, target in targets:
            if graph == name:
                self._changes.append(partial(self._change, target, removed, added))

    def _change(self, target: TargetGraph, removed: Sequence[Quad], added: Sequence[Quad]) -> None:
        is_default = isinstance(target, DefaultGraph)
        self._apply(in_target_graph(removed, target), in_target_graph(added, target), is_default)

    def _apply(self, removed: Sequence[Quad], added: Sequence[Quad], in_default_graph: bool) -> None:
        if self.merged is not None and in_default_graph:
            removed, added = self.merged.remove(removed), self.merged.add(added)
        if removed or added:
            self.evaluator.apply(removed, added)


def _merged_graph(query: Query, graphs: Graphs) -> MergedGraph | None:
    """Return the counts of the default graph, or None if at most one source contributes to it."""
    static = [name for name, target in static_targets(query, graphs) if isinstance(target, DefaultGraph)]
    if len(query.dataset.merged_windows) + len(static) < COUNT_FROM:
        return None
    merged = MergedGraph()
    for name in static:
        merged.add(set(stored_quads(in_target_graph(graphs[name], DefaultGraph()))))
    return merged


@dataclass(eq=False)
class LocalQuery:
    """Evaluates the query as SPARQL over its dataset; CONSTRUCT by solutions where R2S compares them."""

    query: Query
    dataset: WindowDataset
    variables: tuple[str, ...] = ()
    errors: int = 0
    ordered_aggregation: bool = False
    """aggregate in the order in which the native evaluator aggregates"""
    _template: ConstructTemplate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.ordered_aggregation:
            self._text = order_aggregates(rewrite_for_pyoxigraph(self.query.sparql))
        else:
            self._text = rewrite_for_pyoxigraph(self.query.sparql)
        if self.query.form is Form.CONSTRUCT and self.query.operator is not Operator.RSTREAM:
            solutions = solutions_text(self.query)
            self._template = ConstructTemplate.of(self.query) if solutions else None
            if solutions and self._template:
                self._text = rewrite_for_pyoxigraph(solutions)

    def prepare(self, _: int) -> Sequence[FetchJob]:
        """Return no fetch jobs: there is no SERVICE."""
        return ()

    def answers(self, now: int) -> AnswerBag:
        found = self.dataset.find(self._text, now)
        if isinstance(found, Table):
            self.variables = found.variables
            return AnswerBag(found.rows)
        return AnswerBag([found] if isinstance(found, bool) else found)

    def rebuild(self, _now: int, _done: int) -> Sequence[FetchJob]:
        """Return no fetch jobs: the dataset is the only state."""
        return ()

    def leave(self) -> None:
        """Do nothing: nothing is shared."""

    def emit(self, streamed: AnswerBag) -> AnswerBag:
        if self._template is None:
            return streamed
        return fill_template(self._template, self.variables, streamed)


def fill_template(template: ConstructTemplate, variables: Sequence[str], streamed: AnswerBag) -> AnswerBag:
    """Return the triples of some solutions, each once, with its best freshness."""
    triples: dict[Answer, Freshness] = {}
    for answer, freshness in streamed.pairs():
        for triple in template.fill(variables, answer if isinstance(answer, tuple) else ()):
            known = triples.get(triple)
            if known is None or known.probability < freshness.probability:
                triples[triple] = freshness
    if streamed.freshness is None:
        return AnswerBag(list(triples))
    return AnswerBag.of(triples.items())
