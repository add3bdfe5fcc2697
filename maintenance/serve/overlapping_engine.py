"""An engine whose evaluations wait for their sources concurrently: a slow source delays its own queries only.

While the sources of an evaluation have not answered, the windows of its query stay as they are and its elements wait.
The query is due again when that evaluation is complete; all other queries continue.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.fetching.fetch_jobs import RunningJob, begin_all

T = TypeVar("T")
MAX_SWEEPS_SKIPPED = 1_000
"""How often pending evaluations may keep unused ids from being freed before the engine waits for them."""


@dataclass(eq=False)
class PendingEvaluation:
    """An evaluation that waits for its sources."""

    query: ContinuousQuery
    now: int
    under_way: list[RunningJob]

    def is_ready(self, wait: bool) -> bool:
        """Return whether all sources have answered; with `wait`, wait until they have."""
        while self.under_way and (wait or not any(one.waits for one in self.under_way)):
            self.under_way = [one for one in self.under_way if one.resume()]
        return not self.under_way


@dataclass(eq=False)
class OverlappingEngine(Engine):
    """Evaluates one query at an instant after the other, and several queries as their sources answer."""

    pending: dict[ContinuousQuery, PendingEvaluation] = field(default_factory=dict)
    at_work: str = ""
    """the query that is evaluated; empty between evaluations"""
    _sweeps_skipped: int = 0

    def waits(self, query: ContinuousQuery | None = None) -> bool:
        """Return whether a query, or without one any query, waits for its sources."""
        return bool(self.pending) if query is None else query in self.pending

    def complete_ready(self) -> Iterator[Result]:
        """Yield the results of evaluations whose sources have answered, and of those that are due after them."""
        yield from self._complete()
        yield from self.advance(self.inputs.watermark())

    def settle(self) -> Iterator[Result]:
        """Wait for all pending evaluations and yield their results."""
        yield from self._complete(wait=True)

    def _evaluate_due(
        self, due: Callable[[ContinuousQuery], int | None], until: int = DISTANT_FUTURE
    ) -> Iterator[Result]:
        """Yield results of evaluations before `until`; the sources of one instant get their requests together."""

        def due_if_idle(query: ContinuousQuery) -> int | None:
            return None if query in self.pending else due(query)

        yield from self._complete()
        while (waiting := self._next_evaluation(due_if_idle, until)) is not None:
            now, queries = waiting
            jobs = {query: list(self._prepare(query, now)) for query in queries}
            under_way = begin_all([job for of_query in jobs.values() for job in of_query], now)
            for query in queries:
                open_jobs = [one for one in under_way if one.job in jobs[query]]
                if open_jobs:
                    self.pending[query] = PendingEvaluation(query, now, open_jobs)
                else:
                    yield from self._answer(query, now)
            yield from self._complete()

    def _guarded(self, query: ContinuousQuery, step: Callable[[int], T], now: int) -> T | None:
        self.at_work = query.name
        found = super()._guarded(query, step, now)
        self.at_work = ""
        return found

    def _complete(self, wait: bool = False) -> Iterator[Result]:
        for one in list(self.pending.values()):
            if one.is_ready(wait):
                del self.pending[one.query]
                yield from self._answer(one.query, one.now)

    def _sweep(self) -> Iterator[Result]:
        # Pending evaluations may refer to ids that no window holds any more.
        if self.pending and self._sweeps_skipped < MAX_SWEEPS_SKIPPED:
            self._sweeps_skipped += 1
            return
        yield from self._complete(wait=True)
        self._sweeps_skipped = 0
        yield from super()._sweep()
