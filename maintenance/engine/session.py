"""A run from texts: the query, what feeds its streams, its graphs and its sources, put together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from maintenance.budget import BudgetRule
from maintenance.engine.about import About
from maintenance.engine.answers import Result
from maintenance.engine.config import RunConfig
from maintenance.engine.continuous import ContinuousQuery
from maintenance.engine.dataset import Graphs
from maintenance.engine.engine import Engine
from maintenance.engine.graphs import load_graph
from maintenance.engine.journal import QueryJournal
from maintenance.engine.places import check_inputs, unused
from maintenance.engine.services import Fetch
from maintenance.engine.sources import Source, load_source, source_of
from maintenance.engine.wiring import DEFAULTS, Observer, Shares, Upkeep, answering
from maintenance.evaluation import Evaluation
from maintenance.manager import Manager
from maintenance.query.model import Operator, Query
from maintenance.service.config import SourceConfig, read_config
from maintenance.state.state import State
from maintenance.streams.lines import Mistakes, OnError
from maintenance.streams.opening import is_live, open_stream
from maintenance.streams.pace import Pace, Paced, speed_of
from policies.errors import ConfigError
from policies.registry import make


@dataclass(eq=False)
class Session:
    """One query run from beginning to end."""

    text: str
    query: Query
    streams: Mapping[str, str] = field(default_factory=dict)
    graphs: Mapping[str, str] = field(default_factory=dict)
    delay: int = 0
    start: int = 0
    drain: bool = False
    on_error: str = "fail"
    speed: str = "max"
    tell: Callable[[str], None] = field(default=lambda _: None)
    sources: Mapping[str, str | SourceConfig] = field(default_factory=dict)
    volatile: Mapping[str, Sequence[str]] = field(default_factory=dict)
    policy: str = ""
    """"" is the best that handles the case: gain, and ibm for aggregates"""
    budget: float = 10
    bank: float = 0
    fetch: str = "view"
    capacity: int | None = None
    seed: int = 0
    journal: Path | None = None
    audit: float = 0
    shares: Shares | None = None
    observers: Sequence[Observer] = ()
    """who is told of every evaluation of a view, beside the journal"""
    edges: bool = False
    idle: float | None = None
    """seconds of silence after which a live stream holds the others back no longer"""
    state: Path | None = None
    """where views, change knowledge and accounts are kept over a restart"""
    command: str = ""
    """how to do this again, for run.json"""

    def __post_init__(self) -> None:
        """Find mistakes before anything runs."""
        if self.on_error not in list(OnError):
            raise ConfigError(f"--on-error {self.on_error}: it is fail or skip")
        check_inputs(self.text, self.query, self.streams, self.graphs, self.sources)
        self._mistakes = Mistakes(OnError(self.on_error), tell=self.tell)
        graphs = {name: load_graph(Path(file)) for name, file in self.graphs.items()}
        self._opened: dict[str, Source] = {}
        self._state = self._open_state()
        try:
            self._wire(graphs)
        except BaseException:
            self._close()
            raise

    def _wire(self, graphs: Graphs) -> None:
        about = About(self.seed, self.command, self._settings())
        self._journal = QueryJournal(self.seed, self.journal, self._state, about)
        self._opened = self._sources()
        wired = answering(self._opened, self._upkeep())
        self._query = ContinuousQuery(self.query, graphs, self.start, answering=wired)
        if self._state is not None:
            self._state.settle()
            self._query.done = self._state.answered
            self._query.streamer.before = self._state.streamed or self._query.streamer.before
        self._engine = Engine([self._query], self.drain)
        speed = speed_of(self.speed)
        pace = None if speed is None else Pace(speed, after=self._query.done)
        for name in dict.fromkeys(window.stream for window in self.query.windows):
            written = self.streams[name]
            stream = open_stream(written, self._mistakes)
            idle = self.idle if is_live(written) else None
            self._engine.listen(name, stream if pace is None else Paced(stream, pace), self.delay, idle)
        for line in unused(self.query, self.streams, self.graphs, self.sources):
            self.tell(line)

    def results(self) -> Iterator[Result]:
        """Every evaluation's result; whoever asks for the next one has put it out."""
        try:
            for result in self._engine.run():
                yield result
                self._answered(result)
                self._journal.tick()
        finally:
            try:
                self._journal.close()
            finally:
                self._close()

    def _answered(self, result: Result) -> None:
        if self._state is not None:
            compared = self.query.operator is not Operator.RSTREAM
            self._state.answer(result.t, self._query.streamer.before if compared else None)

    def _settings(self) -> dict[str, object]:
        """All settings of the run, and what the sources' files say."""
        left_out = ("text", "query", "tell", "observers", "sources")
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name not in left_out}
        plain = {name: written for name, written in self.sources.items() if isinstance(written, str)}
        said = {name: written for name, written in self.sources.items() if isinstance(written, SourceConfig)}
        said |= {name: read_config(Path(f)) for name, f in plain.items() if f.lower().endswith((".yaml", ".yml"))}
        told = {name: config.model_dump(mode="json", exclude_defaults=True) for name, config in said.items()}
        return {"query": self.text, **own, "sources": plain, "source_files": told}

    def _open_state(self) -> State | None:
        if self.state is None:
            return None
        if self.fetch != Fetch.VIEW:
            raise ConfigError(f"--state keeps views, and --fetch {self.fetch} has none")
        if not self.query.windows:
            raise ConfigError("--state is for queries with windows: this one is evaluated once")
        return State.open(self.state, self.text, list(self.sources))

    def _close(self) -> None:
        for source in self._opened.values():
            source.transport.close()
        if self._state is not None:
            self._state.close()

    def news(self) -> Iterator[str]:
        """What a person should know at the end."""
        if late := self._engine.late:
            yield f"{_elements(late)} too late and left out; --delay says how long to wait"
        if skipped := self._mistakes.count:
            yield f"{_elements(skipped)} unreadable and skipped"

    def _sources(self) -> dict[str, Source]:
        sources = {
            name: source_of(written) if isinstance(written, SourceConfig) else load_source(written)
            for name, written in self.sources.items()
        }
        for name, predicates in self.volatile.items():
            if name not in sources:
                raise ConfigError(f"--volatile names <{name}>, which is no --source")
            sources[name] = replace(sources[name], volatile=tuple(predicates))
        return sources

    def _observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        self._journal.observe(source, manager, evaluation)
        for observe in self.observers:
            observe(source, manager, evaluation)

    def _upkeep(self) -> Upkeep:
        if self.fetch not in list(Fetch):
            raise ConfigError(f"--fetch {self.fetch}: it is view, always or once")
        if self.audit and self.fetch != Fetch.VIEW:
            raise ConfigError(f"--audit checks answers of a view, and --fetch {self.fetch} has none")
        return Upkeep(
            lambda case: make(self.policy or DEFAULTS[case]),
            BudgetRule.of(self.budget, self.bank),
            fetch=Fetch(self.fetch),
            capacity=self.capacity,
            seed=self.seed,
            edges=self.edges,
            audit=self.audit,
            shares=self.shares,
            observe=self._observe,
            state=self._state,
            speed=speed_of(self.speed) or 1,
        )


def _elements(count: int) -> str:
    return "1 element was" if count == 1 else f"{count} elements were"


def session_of(
    config: RunConfig,
    text: str,
    query: Query,
    tell: Callable[[str], None],
    command: str = "",
    observers: Sequence[Observer] = (),
) -> Session:
    """The session that a config describes, for a query that was read."""
    return Session(
        text,
        query,
        streams=config.streams,
        graphs=config.graphs | ({"": config.default} if config.default else {}),
        delay=config.delay,
        start=config.t0,
        drain=config.drain,
        on_error=config.on_error,
        speed=config.speed,
        tell=tell,
        sources=config.sources,
        volatile=config.volatile,
        policy=config.policy,
        budget=config.budget,
        bank=config.bank,
        fetch=config.fetch,
        capacity=config.capacity,
        seed=config.seed,
        journal=Path(config.journal) if config.journal else None,
        audit=config.audit,
        shares=Shares(config.weights, config.minimum) if config.shared else None,
        observers=observers,
        edges=config.edges == "refreshed",
        idle=None if config.idle is None else config.idle / 1000,
        state=Path(config.state) if config.state else None,
        command=command,
    )
