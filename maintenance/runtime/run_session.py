"""A run from texts: its queries, what feeds their streams, their graphs and sources, put together."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.target_news import target_news
from freshkeeper.maintenance.engine.automaton.matched_queries import MatchedQueries
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    Observer,
)
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition, RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.observe.traces import Traces
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.runtime.graph_watch import GraphWatch
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.runtime.query_runtime import QueryRuntime, failure_text, observe_all, open_sources
from freshkeeper.maintenance.runtime.query_set import check_inputs, unused
from freshkeeper.maintenance.runtime.run_config import RunConfig
from freshkeeper.maintenance.runtime.stream_places import StreamPlaces
from freshkeeper.maintenance.sources.source_config import read_config
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.inputs import Inputs
from freshkeeper.maintenance.streams.live.feed import LinkStatus
from freshkeeper.maintenance.streams.opening import is_live, open_stream
from freshkeeper.maintenance.streams.pace import Pace, Paced, speed_of
from freshkeeper.maintenance.streams.read_errors import ReadErrors

HINT_LARGER_BUDGET = "a larger --budget or --bank fetches it sooner"
HINT_FOLLOW = (
    "a query without a window is answered once; `freshkeeper follow` answers one over fragments that say how long they "
    "hold, and again whenever that is over"
)
MAX_NAMES = 3
"""How many queries of a template a message names."""


@dataclass(eq=False)
class Session:
    """Runs a query, or several with names, to the end of their streams; of several, those that fail are left out."""

    config: RunConfig
    """the whole config; for one query, `query` is its text"""
    queries: Query | Sequence[RegisteredQuery]
    log: Callable[[str], None] = field(default=lambda _: None)
    """is called with messages for people"""
    observers: Sequence[Observer] = ()
    """are called with every evaluation of a view, beside the journal"""
    command: str = ""
    """the command that repeats the run, for run.json"""
    failures: dict[str, Exception] = field(default_factory=dict)
    """queries that cannot run, or failed while they ran"""
    failed_fetches: int = 0
    missed: int = 0
    """the number of answers that were dropped, since an entry had not been fetched yet"""
    marked: int = 0
    """the number of answers that were given without an entry that had not been fetched yet"""
    failed_rounds: int = 0
    """the number of evaluations of a view whose policy failed"""
    _targets: dict[str, Manager] = field(default_factory=dict)
    """views with a target, by source"""
    _dropping: list[str] = field(default_factory=list)
    """reasons why queries drop answers"""

    def __post_init__(self) -> None:
        """Check all queries, then open state, sources, graphs and streams."""
        self._several = not isinstance(self.queries, Query)
        if isinstance(self.queries, Query):
            definition = QueryDefinition(query=self.config.query)
            self._left = [RegisteredQuery(self.queries, definition=definition)]
        else:
            self._left = list(self.queries)
        self._by_name = {name: one for one in self._left for name in one.names}
        for one in list(self._left):
            self._check_or_leave_out(one)
        self._require_a_query()
        self._read_errors = ReadErrors(self.config.on_error, notify=self.log)
        files = {name: Path(file) for name, file in self.config.graph_files.items()}
        graphs = StaticGraphs(Dictionary(), dict(files))
        self.watch = GraphWatch(graphs, files, self.log)
        graphs.load()
        # Closed in reverse: spans and sources before the state and the journal that record them.
        self._resources = ExitStack()
        try:
            self._open(graphs)
        except BaseException:
            self._resources.close()
            raise

    def _open(self, graphs: StaticGraphs) -> None:
        config = self.config
        state = self._open_state()
        about = About.of_queries(config.seed, self.command, self._settings())
        self._journal = QueryJournal(config.seed, config.journal, state, about)
        self._resources.callback(self._journal.release)
        sources = open_sources(config.sources, config.volatile)
        for source in sources.values():
            self._resources.callback(source.transport.close)
        inputs = Inputs(config.gap, self._read_errors)
        engine = Engine([], config.drain, inputs, self._leave_out_failed if self._several else None)
        self.runtime = QueryRuntime(
            engine=engine,
            graphs=graphs,
            sources=sources,
            state=state,
            journal=self._journal,
            start=config.t0,
            evaluator=config.evaluator,
            on_result=self._count,
        )
        self._build()
        self._require_a_query()
        if config.traces:
            traces = Traces(config.traces)
            self._resources.callback(traces.close)
            traces.follow(sources)
            engine.spans = traces
        built = list(self.runtime.queries.values())
        self._places = StreamPlaces(built, state, self.log)
        self._listen(_answered_by_all(built))
        queries = [one.query for one in self._left]
        for line in unused(queries, config.streams, config.graph_files, config.sources):
            self.log(line)
        has_fragments = any(source.pages for source in sources.values())
        if has_fragments and any(not query.windows for query in queries):
            self.log(HINT_FOLLOW)

    def _build(self) -> None:
        settings = self._maintenance([self._journal.observe, *self.observers])
        queries = [self._with_defaults(one, settings) for one in self._left]

        def leave_out(one: RegisteredQuery, error: Exception) -> None:
            if not self._several:
                raise error
            self._leave_out(self._by_name[one.name], error)

        for query in self.runtime.build(queries, leave_out, quiet=self._several and not self.config.empty):
            self.runtime.add(query)

    def _with_defaults(self, one: RegisteredQuery, settings: MaintenanceSettings) -> RegisteredQuery:
        """Give a query the limits and settings of the run, where it has none of its own."""
        limits = {
            name: getattr(self.config, name) for name in ("limit", "most_rows") if getattr(one.definition, name) is None
        }
        definition = one.definition.model_copy(update=limits)
        return replace(one, settings=definition.settings(settings), definition=definition)

    def _listen(self, done: int | None) -> None:
        speed = speed_of(self.config.speed)
        pace = None if speed is None else Pace(speed, after=done)
        names = (window.stream for one in self._left for window in one.query.windows)
        for name in dict.fromkeys(names):
            written = self.config.streams[name]
            steps = GapLimit(self.config.gap, done)
            reception = self._places.reception(name, self.config.on_loss)
            stream = open_stream(written, self._read_errors, steps, reception, self.config.blank_nodes)
            self._places.follow(name, stream)
            idle = self.config.idle_seconds if is_live(written) else None
            self.runtime.listen(name, stream if pace is None else Paced(stream, pace), self.config.delay, idle)

    @property
    def waits(self) -> bool:
        """Tells if the run waits for elements and evaluates nothing."""
        return self.runtime.engine.reading

    def before_waiting(self, check: Callable[[], None]) -> None:
        """Let the run call a function whenever it is about to wait for elements."""
        self.runtime.engine.before_reading = check

    @property
    def links(self) -> dict[str, LinkStatus]:
        """The connections of streams over a network."""
        return self._places.links

    def before(self, query: str = "") -> tuple[bool, bool]:
        """Return whether an earlier run answered a query, and whether its last answer may be partial."""
        progress = self.runtime.progress(query)
        if progress is None:
            return False, False
        return progress.answered is not None, progress.answering is not None

    @property
    def has_all_results(self) -> bool:
        """Tells if every evaluation gives a result, so that no result means no evaluation."""
        return not any(
            isinstance(query, MatchedQueries) or (isinstance(query, MovingQuery) and query.quiet)
            for query in self.runtime.queries.values()
        )

    @property
    def is_resumed(self) -> bool:
        """Tells if an earlier run has answered."""
        return any(self.before(one.name)[0] for one in self._left)

    @property
    def may_be_partial(self) -> bool:
        """Tells if the last answer of an earlier run may be partial."""
        return any(self.before(one.name)[1] for one in self._left)

    def results(self) -> Generator[Result, None, None]:
        """Yield the result of every evaluation; it counts as answered when the next one is requested."""
        if self.config.watch is not None:
            self.watch.start(self.config.watch / 1000)
        try:
            yield from self.runtime.results()
        finally:
            self.watch.stop()
            self._places.close()
            try:
                self._journal.close()
            finally:
                self._resources.close()

    def _count(self, result: Result, _: float) -> None:
        # Failures of views that several queries may share are counted where the view is evaluated.
        if not self._several or self._fetch(self._by_name[result.query]) is not Fetch.VIEW:
            self.failed_fetches += result.errors
        self._places.answered(result.query, result.t)

    def _check_or_leave_out(self, one: RegisteredQuery) -> None:
        try:
            self._check(one)
        except FreshkeeperError as error:
            if not self._several:
                raise
            self._leave_out(one, error)

    def _check(self, one: RegisteredQuery) -> None:
        config, fetch = self.config, self._fetch(one)
        check_inputs(one.text, one.query, config.streams, config.graph_files, config.sources)
        if config.state is not None and not one.query.windows:
            raise ConfigError("--state is for queries with windows: this one is evaluated once")
        if config.state is not None and fetch is not Fetch.VIEW:
            raise ConfigError(f"--state keeps views, and --fetch {fetch} has none")
        if config.target is not None and fetch is not Fetch.VIEW:
            raise ConfigError(f"--target keeps a view fresh, and --fetch {fetch} has none")
        if config.audit and fetch is not Fetch.VIEW:
            raise ConfigError(f"--audit checks answers of a view, and --fetch {fetch} has none")

    def _leave_out(self, failed: RegisteredQuery, error: Exception) -> None:
        """Go on without a query."""
        self.failures |= dict.fromkeys(failed.names, error)
        self._left = [one for one in self._left if one is not failed]
        names = ", ".join(failed.names[:MAX_NAMES])
        if len(failed.names) > MAX_NAMES:
            names += f" and {len(failed.names) - MAX_NAMES} more"
        queries = f"the queries {names} are"
        if len(failed.names) == 1:
            queries = f"the query {names} is"
        self.log(f"{queries} left out: {failure_text(error)}")

    def _leave_out_failed(self, query: ContinuousQuery, error: Exception) -> None:
        """Go on without all queries that one evaluation stands for."""
        for one in {self._by_name[name]: None for name in query.names}:
            self._leave_out(one, error)

    def _require_a_query(self) -> None:
        if not self._left:
            raise ConfigError(f"none of the {len(self.failures)} queries can run")

    def _fetch(self, one: RegisteredQuery) -> Fetch:
        return one.definition.fetch or self.config.fetch

    def _observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        if isinstance(manager.ledger.income, TargetIncome):
            self._targets[source] = manager
        self.failed_fetches += evaluation.record.errors * self._several
        self.missed += evaluation.record.missed
        self.marked += evaluation.record.marked
        if manager.runner.error:
            if not self.failed_rounds:
                self.log(f"{manager.runner.error}; its evaluations refresh nothing")
            self.failed_rounds += 1

    def _settings(self) -> dict[str, object]:
        """Return all settings of the run, with those in the files of its sources."""
        files = {name: written for name, written in self.config.sources.items() if isinstance(written, str)}
        settings = {
            name: read_config(Path(file)).model_dump(mode="json", exclude_defaults=True)
            for name, file in files.items()
            if file.lower().endswith((".yaml", ".yml"))
        }
        return self.config.model_dump(mode="json") | {"source_files": settings}

    def _open_state(self) -> State | None:
        if self.config.state is None:
            return None
        texts = {one.name: one.text for one in self._left} if self._several else self.config.query
        state = State.open(self.config.state, texts, list(self.config.sources))
        self._resources.callback(state.close)
        return state

    def summary(self) -> Iterator[str]:
        """Yield messages about the whole run, at its end."""
        if late := self.runtime.engine.late:
            yield f"{_elements(late)} too late and left out; --delay says how long to wait"
        if skipped := self._read_errors.count:
            yield f"{_elements(skipped)} unreadable and skipped"
        if self.marked:
            marked = f"{self.marked:,} answers were given without what had not been fetched for them yet"
            yield f"{marked}, and are marked as not fresh; {HINT_LARGER_BUDGET}"
        if self.missed:
            missed = f"{self.missed:,} answers were not given because what they need had not been fetched yet"
            if self._dropping:
                missed += f" ({self._dropping[0]})"
            yield f"{missed}; {HINT_LARGER_BUDGET}"
        if self.failed_rounds:
            yield f"the policy failed in {self.failed_rounds:,} evaluations, which refreshed nothing"
        for each in self.runtime.sources.values():
            yield from each.transport.warnings()
        for source, manager in self._targets.items():
            yield target_news(source if len(self._targets) > 1 else "", manager)
        if self.failures:
            failed = len(self.failures)
            total = failed + sum(len(one.names) for one in self._left)
            yield f"{failed} of {total} queries failed: {', '.join(self.failures)}"

    def _maintenance(self, observers: Sequence[Observer]) -> MaintenanceSettings:
        config = self.config
        observe = observe_all([self._observe, *observers])
        settings = MaintenanceSettings.of(config, observe, self.runtime.state, minimum=config.minimum)
        return replace(
            settings,
            fetch=config.fetch,
            missing=config.missing,
            dropping=self._dropping.append,
            speed=speed_of(config.speed) or 1,
            skips_policy_errors=config.on_policy_error == "skip",
        )


def _answered_by_all(queries: Sequence[ContinuousQuery]) -> int | None:
    """Return the last instant that an earlier run answered for all queries; None if it lacks some query."""
    instants = [query.done for query in queries]
    done = [instant for instant in instants if instant is not None]
    if len(done) == len(instants):
        return min(done)
    return None


def _elements(count: int) -> str:
    if count == 1:
        return "1 element was"
    return f"{count} elements were"
