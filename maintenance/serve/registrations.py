"""The queries of a service by name: how each is built, what its views are called in the state, how far it is."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from freshkeeper.maintenance.base.errors import ConfigError, UnknownNameError
from freshkeeper.maintenance.cache.budget.shared_budget import Member
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.engine.native.explain_plan import explain_plan
from freshkeeper.maintenance.engine.native.shared_windows import SharedWindows
from freshkeeper.maintenance.engine.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.r2s import Answers
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, Registration
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.service_join.shared_views import Views
from freshkeeper.maintenance.query.explain import explain
from freshkeeper.maintenance.query.model import Operator, Query, WindowKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build_all
from freshkeeper.maintenance.runtime.input_checks import check_inputs
from freshkeeper.maintenance.runtime.progress import Progress
from freshkeeper.maintenance.runtime.query_set import NAME
from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.event_order import NEVER


@dataclass(frozen=True)
class Registered:
    """One query: its text, and where the state has its views."""

    number: int
    """of all that were ever registered"""
    name: str
    text: str
    dialect: str
    first: int
    """the number of its first view in the state"""
    views: int
    """how many it may have"""
    configured: bool = False
    """whether it is from the config, and goes with it"""

    def written(self) -> dict[str, Any]:
        """As the log has it."""
        return asdict(self)

    @classmethod
    def read(cls, head: Mapping[str, Any]) -> "Registered":
        """A registration as the head of its record in the log has it."""
        names = ("number", "name", "text", "dialect", "first", "views")
        return cls(**{name: head[name] for name in names}, configured=head.get("configured", False))


@dataclass(eq=False)
class Registrations:
    """All of them, and what they have in common."""

    settings: MaintenanceSettings
    sources: Mapping[str, Source]
    graphs: StaticGraphs
    streams: Mapping[str, object]
    state: State
    answers: AnswerLog
    dialect: str = ""
    """of queries that do not say theirs; empty: as they look"""
    most: int = 1_000
    longest: int = 100_000
    """characters of a query"""
    windows: SharedWindows = field(default_factory=SharedWindows)
    """those that one more query may have"""
    all: dict[str, Registered] = field(default_factory=dict)
    running: dict[str, ContinuousQuery] = field(default_factory=dict)
    _used: dict[str, list[tuple[str, ServiceView]]] = field(default_factory=dict)
    """the views of each query that was built, with their sources"""
    _count: int = 0
    _views: int = 0

    @property
    def dictionary(self) -> Dictionary:
        """The one that all queries share."""
        return self.graphs.dictionary

    def new(self, name: str, text: str, dialect: str, configured: bool = False) -> Registered:
        """One that is not there yet."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"a query is called {name!r}: take letters, digits, '_', '-' and '.'")
        if name in self.all:
            raise NameInUseError(f"there is a query {name} already: delete it first, or take another name")
        if len(self.all) >= self.most:
            raise FullError(f"there are {self.most} queries, which is as many as may be: delete one first")
        patterns = len(self.checked(text, dialect).outer_services)
        return self.known(Registered(self._count, name, text, dialect, self._views, patterns, configured))

    def known(self, one: Registered) -> Registered:
        """One that has its number; later ones have larger ones."""
        self._count, self._views = max(self._count, one.number + 1), max(self._views, one.first + one.views)
        return one

    def checked(self, text: str, dialect: str) -> Query:
        """What a text means; whether a service can run it."""
        if len(text) > self.longest:
            raise ConfigError(f"a query has at most {self.longest:,} characters, and this one has {len(text):,}")
        query = self._parsed(text, dialect)
        check_inputs(text, query, dict.fromkeys(self.streams, ""), dict.fromkeys(self.graphs, ""), self.sources)
        if not query.windows:
            raise ConfigError(
                "a query of a service needs a window: this one would be evaluated once (`freshkeeper follow` asks one "
                "again whenever what it used is over)"
            )
        return query

    @contextmanager
    def with_more(self, streams: Mapping[str, object], sources: Mapping[str, Source]) -> Iterator[None]:
        """Queries may name these from now on; if something goes wrong meanwhile, they may not."""
        before = self.streams, self.sources
        self.streams, self.sources = {**self.streams, **streams}, {**self.sources, **sources}
        try:
            yield
        except BaseException:
            self.streams, self.sources = before
            raise

    def build(self, one: Registered) -> ContinuousQuery:
        """Make it run; what is wrong with it is told."""
        query = self.checked(one.text, one.dialect)
        self.release(one.name)
        had = len(self.state.views)
        views = Views(self.sources, patterns=one.first)
        (built,) = build_all(
            [Registration(query, one.name, self.settings)],
            self.graphs,
            dictionary=self.dictionary,
            views=views,
            windows=self.windows,
        )
        progress = self.progress(one.name)
        built.done = self._answered(query, progress)
        built.streamer.before = progress.streamed or built.streamer.before
        for view in self.state.views[had:]:
            view.settle()
        self.all[one.name] = one
        self._used[one.name] = views.used.get(one.name, [])
        return built

    @property
    def next(self) -> tuple[int, int]:
        """The numbers of the next query and of its first view."""
        return self._count, self._views

    @next.setter
    def next(self, numbers: Sequence[int]) -> None:
        self._count, self._views = numbers

    @property
    def written(self) -> list[dict[str, Any]]:
        """All that there are, as the log has them."""
        return [one.written() | {"paused": one.name not in self.running} for one in self.all.values()]

    def needed(self, latest: int) -> tuple[int, dict[str, int]]:
        """What fills all windows again: elements since an instant, and so many of streams."""
        since, last = latest, dict[str, int]()
        for name, query in self.running.items():
            answered = self.progress(name).answered
            for window in query.query.windows:
                if answered is None or window.range is None:
                    since = NEVER
                elif window.kind is WindowKind.TIME:
                    since = min(since, answered - window.range - window.lag)
                else:
                    last[window.stream] = max(last.get(window.stream, 0), window.range)
        return since, last

    def named(self, name: str) -> Registered:
        """The one of this name."""
        if name not in self.all:
            raise UnknownNameError("query", name, self.all)
        return self.all[name]

    def numbered(self, number: int) -> Registered:
        """The one with this number."""
        return next(one for one in self.all.values() if one.number == number)

    def views_of(self, name: str) -> Sequence[tuple[str, ServiceView]]:
        """The views of a query, with their sources."""
        return self._used.get(name, ())

    def explained(self, one: Registered) -> dict[str, Any]:
        """What it means, and which evaluator runs it."""
        query = self._parsed(one.text, one.dialect)
        volatile = {name: source.volatile for name, source in self.sources.items()}
        wanted, running = explain_plan(query, self.graphs), self.running.get(one.name)
        if running is not None and running.dictionary is None and wanted["kind"] == EvaluatorKind.NATIVE.value:
            reason = "the service asks for what the other one does"
            wanted = {"kind": EvaluatorKind.SNAPSHOT.value, "reason": reason, "line": None, "column": None}
        return {"name": one.name, **explain(query, volatile), "evaluator": wanted}

    def progress(self, name: str) -> Progress:
        """How far it is."""
        return Progress(self.state.base, name)

    def streamed(self, name: str) -> Answers | None:
        """What R2S compares its next answers with."""
        query = self.running[name]
        return None if query.query.operator is Operator.RSTREAM else query.streamer.before

    def release(self, name: str) -> None:
        """A query does not run: its views are no more but in the state, and their budget is the others'."""
        managers = [view.manager for _, view in self._used.pop(name, ())]
        self.state.views = [one for one in self.state.views if one.manager not in managers]
        for manager in managers:
            if isinstance(manager.ledger, Member):
                manager.ledger.shared.leave(manager.ledger)

    def forget(self, one: Registered) -> None:
        """It is no more, and the state forgets its views."""
        self.all.pop(one.name, None)
        self.release(one.name)
        self.state.forget(one.name, range(one.first, one.first + one.views))

    def _answered(self, query: Query, progress: Progress) -> int | None:
        """The last evaluation that is out; one that was cut off is, if its line is whole and none compares with it."""
        rstream, doubtful = query.operator is Operator.RSTREAM, progress.answering
        last = self.answers.truncate_partial_line(progress.query, None if rstream else doubtful)
        if doubtful is not None and last == doubtful:
            progress.answer(doubtful, None)
        return progress.answered

    def _parsed(self, text: str, dialect: str) -> Query:
        return parse(text, dialect or self.dialect or None, streams=list(self.streams))

    def close(self) -> None:
        """Others may have the state; sources are asked no more."""
        for source in self.sources.values():
            source.transport.close()
        self.state.close()


class NameInUseError(ConfigError):
    """A name that is taken."""


class FullError(ConfigError):
    """No more of a thing may be."""
