"""A run from texts: the query, what feeds its streams, its graphs and its sources, put together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from maintenance.budget import BudgetRule
from maintenance.engine.answers import Result
from maintenance.engine.continuous import ContinuousQuery
from maintenance.engine.engine import Engine
from maintenance.engine.graphs import load_graph
from maintenance.engine.journal import QueryJournal
from maintenance.engine.places import check_inputs
from maintenance.engine.services import Fetch
from maintenance.engine.sources import Source, load_source
from maintenance.engine.wiring import Upkeep, answering
from maintenance.query.model import Query
from maintenance.streams.lines import Mistakes, OnError
from maintenance.streams.opening import open_stream
from maintenance.streams.pace import Pace, Paced, speed_of
from policies.base import Case
from policies.errors import ConfigError
from policies.registry import make

DEFAULTS = {Case.BGP: "gain", Case.AGGREGATE: "ibm"}


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
    sources: Mapping[str, str] = field(default_factory=dict)
    volatile: Mapping[str, Sequence[str]] = field(default_factory=dict)
    policy: str = ""
    """"" is the best that handles the case: gain, and ibm for aggregates"""
    budget: float = 10
    bank: float = 0
    fetch: str = "view"
    capacity: int | None = None
    seed: int = 0
    journal: Path | None = None

    def __post_init__(self) -> None:
        """Find mistakes before anything runs."""
        if self.on_error not in list(OnError):
            raise ConfigError(f"--on-error {self.on_error}: it is fail or skip")
        check_inputs(self.text, self.query, self.streams, self.graphs)
        self._mistakes = Mistakes(OnError(self.on_error), tell=self.tell)
        graphs = {name: load_graph(Path(file)) for name, file in self.graphs.items()}
        self._journal = QueryJournal(self.seed, self.journal)
        wired = answering(self._sources(), self._upkeep())
        self._engine = Engine([ContinuousQuery(self.query, graphs, self.start, answering=wired)], self.drain)
        speed = speed_of(self.speed)
        pace = None if speed is None else Pace(speed)
        wanted = {window.stream for window in self.query.windows}
        for name, written in self.streams.items():
            if name in wanted:
                stream = open_stream(written, self._mistakes)
                self._engine.listen(name, stream if pace is None else Paced(stream, pace), self.delay)

    def results(self) -> Iterator[Result]:
        """Every evaluation's result; the journal is written at the end, whatever ends it."""
        try:
            yield from self._engine.run()
        finally:
            self._journal.write()

    def news(self) -> Iterator[str]:
        """What a person should know at the end."""
        if self._engine.late:
            yield f"{self._engine.late} elements came too late and were left out; --delay says how long to wait"
        if self._mistakes.count:
            yield f"{self._mistakes.count} elements could not be read and were skipped"

    def _sources(self) -> dict[str, Source]:
        sources = {name: load_source(written) for name, written in self.sources.items()}
        for name, predicates in self.volatile.items():
            if name not in sources:
                raise ConfigError(f"--volatile names <{name}>, which is no --source")
            sources[name] = replace(sources[name], volatile=tuple(predicates))
        return sources

    def _upkeep(self) -> Upkeep:
        if self.fetch not in list(Fetch):
            raise ConfigError(f"--fetch {self.fetch}: it is view, always or once")
        return Upkeep(
            lambda case: make(self.policy or DEFAULTS[case]),
            BudgetRule.of(self.budget, self.bank),
            fetch=Fetch(self.fetch),
            capacity=self.capacity,
            seed=self.seed,
            observe=self._journal.observe,
        )
