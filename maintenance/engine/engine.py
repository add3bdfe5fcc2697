"""Runs queries over streams: distributes elements in time order and evaluates as the watermark advances."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, TypeVar

from pyoxigraph import Quad, Triple

from freshkeeper.maintenance.base.errors import ConfigError, InputLostError, nearest
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns, as_columns, columns_of
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob, fetch_all
from freshkeeper.maintenance.streams.batch import Stream, TimedElements
from freshkeeper.maintenance.streams.inputs import Inputs

T = TypeVar("T")


class EvaluationObserver(Protocol):
    """Observes when evaluations begin and end, to measure how long they take."""

    def begun(self, query: str, t: int) -> None:
        """Record that the evaluation of a query at time `t` begins."""

    def ended(self, query: str, t: int, failed: bool) -> None:
        """Record that the evaluation of a query at time `t` ends."""


@dataclass(eq=False)
class Engine:
    """Runs queries over streams in event time: the same input gives the same results at any pace."""

    queries: list[ContinuousQuery] = field(default_factory=list)
    drain: bool = False
    """continue after the last element until all windows are empty"""
    inputs: Inputs = field(default_factory=Inputs)
    failed: Callable[[ContinuousQuery, Exception], None] | None = None
    """called with a query that fails, while the others continue; None: the first failure ends the run"""
    spans: "EvaluationObserver | None" = None
    """observes evaluations"""
    reading: bool = False
    """True while the engine waits for elements; nothing is evaluated then"""
    before_reading: Callable[[], None] = field(default=lambda: None)
    """called before every read; raises to end the run instead of waiting"""

    def register(self, query: ContinuousQuery) -> None:
        """Add a query."""
        self.queries.append(query)

    def listen(self, name: str, stream: Stream, delay: int = 0, idle: float | None = None) -> None:
        """Add a stream whose elements may be up to `delay` milliseconds late.

        A stream that delivers nothing for `idle` seconds stops holding the watermark back.
        """
        self.inputs.add(name, stream, delay, idle)

    def run(self) -> Iterator[Result]:
        """Read all streams to their end; yield results as soon as the watermark allows.

        When a live stream is lost, yield the results of what arrived before, then raise its error.
        """
        self._check_streams()
        self._choose_formats()
        for query in [query for query in self.queries if not query.query.windows]:
            if (result := self._guarded(query, query.once, 0)) is not None:
                yield result
        lost: InputLostError | None = None
        while lost is None:
            behind = self.inputs.next()
            if behind is None:
                break
            self.reading = True
            try:
                self.before_reading()
                batch = behind.read()
            except InputLostError as error:
                if behind.first is None:
                    raise
                lost, batch = error, behind.end()
            self.reading = False
            self._deliver(behind.name, batch)
            yield from self.advance(self.inputs.watermark())
        if lost is None or all(one.ended for one in self.inputs):
            yield from self.finish()
        if lost is not None:
            raise lost

    def push(self, name: str, batch: TimedElements) -> Iterator[Result]:
        """Process a batch of a stream that is pushed; yield the evaluations that become due."""
        self._deliver(name, self.inputs.find(name).take(batch))
        yield from self.advance(self.inputs.watermark())

    def mark_idle(self, name: str) -> Iterator[Result]:
        """Mark a pushed stream as idle; yield the evaluations that were waiting for it."""
        self.inputs.find(name).idle = True
        yield from self.advance(self.inputs.watermark())

    def end(self, name: str) -> Iterator[Result]:
        """Mark a pushed stream as ended; yield the evaluations that become due."""
        self._deliver(name, self.inputs.find(name).end())
        yield from self.advance(self.inputs.watermark())

    def advance(self, watermark: int) -> Iterator[Result]:
        """Yield all evaluations before the watermark, by time and then in order of registration."""
        if watermark == DISTANT_PAST:
            return
        for query in [*self.queries]:
            self._begin(query, watermark)
            self._guarded(query, query.reach, watermark)
        yield from self._evaluate_due(lambda query: query.due(), watermark)
        yield from self._sweep()

    def finish(self) -> Iterator[Result]:
        """Yield the last evaluations once all streams have ended; with `drain`, until the windows are empty."""
        yield from self.advance(self.inputs.latest + 1)
        for name in self.inputs.unreached:
            for query in self.queries:
                query.discard(name)
        yield from self._evaluate_due(lambda query: query.next_triggered())
        if self.drain:
            yield from self._evaluate_due(lambda query: query.next_emptying())

    @property
    def late(self) -> int:
        """The number of late elements over all streams."""
        return self.inputs.late

    def _sweep(self) -> Iterator[Result]:
        """Free dictionary ids that no query uses any more."""
        for dictionary in self._dictionaries():
            dictionary.sweep()
        yield from ()

    def _deliver(self, name: str, batch: TimedElements) -> None:
        if not len(batch):
            return
        columns: dict[Dictionary, Columns] = {}
        for query in self.queries:
            if name in query.streams:
                if query.dictionary not in columns:
                    columns[query.dictionary] = columns_of(batch, query.dictionary)
                query.receive(name, columns[query.dictionary])

    def _begin(self, query: ContinuousQuery, watermark: int) -> None:
        """Start a query's clock with the earliest element of its streams, once the watermark has passed it."""
        if query.begun:
            return
        seen = [one.order.first for one in self.inputs if one.name in query.streams and one.order.first is not None]
        # Before that, a late element could still turn out to be earlier.
        if seen and min(seen) < watermark:
            query.begin(min(seen))

    def _evaluate_due(
        self, due: Callable[[ContinuousQuery], int | None], until: int = DISTANT_FUTURE
    ) -> Iterator[Result]:
        """Yield the results of all evaluations before `until`, by time and then in order of registration.

        Evaluations of one instant share their requests: all are prepared, then all sources are asked together.
        """
        while (next_evaluation := self._next_evaluation(due, until)) is not None:
            now, queries = next_evaluation
            fetch_all([asking for query in queries for asking in self._prepare(query, now)], now)
            for query in queries:
                yield from self._answer(query, now)

    def _prepare(self, query: ContinuousQuery, now: int) -> Iterable[FetchJob]:
        """Prepare one evaluation and return its fetch jobs."""
        if self.spans is not None:
            self.spans.begun(query.name, now)
        return self._guarded(query, query.prepare, now) or ()

    def _answer(self, query: ContinuousQuery, now: int) -> Iterator[Result]:
        """Yield the results of a prepared evaluation, with the number of late elements."""
        found = self._guarded(query, query.answers, now) if query in self.queries else None
        if self.spans is not None:
            self.spans.ended(query.name, now, query not in self.queries)
        for result in found or ():
            yield replace(result, late=self.late) if self.late else result

    def _next_evaluation(
        self, due: Callable[[ContinuousQuery], int | None], until: int
    ) -> tuple[int, list[ContinuousQuery]] | None:
        """Return the earliest due time and the queries that are due then, or None."""
        instants = {query: due(query) for query in [*self.queries]}
        now = min((t for t in instants.values() if t is not None and t < until), default=None)
        if now is None:
            return None
        return now, [query for query, t in instants.items() if t == now]

    def _guarded(self, query: ContinuousQuery, step: Callable[[int], T], now: int) -> T | None:
        """Return the result of one step of a query; remove a query that fails if failures are reported."""
        try:
            return step(now)
        except Exception as error:
            if self.failed is None:
                raise
            self.queries.remove(query)
            query.leave()
            self.failed(query, error)
            return None

    def _choose_formats(self) -> None:
        """Read each stream as columns of ids."""
        for one in self.inputs:
            # Elements have ids of one dictionary only; queries with another dictionary convert the batch.
            for dictionary in self._dictionaries(one.name)[:1]:
                one.read_from(as_columns(one.stream, dictionary))

    def _dictionaries(self, stream: str | None = None) -> list[Dictionary]:
        """Return the dictionaries of the queries, or of the queries over one stream, each once."""
        queries = [query for query in self.queries if stream is None or stream in query.streams]
        return list(dict.fromkeys(query.dictionary for query in queries))

    def _check_streams(self) -> None:
        known = [one.name for one in self.inputs]
        for query in self.queries:
            for name in query.streams:
                if name not in known:
                    near = f"; {nearest(name, known)}" if known else ""
                    raise ConfigError(f"nothing feeds the stream <{name}>: add --stream '{name}=FILE'{near}")


Feed: TypeAlias = Stream | Iterable[tuple[int, Triple | Quad]]
"""a stream, or any iterable of (time in milliseconds, triple or quad)"""
