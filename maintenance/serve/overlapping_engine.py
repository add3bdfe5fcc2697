"""An engine whose evaluations wait for their sources concurrently: a slow source delays its own queries only.

While the sources of an evaluation have not answered, the windows of its query stay as they are and its elements wait.
The query is due again when that evaluation is complete; all other queries continue.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.continuous_query import BatchedQuery, ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimitError
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.windows import TimeWindow
from freshkeeper.maintenance.fetching.fetch_jobs import RunningJob, begin_all
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.query.model import Report
from freshkeeper.maintenance.serve.watchdog import Watchdog

T = TypeVar("T")
MAX_SWEEPS_SKIPPED = 1_000
"""How often pending evaluations may keep unused ids from being freed before the engine waits for them."""

MIN_SKIPPED_STEPS = 100
"""How many evaluations of empty windows are made before the rest is skipped."""


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
    watchdog: Watchdog = field(default_factory=Watchdog)
    """stops an evaluation that takes too long"""
    stopping: bool = False
    """set to end after the evaluation that is under way; the log has the elements of the others"""
    skipped_ms: int = 0
    """event time in which windows were empty and evaluations were skipped"""
    _skipped_ms: int = 0
    """how much later than planned the next evaluations are"""
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
            if query in self.pending:
                return None
            found = self._guarded(query, lambda _: due(query), until)
            return None if found is None else found + self._skipped_ms

        yield from self._complete()
        while not self.stopping:
            waiting = self._next_evaluation(due_if_idle, until)
            if waiting is None:
                break
            now, queries = waiting
            if until != DISTANT_FUTURE and self._skip_gap(now, until):
                continue
            self._skipped_ms = 0
            jobs = {query: list(self._prepare(query, now)) for query in queries}
            under_way = begin_all([job for of_query in jobs.values() for job in of_query], now)
            for query in queries:
                open_jobs = [one for one in under_way if one.job in jobs[query]]
                if open_jobs:
                    self.pending[query] = PendingEvaluation(query, now, open_jobs)
                else:
                    yield from self._answer(query, now)
            yield from self._complete()

    def _skip_gap(self, now: int, until: int) -> bool:
        """Skip evaluations of empty windows before `until`, if there are many; return whether any were skipped.

        An element that is hours ahead of the one before makes ten thousands of evaluations due, all but the first and
        the last few of empty windows. They are skipped for all queries alike, by a multiple of all their steps.
        """
        if self._skipped_ms or self.pending or not self.queries:
            return False
        step, end = 1, until
        for query in self.queries:
            if isinstance(query, BatchedQuery):
                end = min(end, query.due() or end)
                continue
            if Report.PERIODIC in query.query.times.report or not query.begun:
                return False
            for content in query.contents:
                if content.window.step is None or not isinstance(content, TimeWindow) or len(content.store):
                    return False
                step = math.lcm(step, content.window.step)
                end = min(end, content.next_arrival or end)
        count = (end - 1 - now) // step - 1
        if count < MIN_SKIPPED_STEPS:
            return False
        self._skipped_ms = count * step
        self.skipped_ms += self._skipped_ms
        LOGGER.warning("evaluations of empty windows in %s are skipped, from %d on", to_iso(self._skipped_ms), now)
        return True

    def _guarded(self, query: ContinuousQuery, step: Callable[[int], T], now: int) -> T | None:
        try:
            with self.watchdog.watching(query.name):
                return super()._guarded(query, step, now)
        except EvaluationLimitError as error:  # it came when the evaluation was already over
            LOGGER.warning("the query %s: %s", query.name, error)
            return None

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
