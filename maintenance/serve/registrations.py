"""The registered queries of a service by name: running or paused, with their records in the log."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from freshkeeper.maintenance.base.errors import ConfigError, UnknownNameError
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.explain_plan import explain_plan
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition, RegisteredQuery
from freshkeeper.maintenance.query.explain import explain
from freshkeeper.maintenance.query.model import Operator, Query, WindowKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.query_runtime import QueryRuntime, UsedViews
from freshkeeper.maintenance.runtime.query_set import check_inputs
from freshkeeper.maintenance.runtime.stream_places import Progress
from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.state.run_state import State

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}")
"""The names of queries: they are parts of addresses, of file names and of metrics."""


def evaluator_of(query: ContinuousQuery) -> EvaluatorKind:
    """Return which evaluator a query runs on."""
    return EvaluatorKind.NATIVE if query.is_native else EvaluatorKind.SNAPSHOT


def as_record(one: RegisteredQuery) -> dict[str, Any]:
    """Return a registered query as the log of a service has it."""
    return {
        "number": one.number,
        "name": one.name,
        "text": one.text,
        "dialect": one.definition.dialect,
        "first": one.first_view,
        "views": len(one.query.outer_services),
        "configured": one.configured,
    }


@dataclass(eq=False)
class Registrations:
    """The registered queries of a service, running or paused, and the runtime that evaluates them."""

    runtime: QueryRuntime
    settings: MaintenanceSettings
    state: State
    streams: Mapping[str, object]
    answers: AnswerLog
    dialect: str = ""
    """of queries that do not name theirs; empty: detected from the text"""
    max_queries: int = 1_000
    max_characters: int = 100_000
    """of the text of a query"""
    all: dict[str, RegisteredQuery] = field(default_factory=dict)
    _next_number: int = 0
    _next_view: int = 0

    @property
    def running(self) -> dict[str, ContinuousQuery]:
        """The queries that are evaluated, by name."""
        return self.runtime.queries

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources that queries may name."""
        return self.runtime.sources

    @property
    def dictionary(self) -> Dictionary:
        """The ids of terms that all queries share."""
        return self.runtime.graphs.dictionary

    def new(self, name: str, text: str, dialect: str, configured: bool = False) -> RegisteredQuery:
        """Give a new query its number; ConfigError if it cannot be registered."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"a query is called {name[:100]!r}: take letters, digits, '_', '-' and '.', 64 at most")
        if name in self.all:
            raise NameInUseError(f"there is a query {name} already: delete it first, or take another name")
        if len(self.all) >= self.max_queries:
            raise FullError(f"there are {self.max_queries} queries, which is as many as may be: delete one first")
        record = {"number": self._next_number, "name": name, "text": text, "dialect": dialect}
        one = self._from_record(record | {"first": self._next_view, "configured": configured})
        self.count(as_record(one))
        return one

    def restored(self, record: Mapping[str, Any]) -> RegisteredQuery:
        """Read a query from its record in the log."""
        self.count(record)
        return self._from_record(record)

    def count(self, record: Mapping[str, Any]) -> None:
        """Give later queries and their views larger numbers than those of a record."""
        self._next_number = max(self._next_number, record["number"] + 1)
        self._next_view = max(self._next_view, record["first"] + record["views"])

    def checked(self, text: str, dialect: str) -> Query:
        """Parse a text; ConfigError if the service cannot run it."""
        if len(text) > self.max_characters:
            raise ConfigError(f"a query has at most {self.max_characters:,} characters, and this one has {len(text):,}")
        query = parse(text, dialect or self.dialect or None, streams=list(self.streams))
        graphs = dict.fromkeys(self.runtime.graphs, "")
        check_inputs(text, query, dict.fromkeys(self.streams, ""), graphs, self.sources)
        if not query.windows:
            raise ConfigError(
                "a query of a service needs a window: this one would be evaluated once (`freshkeeper follow` asks one "
                "again whenever what it used is over)"
            )
        return query

    @contextmanager
    def with_more(self, streams: Mapping[str, object], sources: Mapping[str, Source]) -> Iterator[None]:
        """Let queries name these streams and sources; take them back if the block raises."""
        before = self.streams, self.sources
        self.streams, self.runtime.sources = {**self.streams, **streams}, {**self.sources, **sources}
        try:
            yield
        except BaseException:
            self.streams, self.runtime.sources = before
            raise

    def build(self, one: RegisteredQuery) -> ContinuousQuery:
        """Build a query, which the runtime evaluates from `add` on."""
        self.runtime.release(one.name)
        self._complete_answers(one)
        (built,) = self.runtime.build([one])
        self.all[one.name] = one
        return built

    def parsed_again(self, one: RegisteredQuery) -> RegisteredQuery:
        """Parse a query once more: one that reads any stream may have more of them now."""
        return replace(one, query=self.checked(one.text, one.definition.dialect))

    @property
    def next_numbers(self) -> tuple[int, int]:
        """The numbers of the next query and of its first view."""
        return self._next_number, self._next_view

    @next_numbers.setter
    def next_numbers(self, numbers: Sequence[int]) -> None:
        self._next_number, self._next_view = numbers

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of all queries, for a snapshot of the log."""
        return [as_record(one) | {"paused": one.name not in self.running} for one in self.all.values()]

    def needed(self, latest: int) -> tuple[int, dict[str, int]]:
        """Return what fills all windows again: elements since an instant, and a number of elements by stream."""
        since, last = latest, dict[str, int]()
        for name, query in self.running.items():
            answered = self.progress(name).answered
            for window in query.query.windows:
                if answered is None or window.range is None:
                    since = DISTANT_PAST
                elif window.kind is WindowKind.TIME:
                    since = min(since, answered - window.range - window.lag)
                else:
                    last[window.stream] = max(last.get(window.stream, 0), window.range)
        return since, last

    def find(self, name: str) -> RegisteredQuery:
        """Return the query of a name."""
        if name not in self.all:
            raise UnknownNameError("query", name, self.all)
        return self.all[name]

    def numbered(self, number: int) -> RegisteredQuery:
        """Return the query with a number."""
        return next(one for one in self.all.values() if one.number == number)

    def views_of(self, name: str) -> UsedViews:
        """Return the views of a query, with their sources."""
        return self.runtime.views_of(name)

    def explained(self, one: RegisteredQuery) -> dict[str, Any]:
        """Explain what a query means, and which evaluator runs it."""
        volatile = {name: source.volatile for name, source in self.sources.items()}
        plan, running = explain_plan(one.query, self.runtime.graphs), self.running.get(one.name)
        if (
            running is not None
            and evaluator_of(running) is EvaluatorKind.SNAPSHOT
            and plan["kind"] == EvaluatorKind.NATIVE.value
        ):
            reason = "the service asks for what the other one does"
            plan = {"kind": EvaluatorKind.SNAPSHOT.value, "reason": reason, "line": None, "column": None}
        return {"name": one.name, **explain(one.query, volatile), "evaluator": plan}

    def progress(self, name: str) -> Progress:
        """Return how far the answers of a query are out."""
        return Progress(self.state.base, name)

    def forget(self, one: RegisteredQuery) -> None:
        """Remove a query, and its views from the state."""
        self.all.pop(one.name, None)
        self.runtime.release(one.name)
        views = range(one.first_view, one.first_view + len(one.query.outer_services))
        self.state.forget(one.name, views)

    def _from_record(self, record: Mapping[str, Any]) -> RegisteredQuery:
        return RegisteredQuery(
            self.checked(record["text"], record["dialect"]),
            record["name"],
            self.settings,
            QueryDefinition(query=record["text"], dialect=record["dialect"]),
            number=record["number"],
            first_view=record["first"],
            configured=record.get("configured", False),
        )

    def _complete_answers(self, one: RegisteredQuery) -> None:
        """Make the answer file and the state agree on the last answered evaluation.

        A crash may leave an evaluation begun. It counts as answered if its line is whole, and is answered again
        otherwise. Where R2S compares answers, its line is removed: what it was compared with is lost.
        """
        progress = self.progress(one.name)
        unsure = progress.answering
        to_remove = unsure
        if one.query.operator is Operator.RSTREAM:
            to_remove = None  # it compares with nothing: a whole line counts
        last = self.answers.truncate_partial_line(one.name, to_remove)
        if unsure is not None and last == unsure:
            progress.answer(unsure, None)


class NameInUseError(ConfigError):
    """A query cannot be registered under the name of another one."""


class FullError(ConfigError):
    """A query cannot be registered beside as many as permitted."""
