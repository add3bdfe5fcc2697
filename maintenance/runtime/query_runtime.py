"""Continuous queries from registration to delivered results: what `run`, `serve` and the Python API have in common.

definition ─▶ build ─▶ resume from the state ─▶ engine ◀─ elements, read or pushed
                                                   │
               state, journal ◀─ delivered results ◀╯
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.cache.budget.shared_budget import SharedIncome
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine, Feed
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimits
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.r2s import AnswerBag, Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import Observer
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.service_join.shared_views import ViewRegistry
from freshkeeper.maintenance.engine.windows import SharedWindows
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.maintenance.runtime.build import UNLIMITED, build_all
from freshkeeper.maintenance.runtime.stream_places import Progress
from freshkeeper.maintenance.sources.source_config import SourceConfig
from freshkeeper.maintenance.sources.sources import Source, load_source, source_of
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.batch import Elements, Stream, TimedElements
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP, GapLimit
from freshkeeper.maintenance.streams.inputs import Inputs

if TYPE_CHECKING:
    from freshkeeper.maintenance.runtime.query_journal import QueryJournal

UsedViews = Sequence[tuple[str, ServiceView]]
"""The views of a query, each with the IRI of its source."""


@dataclass(eq=False, kw_only=True)
class QueryRuntime:
    """Registers queries, feeds them elements, and delivers every result once.

    With a state, a query resumes behind its last delivered evaluation. A result is delivered when its consumer asks for
    the next one: by then whatever writes results has returned.
    """

    engine: Engine = field(default_factory=Engine)
    graphs: StaticGraphs = field(default_factory=lambda: StaticGraphs(Dictionary()))
    sources: Mapping[str, Source] = field(default_factory=dict)
    state: State | None = None
    journal: "QueryJournal | None" = None
    start: int = 0
    """where windows start that do not say it themselves, in ms"""
    evaluator: EvaluatorKind = EvaluatorKind.AUTO
    windows: SharedWindows | None = None
    """windows that queries registered later may share; None: every query has its own"""
    limits: EvaluationLimits = UNLIMITED
    """of evaluations of queries that have none of their own, where they run over snapshots"""
    clock: Callable[[], float] = time.perf_counter
    on_result: Callable[[Result, float], None] = field(default=lambda *_: None)
    """is called for every delivered result, with the seconds since the one before"""
    queries: dict[str, ContinuousQuery] = field(default_factory=dict)
    """the queries that are evaluated, by name"""
    _views: dict[str, UsedViews] = field(default_factory=dict)

    @classmethod
    def of(
        cls, queries: ContinuousQuery | Sequence[ContinuousQuery], drain: bool = False, gap: int = LONGEST_GAP
    ) -> "QueryRuntime":
        """Return a runtime for queries that were built before, without state and journal."""
        runtime = cls(engine=Engine(drain=drain, inputs=Inputs(gap)))
        if isinstance(queries, ContinuousQuery):
            queries = [queries]
        for query in queries:
            runtime.add(query)
        return runtime

    def build(
        self,
        queries: Sequence[RegisteredQuery],
        on_failure: Callable[[RegisteredQuery, Exception], None] | None = None,
        quiet: bool = False,
    ) -> list[ContinuousQuery]:
        """Build queries with their views and put them where an earlier process left them; `add` lets them run.

        `on_failure` is told of a query that cannot be built; without it that error is raised. `quiet` queries may skip
        evaluations without answers.
        """
        # Views beyond these are restored now, and only their evaluations may have been interrupted.
        restored = 0 if self.state is None else len(self.state.views)
        views = ViewRegistry(self.sources, patterns=queries[0].first_view if queries else 0)
        built = build_all(
            queries,
            self.graphs,
            self.start,
            evaluator=self.evaluator,
            dictionary=self.graphs.dictionary,
            failed=on_failure,
            quiet=quiet,
            views=views,
            windows=self.windows,
            limits=self.limits,
        )
        if self.state is not None:
            self.state.settle(restored)
        for query in built:
            self._views[query.name] = views.used.get(query.name, ())
            self._resume(query)
        return built

    def add(self, query: ContinuousQuery) -> None:
        """Evaluate a query over the elements that come from now on."""
        watermark = self.engine.inputs.watermark()
        if watermark > 0:
            query.begin(watermark)
        self.engine.register(query)
        self.queries[query.name] = query

    def remove(self, name: str) -> None:
        """Evaluate a query no more; its views stay in the state."""
        query = self.queries.pop(name, None)
        if query is not None:
            self.engine.queries.remove(query)
            query.leave()
            self.release(name)

    def release(self, name: str) -> None:
        """Take the views of a query out of memory, and their parts out of a shared budget."""
        managers = [view.manager for _, view in self._views.pop(name, ())]
        if self.state is not None:
            self.state.views = [view for view in self.state.views if view.manager not in managers]
        for manager in managers:
            income = manager.ledger.income
            if isinstance(income, SharedIncome):
                income.budget.leave(income)

    def views_of(self, name: str) -> UsedViews:
        """Return the views of a query."""
        return self._views.get(name, ())

    def listen(self, name: str, feed: Feed = (), delay: int = 0, idle: float | None = None) -> None:
        """Add a stream: one that `results` reads, or without a feed one that is pushed.

        Its elements may come `delay` ms late; after `idle` seconds of silence it holds the others back no longer.
        """
        steps = GapLimit(self.engine.inputs.gap)
        stream = feed if isinstance(feed, Stream) else Elements(feed, steps=steps)
        self.engine.listen(name, stream, delay, idle)

    def results(self) -> Generator[Result, None, None]:
        """Read all streams to their ends and deliver the results."""
        yield from self.deliver(self.engine.run())

    def push(self, stream: str, batch: TimedElements) -> Iterator[Result]:
        """Take elements of a stream, and deliver the results that are due after them."""
        if self.windows is not None:
            self.windows.close()
        yield from self.deliver(self.engine.push(stream, batch))

    def mark_idle(self, stream: str) -> Iterator[Result]:
        """Let a silent stream hold the others back no longer, until it has elements again."""
        if self.windows is not None:
            self.windows.close()
        yield from self.deliver(self.engine.mark_idle(stream))

    def end(self, stream: str) -> Iterator[Result]:
        """End a stream."""
        yield from self.deliver(self.engine.end(stream))

    def finish(self) -> Iterator[Result]:
        """Evaluate up to the last element, when all streams have ended."""
        yield from self.deliver(self.engine.finish())

    def deliver(self, results: Iterable[Result]) -> Generator[Result, None, None]:
        """Hand results on, noting before each in the state that it is on its way, and after it that it is out."""
        began = self.clock()
        for result in results:
            progress = self.progress(result.query)
            if progress is not None:
                progress.begin(result.t)
            # The consumer has written the result when it asks for the next one: a kill before that repeats the result.
            yield result
            if progress is not None:
                progress.answer(result.t, self._compared_next(result.query))
            ended = self.clock()
            self.on_result(result, ended - began)
            began = ended
            if self.journal is not None:
                self.journal.tick()

    def progress(self, name: str) -> Progress | None:
        """Return how far the results of a query are delivered; None without a state."""
        if self.state is None:
            return None
        return Progress(self.state.base, name)

    def close(self) -> None:
        """Write what is left of the journal, and let go of sources and state."""
        try:
            if self.journal is not None:
                self.journal.close()
        finally:
            for source in self.sources.values():
                source.transport.close()
            if self.state is not None:
                self.state.close()

    def _resume(self, query: ContinuousQuery) -> None:
        progress = self.progress(query.name)
        if progress is not None:
            query.done = progress.answered
            query.streamer.before = progress.streamed or query.streamer.before

    def _compared_next(self, name: str) -> AnswerBag | None:
        """Return the answers with which R2S compares the next ones of a query."""
        query = self.queries[name]
        if query.query.operator is Operator.RSTREAM:
            return None
        return query.streamer.before


def open_sources(
    written: Mapping[str, str | SourceConfig], volatile: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Source]:
    """Open the sources of a config: files, addresses or keys by IRI; `volatile` has predicates they do not say."""
    sources = {
        name: source_of(one) if isinstance(one, SourceConfig) else load_source(one) for name, one in written.items()
    }
    for name, predicates in (volatile or {}).items():
        if name in sources:
            sources[name] = replace(sources[name], volatile=tuple(predicates))
    return sources


def observe_all(observers: Sequence[Observer]) -> Observer:
    """Combine observers of views into one, which names sources without what their addresses hide."""
    return partial(_observe, observers)


def failure_text(error: Exception) -> str:
    """Return why a query failed: the message of our own errors, the kind and message of others."""
    if isinstance(error, FreshkeeperError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _observe(observers: Sequence[Observer], source: str, manager: Manager, evaluation: Evaluation) -> None:
    source = mask_secrets(source)
    for observe in observers:
        observe(source, manager, evaluation)
