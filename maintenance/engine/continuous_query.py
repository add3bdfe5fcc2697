"""A continuous query, from elements to results.

elements ─▶ windows ─▶ dataset ─▶ evaluator ─▶ R2S ─▶ result
               │                      ▲
               ╰──▶ clock, report ──▶ SERVICE from the view
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import columns_of
from freshkeeper.maintenance.engine.columns.window_slots import WindowMove
from freshkeeper.maintenance.engine.r2s import AnswerBag, R2SStream, Result
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob, fetch_all
from freshkeeper.maintenance.query.model import Query, Report, WindowKind
from freshkeeper.maintenance.query.pyoxigraph_workarounds import check_free_graphs
from freshkeeper.maintenance.streams.batch import TimedElements


@dataclass(eq=False)
class EvaluationClock:
    """The evaluation times of one query, in order."""

    query: Query
    contents: Sequence[WindowState]
    start: int
    """t0 of the run, from which COMPUTED EVERY counts, in milliseconds"""
    begun: bool = False
    _period: int = DISTANT_PAST

    def begin(self, first: int) -> None:
        """Start with the time of the first element of the query's streams."""
        self.begun = True
        for content in self.contents:
            content.begin(first)
        if self._every is not None:
            # The smallest k ≥ 1 with start + k · every ≥ first; -(-a // b) rounds up.
            k = max(1, -(-(first - self.start) // self._every))
            self._period = self.start + k * self._every

    def next(self) -> int | None:
        """Return the next evaluation time, or None if it is not known yet."""
        if not self.begun:
            return None
        if self._every is not None:
            return self._period
        triggers = [content.trigger() for content in self._triggering]
        return min((t for t in triggers if t is not None), default=None)

    def next_triggered(self) -> int | None:
        """Return the next evaluation time that an element which has arrived calls for, or None."""
        if self.begun and self._every is None:
            waiting = [c for c in self._triggering if c.window.step is None]
        else:
            waiting = []
        triggers = [content.trigger() for content in waiting]
        return min((t for t in triggers if t is not None), default=None)

    def advance_past(self, now: int) -> None:
        """Record that the evaluation at `now` is done."""
        if self._every is not None:
            self._period = now + self._every

    def reports(self, moves: Iterable[tuple[WindowState, WindowMove]]) -> bool:
        """Return True if the report policies hold for these moves."""
        policies = set(self.query.times.report) - {Report.PERIODIC}
        if not policies:
            return True
        return any(_all_hold(policies, content, move) for content, move in moves)

    @property
    def _every(self) -> int | None:
        if Report.PERIODIC in self.query.times.report:
            return self.query.times.every
        return None

    @property
    def _triggering(self) -> Sequence[WindowState]:
        """The windows that cause evaluations: with ON_WINDOW_CLOSE only those with a step, as others never close."""
        if Report.ON_WINDOW_CLOSE not in self.query.times.report:
            return self.contents
        return [content for content in self.contents if content.window.step is not None]


def _all_hold(policies: Iterable[Report], content: WindowState, move: WindowMove) -> bool:
    return all(_holds(policy, content, move) for policy in policies)


def _holds(policy: Report, content: WindowState, move: WindowMove) -> bool:
    if policy is Report.ON_WINDOW_CLOSE:
        return move.closed
    if policy is Report.ON_CONTENT_CHANGE:
        return move.changed
    return len(content.store) > 0


class AnswerSource(Protocol):
    """Finds the answers of one evaluation: from the dataset alone, or joined with SERVICE patterns."""

    variables: tuple[str, ...]
    errors: int

    def prepare(self, now: int) -> Sequence[FetchJob]:
        """Return the fetch jobs that must finish before `answers` is called."""
        ...

    def answers(self, now: int) -> AnswerBag:
        """Return all answers at `now`, before R2S."""
        ...

    def rebuild(self, now: int, done: int) -> Sequence[FetchJob]:
        """Restore what depends on the windows at an evaluation that an earlier run answered.

        `done` is the last evaluation that was answered. Returns the fetch jobs to run.
        """
        ...

    def emit(self, streamed: AnswerBag) -> AnswerBag:
        """Turn the answers that R2S selected into what is written: triples for CONSTRUCT."""
        ...

    def leave(self) -> None:
        """Release what is shared with other queries; there are no more evaluations."""
        ...


@dataclass(eq=False)
class ContinuousQuery:
    """A registered query, made by `build`. Feed it elements and watermarks; it yields results."""

    query: Query
    contents: Sequence[WindowState]
    """the state of each window of the query, in order"""
    answering: AnswerSource | None
    """None in subclasses that evaluate in batches, which override `prepare` and `answers`"""
    start: int = 0
    """t0, in milliseconds, of windows that do not declare their own"""
    name: str = ""
    done: int | None = None
    """the last evaluation that an earlier run answered: until then evaluations only fill the windows"""
    follow: Callable[[WindowState, WindowMove], None] = field(default=lambda *_: None)
    """receives every move of a window"""
    refresh_graphs: Callable[[], None] = field(default=lambda: None)
    """called before every evaluation, to take over static graphs that have changed"""
    dictionary: Dictionary = field(kw_only=True)
    """the dictionary of the ids of its windows"""
    is_native: bool = True
    """False if the snapshot evaluator answers it"""

    def __post_init__(self) -> None:
        self._clock = EvaluationClock(self.query, self.contents, self.start)
        self._by_stream: dict[str, list[WindowState]] = {}
        for content in self.contents:
            self._by_stream.setdefault(content.window.stream, []).append(content)
        self.streamer = R2SStream(self.query.operator)
        self._answers = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all queries that this one answers for."""
        return (self.name,)

    @property
    def streams(self) -> tuple[str, ...]:
        """The IRIs of the streams that the query reads."""
        return tuple(self._by_stream)

    def receive(self, stream: str, batch: TimedElements) -> None:
        """Append a batch of elements, in time order, to the windows over a stream."""
        batch = columns_of(batch, self.dictionary)
        for content in self._by_stream.get(stream, ()):
            content.receive(batch)

    def discard(self, stream: str) -> None:
        """Drop the elements that the windows over a stream have not taken yet."""
        for content in self._by_stream.get(stream, ()):
            content.discard()

    def leave(self) -> None:
        """Release shared resources after the query failed or was removed."""
        if self.answering is not None:
            self.answering.leave()

    def begin(self, first: int) -> None:
        """Start the clock with the time of the earliest element; only the first call counts."""
        if not self._clock.begun:
            self._clock.begin(first)

    @property
    def begun(self) -> bool:
        """True once the time of the first element is known; nothing is evaluated before."""
        return self._clock.begun

    def reach(self, watermark: int) -> None:
        """Announce a watermark. Queries that evaluate in batches do so here; others do nothing."""

    def due(self) -> int | None:
        """Return the time of the next evaluation, or None if it is not known yet."""
        return self._clock.next()

    def next_triggered(self) -> int | None:
        """Return the time of the next evaluation if an element that has arrived calls for it, else None."""
        return None if self._clock.next_triggered() is None else self.due()

    def next_emptying(self) -> int | None:
        """Return the time of the next evaluation if time alone will still empty a window, else None."""
        timed = (c for c in self.contents if c.window.kind is WindowKind.TIME and c.window.step is not None)
        return None if all(content.empty for content in timed) else self.due()

    def advance(self, watermark: int) -> Iterator[Result]:
        """Yield the result of every evaluation before the watermark, in time order."""
        self.reach(watermark)
        now = self.due()
        while now is not None and now < watermark:
            yield from self._evaluate(now)
            now = self.due()

    def conclude(self) -> Iterator[Result]:
        """Yield the evaluations that the last elements call for, after all streams have ended."""
        # A right-open window holds an element only one millisecond after its time, beyond the last watermark.
        while (now := self.next_triggered()) is not None:
            yield from self._evaluate(now)

    def drain(self) -> Iterator[Result]:
        """Yield evaluations until all windows are empty."""
        while (now := self.next_emptying()) is not None:
            yield from self._evaluate(now)

    def once(self, now: int = 0) -> Result:
        """Evaluate a query without windows, once."""
        fetch_all(self._source.prepare(now), now)
        return self._answer(now)

    def prepare(self, now: int) -> Sequence[FetchJob]:
        """Move the windows to `now`; return the fetch jobs that must finish before `answers` is called."""
        self.refresh_graphs()
        moves: Sequence[tuple[WindowState, WindowMove]] = [
            (content, self._move(content, now)) for content in self.contents
        ]
        self._clock.advance_past(now)
        reports = self._clock.reports(moves)
        self._answers = reports and (self.done is None or now > self.done)
        if self._answers:
            return self._source.prepare(now)
        if not reports or self.done is None:
            return ()
        return self._source.rebuild(now, self.done)

    def answers(self, now: int) -> Sequence[Result]:
        """Return the result of the prepared evaluation, or nothing if it does not report or was answered before."""
        return [self._answer(now)] if self._answers else []

    def _evaluate(self, now: int) -> Iterator[Result]:
        fetch_all(self.prepare(now), now)
        yield from self.answers(now)

    def _move(self, content: WindowState, now: int) -> WindowMove:
        move = content.move(now)
        self.follow(content, move)
        # With COMPUTED EVERY, a count window may have completed several steps since the last evaluation.
        if self.query.times.every is None or content.window.kind is not WindowKind.ELEMENTS:
            return move
        further = content.move(now)
        while further.changed:
            self.follow(content, further)
            move = further
            further = content.move(now)
        return move

    def _answer(self, now: int) -> Result:
        source = self._source
        streamed = source.emit(self.streamer.stream(source.answers(now)))
        return Result(
            t=now,
            form=self.query.form,
            operator=self.query.operator,
            variables=source.variables,
            answers=streamed.items,
            freshness=streamed.freshness,
            windows={w.name: content.bounds() for w, content in zip(self.query.windows, self.contents, strict=True)},
            query=self.name,
            errors=source.errors,
        )

    @property
    def _source(self) -> AnswerSource:
        assert self.answering is not None, "a query that evaluates in batches has no answer source"
        return self.answering


def check_query(query: Query) -> None:
    """Raise ConfigError for a query that no evaluator can run."""
    if query.times.every is not None and not query.windows:
        raise ConfigError(
            "COMPUTED EVERY needs a window: time passes with the elements of a stream, and this query reads none; "
            "declare FROM WINDOW ON <stream> [RANGE ...], or leave the period out to evaluate it once"
        )
    check_free_graphs(query)


@dataclass(eq=False)
class BatchedQuery(ContinuousQuery):
    """A query whose results wait in time order until they are due."""

    _results: deque[Result] = field(default_factory=deque)

    def due(self) -> int | None:
        return self._results[0].t if self._results else None

    def next_triggered(self) -> int | None:
        return self.due()

    def next_emptying(self) -> int | None:
        return None

    def prepare(self, now: int) -> tuple[()]:
        """Return no fetch jobs: such queries have no SERVICE."""
        del now
        return ()

    def answers(self, now: int) -> Sequence[Result]:
        found = list[Result]()
        while self._results and self._results[0].t == now:
            found.append(self._results.popleft())
        return found
