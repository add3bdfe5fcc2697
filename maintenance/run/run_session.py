"""A run from texts: the query, what feeds its streams, its graphs and its sources, put together."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.journal.query_journal import QueryJournal
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.query.model import Operator, Query
from freshkeeper.maintenance.rdf.rdf_files import load_graph
from freshkeeper.maintenance.rsp.engine import Engine
from freshkeeper.maintenance.rsp.r2s import Result
from freshkeeper.maintenance.rsp.watermark import Inputs
from freshkeeper.maintenance.rsp.window_dataset import Graphs
from freshkeeper.maintenance.run.input_checks import check_inputs, unused
from freshkeeper.maintenance.run.run_config import RunConfig
from freshkeeper.maintenance.service.source_config import SourceConfig, read_config
from freshkeeper.maintenance.service.sources import Source, load_source, source_of
from freshkeeper.maintenance.service_join.build import DEFAULTS, MaintenanceSettings, Observer, Shares, build
from freshkeeper.maintenance.service_join.service_solutions import Fetch
from freshkeeper.maintenance.settings.addresses import shown
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.opening import is_live, open_stream
from freshkeeper.maintenance.streams.pace import Pace, Paced, speed_of
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_lines import Mistakes
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.registry import make


@dataclass(eq=False)
class Session:
    """One query run from beginning to end."""

    config: RunConfig
    """everything, its `query` being the text"""
    query: Query
    tell: Callable[[str], None] = field(default=lambda _: None)
    observers: Sequence[Observer] = ()
    """who is told of every evaluation of a view, beside the journal"""
    command: str = ""
    """how to do this again, for run.json"""

    def __post_init__(self) -> None:
        """Find mistakes before anything runs."""
        config = self.config
        check_inputs(config.query, self.query, config.streams, config.graph_files, config.sources)
        self._mistakes = Mistakes(config.on_error, tell=self.tell)
        graphs = {name: load_graph(Path(file)) for name, file in config.graph_files.items()}
        self._held = ExitStack()
        try:
            self._state = self._open_state()
            self._wire(graphs)
        except BaseException:
            self._held.close()
            raise

    def _wire(self, graphs: Graphs) -> None:
        about = About.of_queries(self.config.seed, self.command, self._settings())
        self._journal = QueryJournal(self.config.seed, self.config.journal, self._state, about)
        self._held.callback(self._journal.release)
        self._opened = self._sources()
        for source in self._opened.values():
            self._held.callback(source.transport.close)
        settings = self._maintenance([self._journal.observe, *self.observers])
        self._query = build(self.query, graphs, self.config.t0, sources=self._opened, settings=settings)
        if self._state is not None:
            self._state.settle()
            self._query.done = self._state.answered
            self._query.streamer.before = self._state.streamed or self._query.streamer.before
        self._engine = Engine([self._query], self.config.drain, Inputs(self.config.gap, self._mistakes))
        speed = speed_of(self.config.speed)
        pace = None if speed is None else Pace(speed, after=self._query.done)
        for name in dict.fromkeys(window.stream for window in self.query.windows):
            written = self.config.streams[name]
            stream = open_stream(written, self._mistakes, Steps(self.config.gap, self._query.done))
            idle = self.config.idle / 1000 if self.config.idle is not None and is_live(written) else None
            self._engine.listen(name, stream if pace is None else Paced(stream, pace), self.config.delay, idle)
        for line in unused(self.query, self.config.streams, self.config.graph_files, self.config.sources):
            self.tell(line)

    @property
    def goes_on(self) -> bool:
        """Whether an earlier run has answered."""
        return self._state is not None and self._state.answered is not None

    @property
    def torn(self) -> bool:
        """Whether an earlier run may have ended within an answer."""
        return self._state is not None and self._state.torn

    def results(self) -> Generator[Result, None, None]:
        """Every evaluation's result; whoever asks for the next one has put it out."""
        try:
            for result in self._engine.run():
                if self._state is not None:
                    self._state.answering(result.t)
                yield result
                self._answered(result)
                self._journal.tick()
        finally:
            try:
                self._journal.close()
            finally:
                self._held.close()

    def _answered(self, result: Result) -> None:
        if self._state is not None:
            compared = self.query.operator is not Operator.RSTREAM
            self._state.answer(result.t, self._query.streamer.before if compared else None)

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
        if self.config.fetch != Fetch.VIEW:
            raise ConfigError(f"--state keeps views, and --fetch {self.config.fetch} has none")
        if not self.query.windows:
            raise ConfigError("--state is for queries with windows: this one is evaluated once")
        state = State.open(self.config.state, self.config.query, list(self.config.sources))
        self._held.callback(state.close)
        return state

    def news(self) -> Iterator[str]:
        """What a person should know at the end."""
        if late := self._engine.late:
            yield f"{_elements(late)} too late and left out; --delay says how long to wait"
        if skipped := self._mistakes.count:
            yield f"{_elements(skipped)} unreadable and skipped"

    def _sources(self) -> dict[str, Source]:
        sources = {
            name: source_of(written) if isinstance(written, SourceConfig) else load_source(written)
            for name, written in self.config.sources.items()
        }
        for name, predicates in self.config.volatile.items():
            sources[name] = replace(sources[name], volatile=tuple(predicates))
        return sources

    def _maintenance(self, observers: Sequence[Observer]) -> MaintenanceSettings:
        if self.config.audit and self.config.fetch != Fetch.VIEW:
            raise ConfigError(f"--audit checks answers of a view, and --fetch {self.config.fetch} has none")
        return MaintenanceSettings(
            lambda case: make(self.config.policy or DEFAULTS[case]),
            BudgetRule.of(self.config.budget, self.config.bank),
            fetch=self.config.fetch,
            capacity=self.config.capacity,
            seed=self.config.seed,
            edges=self.config.edges == "refreshed",
            audit=self.config.audit,
            shares=Shares(self.config.weights, self.config.minimum) if self.config.shared else None,
            observe=partial(_tell, observers),
            state=self._state,
            speed=speed_of(self.config.speed) or 1,
        )


def _tell(observers: Sequence[Observer], source: str, manager: Manager, evaluation: Evaluation) -> None:
    source = shown(source)
    for observe in observers:
        observe(source, manager, evaluation)


def _elements(count: int) -> str:
    return "1 element was" if count == 1 else f"{count} elements were"
