"""A run from texts: its queries, what feeds their streams, their graphs and sources, put together."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.target_ledger import TargetLedger
from freshkeeper.maintenance.cache.budget.target_news import target_news
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.automaton.matched_queries import MatchedQueries
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.evaluation_limits import Limits
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    Observer,
    PolicyName,
    Registration,
    Shares,
)
from freshkeeper.maintenance.engine.service_join.service_solutions import Fetch
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.observe.traces import Traces
from freshkeeper.maintenance.query.model import Operator, Query
from freshkeeper.maintenance.runtime.build import build_all
from freshkeeper.maintenance.runtime.graph_watch import GraphWatch
from freshkeeper.maintenance.runtime.input_checks import check_inputs, unused
from freshkeeper.maintenance.runtime.progress import Progress
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.runtime.query_set import RunQuery
from freshkeeper.maintenance.runtime.run_config import RunConfig
from freshkeeper.maintenance.runtime.stream_places import StreamPlaces
from freshkeeper.maintenance.sources.source_config import SourceConfig, read_config
from freshkeeper.maintenance.sources.sources import Source, load_source, source_of
from freshkeeper.maintenance.sources.transport import Wondering
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.live.feed import LinkStatus
from freshkeeper.maintenance.streams.opening import is_live, open_stream
from freshkeeper.maintenance.streams.pace import Pace, Paced, speed_of
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_lines import ReadErrors
from freshkeeper.maintenance.streams.watermark import Inputs

SOONER = "a larger --budget or --bank fetches it sooner"
ONCE = (
    "a query without a window is answered once; `freshkeeper follow` answers one over fragments that say how long they "
    "hold, and again whenever that is over"
)
NAMED = 3
"""So many queries of a template are named."""


@dataclass(eq=False)
class Session:
    """One query, or several that have names, run from beginning to end; of several, those that fail are left out."""

    config: RunConfig
    """everything; of one query, its `query` is the text"""
    queries: Query | Sequence[RunQuery]
    tell: Callable[[str], None] = field(default=lambda _: None)
    observers: Sequence[Observer] = ()
    """who is told of every evaluation of a view, beside the journal"""
    command: str = ""
    """how to do this again, for run.json"""
    failures: dict[str, Exception] = field(default_factory=dict)
    """queries that cannot run, or failed while they ran"""
    failed_fetches: int = 0
    missed: int = 0
    """answers that were not given, because nothing had been fetched for them yet"""
    marked: int = 0
    """answers that were given without what had not been fetched for them yet"""
    _targets: dict[str, Manager] = field(default_factory=dict)
    """views that are kept at a target"""
    _dropping: list[str] = field(default_factory=list)
    """why queries cannot do that"""

    def __post_init__(self) -> None:
        """Find mistakes before anything runs."""
        if isinstance(self.queries, Query):
            self._running = [RunQuery("", self.config.query, self.queries)]
        else:
            self._running = list(self.queries)
        self._several = not isinstance(self.queries, Query)
        self._named = {name: each for each in self._running for name in each.names}
        for each in list(self._running):
            self._try(each, partial(self._check, each))
        self._some_left()
        self._read_errors = ReadErrors(self.config.on_error, tell=self.tell)
        files = {name: Path(file) for name, file in self.config.graph_files.items()}
        graphs = StaticGraphs(Dictionary(), dict(files))
        self.watch = GraphWatch(graphs, files, self.tell)
        graphs.load()
        self._held = ExitStack()
        try:
            self._state = self._open_state()
            self._set_up(graphs)
        except BaseException:
            self._held.close()
            raise

    def _set_up(self, graphs: StaticGraphs) -> None:
        about = About.of_queries(self.config.seed, self.command, self._settings())
        self._journal = QueryJournal(self.config.seed, self.config.journal, self._state, about)
        self._held.callback(self._journal.release)
        self._opened = self._sources()
        for source in self._opened.values():
            self._held.callback(source.transport.close)
        built = self._build(graphs)
        self._some_left()
        if self._state is not None:
            self._state.settle()
        for query in built.values():
            self._go_on(query)
        failed = self._gone if self._several else None
        self._engine = Engine(
            list(built.values()), self.config.drain, Inputs(self.config.gap, self._read_errors), failed
        )
        if self.config.traces:
            traces = Traces(self.config.traces)
            self._held.callback(traces.close)
            traces.follow(self._opened)
            self._engine.spans = traces
        self._built = built
        self._places = StreamPlaces(list(built.values()), self._state, self.tell)
        self._listen(None if any(q.done is None for q in built.values()) else min(q.done or 0 for q in built.values()))
        queries = [each.query for each in self._running]
        for line in unused(queries, self.config.streams, self.config.graph_files, self.config.sources):
            self.tell(line)
        if any(not query.windows for query in queries) and any(source.pages for source in self._opened.values()):
            self.tell(ONCE)

    def _build(self, graphs: StaticGraphs) -> dict[str, ContinuousQuery]:
        settings = self._maintenance([self._journal.observe, *self.observers])
        registrations = [
            Registration(q.query, q.name, self._own(q, settings), q.own.weight, self._limits(q), q.template)
            for q in self._running
        ]
        failed = (lambda one, error: self._fail(self._named[one.name], error)) if self._several else None
        start, evaluator, quiet = self.config.t0, self.config.evaluator, self._several and not self.config.empty
        built = build_all(registrations, graphs, start, self._opened, evaluator, graphs.dictionary, failed, quiet)
        return {query.name: query for query in built}

    def _listen(self, done: int | None) -> None:
        speed = speed_of(self.config.speed)
        pace = None if speed is None else Pace(speed, after=done)
        names = (window.stream for each in self._running for window in each.query.windows)
        for name in dict.fromkeys(names):
            written = self.config.streams[name]
            steps = Steps(self.config.gap, done)
            stream = open_stream(written, self._read_errors, steps, self._places.reception(name, self.config.on_loss))
            self._places.follow(name, stream)
            idle = self.config.idle / 1000 if self.config.idle is not None and is_live(written) else None
            self._engine.listen(name, stream if pace is None else Paced(stream, pace), self.config.delay, idle)

    @property
    def waits(self) -> bool:
        """Whether it waits for elements, and evaluates nothing."""
        return self._engine.reading

    def before_waiting(self, check: Callable[[], None]) -> None:
        """Call this whenever it is about to wait for elements."""
        self._engine.before_reading = check

    @property
    def links(self) -> dict[str, LinkStatus]:
        """How streams over a network are connected."""
        return self._places.links

    def before(self, query: str = "") -> tuple[bool, bool]:
        """Whether an earlier run has answered a query, and whether it may have ended within an answer."""
        progress = self._progress(query)
        return (False, False) if progress is None else (progress.answered is not None, progress.torn)

    @property
    def tells_all(self) -> bool:
        """Whether every evaluation has a result, so that none means that there was none."""
        return not any(
            isinstance(q, MatchedQueries) or (isinstance(q, MovingQuery) and q.quiet) for q in self._built.values()
        )

    @property
    def goes_on(self) -> bool:
        """Whether an earlier run has answered."""
        return any(self.before(each.name)[0] for each in self._running)

    @property
    def torn(self) -> bool:
        """Whether an earlier run may have ended within an answer."""
        return any(self.before(each.name)[1] for each in self._running)

    def results(self) -> Generator[Result, None, None]:
        """Every evaluation's result; whoever asks for the next one has put it out."""
        if self.config.watch is not None:
            self.watch.start(self.config.watch / 1000)
        try:
            for result in self._engine.run():
                progress = self._progress(result.query)
                if progress is not None:
                    progress.begin(result.t)
                self._count(result)
                yield result
                self._answered(result, progress)
                self._journal.tick()
        finally:
            self.watch.stop()
            self._places.close()
            try:
                self._journal.close()
            finally:
                self._held.close()

    def _answered(self, result: Result, progress: Progress | None) -> None:
        if progress is not None:
            query = self._built[result.query]
            compared = query.query.operator is not Operator.RSTREAM
            progress.answer(result.t, query.streamer.before if compared else None)
        self._places.answered(result.query, result.t)

    def _progress(self, query: str) -> Progress | None:
        return None if self._state is None else Progress(self._state.base, query)

    def _go_on(self, query: ContinuousQuery) -> None:
        progress = self._progress(query.name)
        if progress is not None:
            query.done = progress.answered
            query.streamer.before = progress.streamed or query.streamer.before

    def _check(self, each: RunQuery) -> None:
        config = self.config
        check_inputs(each.text, each.query, config.streams, config.graph_files, config.sources)
        if config.state is not None and not each.query.windows:
            raise ConfigError("--state is for queries with windows: this one is evaluated once")
        if config.state is not None and self._fetch(each) != Fetch.VIEW:
            raise ConfigError(f"--state keeps views, and --fetch {self._fetch(each)} has none")
        if config.target is not None and self._fetch(each) != Fetch.VIEW:
            raise ConfigError(f"--target keeps a view fresh, and --fetch {self._fetch(each)} has none")
        if config.audit and self._fetch(each) != Fetch.VIEW:
            raise ConfigError(f"--audit checks answers of a view, and --fetch {self._fetch(each)} has none")

    def _try(self, each: RunQuery, step: Callable[[], None]) -> None:
        try:
            step()
        except FreshkeeperError as error:
            if not self._several:
                raise
            self._fail(each, error)

    def _fail(self, failed: RunQuery, error: Exception) -> None:
        """A query is out, and the others go on."""
        self.failures |= dict.fromkeys(failed.names, error)
        self._running = [each for each in self._running if each is not failed]
        more = len(failed.names) - NAMED
        names = ", ".join(failed.names[:NAMED]) + (f" and {more} more" if more > 0 else "")
        who = f"the query {names} is" if len(failed.names) == 1 else f"the queries {names} are"
        self.tell(f"{who} left out: {_said(error)}")

    def _gone(self, query: ContinuousQuery, error: Exception) -> None:
        for each in {self._named[name]: None for name in query.names}:
            self._fail(each, error)

    def _some_left(self) -> None:
        if not self._running:
            raise ConfigError(f"none of the {len(self.failures)} queries can run")

    def _fetch(self, each: RunQuery) -> Fetch:
        return self.config.fetch if each.own.fetch is None else each.own.fetch

    def _limits(self, each: RunQuery) -> Limits:
        own, all_ = each.own, self.config
        return Limits(
            all_.most_rows if own.most_rows is None else own.most_rows, all_.limit if own.limit is None else own.limit
        )

    def _own(self, each: RunQuery, settings: MaintenanceSettings) -> MaintenanceSettings:
        policy = PolicyName(each.own.policy) if each.own.policy else settings.policy
        return replace(settings, policy=policy, fetch=self._fetch(each))

    def _count(self, result: Result) -> None:
        """Of views that several queries may have, failures are counted where the view is evaluated."""
        if not self._several or self._fetch(self._named[result.query]) is not Fetch.VIEW:
            self.failed_fetches += result.errors

    def _seen(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        if isinstance(manager.ledger, TargetLedger):
            self._targets[source] = manager
        self.failed_fetches += evaluation.record.errors * self._several
        self.missed += evaluation.record.missed
        self.marked += evaluation.record.marked

    def _settings(self) -> dict[str, object]:
        """All settings of the run, and what the sources' files say."""
        files = {name: written for name, written in self.config.sources.items() if isinstance(written, str)}
        told = {
            name: read_config(Path(file)).model_dump(mode="json", exclude_defaults=True)
            for name, file in files.items()
            if file.lower().endswith((".yaml", ".yml"))
        }
        return self.config.model_dump(mode="json") | {"source_files": told}

    def _open_state(self) -> State | None:
        if self.config.state is None:
            return None
        texts = {each.name: each.text for each in self._running} if self._several else self.config.query
        state = State.open(self.config.state, texts, list(self.config.sources))
        self._held.callback(state.close)
        return state

    def news(self) -> Iterator[str]:
        """What a person should know at the end."""
        if late := self._engine.late:
            yield f"{_elements(late)} too late and left out; --delay says how long to wait"
        if skipped := self._read_errors.count:
            yield f"{_elements(skipped)} unreadable and skipped"
        if self.marked:
            given = f"{self.marked:,} answers were given without what had not been fetched for them yet"
            yield f"{given}, and are marked as not fresh; {SOONER}"
        if self.missed:
            missed = f"{self.missed:,} answers were not given because what they need had not been fetched yet"
            yield f"{missed}{self._why()}; {SOONER}"
        for each in self._opened.values():
            if isinstance(each.transport, Wondering):
                yield from each.transport.oddities()
        for source, manager in self._targets.items():
            yield target_news(source if len(self._targets) > 1 else "", manager)
        if self.failures:
            count, of = len(self.failures), len(self.failures) + sum(len(each.names) for each in self._running)
            yield f"{count} of {of} queries failed: {', '.join(self.failures)}"

    def _why(self) -> str:
        """Why they were not given without it."""
        return f" ({self._dropping[0]})" if self._dropping else ""

    def _sources(self) -> dict[str, Source]:
        sources = {
            name: source_of(written) if isinstance(written, SourceConfig) else load_source(written)
            for name, written in self.config.sources.items()
        }
        for name, predicates in self.config.volatile.items():
            sources[name] = replace(sources[name], volatile=tuple(predicates))
        return sources

    def _maintenance(self, observers: Sequence[Observer]) -> MaintenanceSettings:
        return MaintenanceSettings(
            PolicyName(self.config.policy),
            BudgetRule.of(self.config.budget, self.config.bank),
            fetch=self.config.fetch,
            capacity=self.config.capacity,
            seed=self.config.seed,
            edges=self.config.edges == "refreshed",
            missing=self.config.missing,
            dropping=self._dropping.append,
            audit=self.config.audit,
            target=self.config.target,
            shares=Shares(self.config.weights, self.config.minimum) if self.config.shared else None,
            observe=partial(_tell, [self._seen, *observers]),
            state=self._state,
            speed=speed_of(self.config.speed) or 1,
        )


def _said(error: Exception) -> str:
    """What went wrong, also where it is no error of ours."""
    return str(error) if isinstance(error, FreshkeeperError) else f"{type(error).__name__}: {error}"


def _tell(observers: Sequence[Observer], source: str, manager: Manager, evaluation: Evaluation) -> None:
    source = shown(source)
    for observe in observers:
        observe(source, manager, evaluation)


def _elements(count: int) -> str:
    return "1 element was" if count == 1 else f"{count} elements were"
