"""Queries whose windows move with every element: all evaluations of a batch are answered at once.

ticks       the evaluation times of the batch, repeated if count windows step several times within one
rows        the content of the windows, each row with the ticks during which it is held; a solution holds while all do
answers     of all ticks together: what came or went for ISTREAM and DSTREAM, what is present for RSTREAM
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import columns_of
from freshkeeper.maintenance.engine.columns.id_rows import IdRows, stacked
from freshkeeper.maintenance.engine.columns.join_inputs import Relation
from freshkeeper.maintenance.engine.continuous_query import BatchedQuery
from freshkeeper.maintenance.engine.native.answer_columns import GroupRows, IdTriples, TemplateTriples
from freshkeeper.maintenance.engine.native.expressions import ExpressionEvaluator, LiteralIds, apply_expressions
from freshkeeper.maintenance.engine.native.intervals import Intervals, changed_rows, distinct_intervals, group_intervals
from freshkeeper.maintenance.engine.native.joins import SINCE, UNTIL, IntervalInput, IntervalJoin
from freshkeeper.maintenance.engine.native.moving_window import EMPTY, MovingWindow
from freshkeeper.maintenance.engine.native.native_plan import NativePlan, Terms
from freshkeeper.maintenance.engine.native.plan_head import Grouping
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.model import Form, Operator, Query, Report, WindowKind
from freshkeeper.maintenance.streams.batch import TimedElements


def moves_with_elements(query: Query) -> bool:
    """Return True if only elements trigger the query, so that its evaluations can be answered in batches."""
    report = set(query.times.report)
    stepping = [window.kind is WindowKind.ELEMENTS for window in query.windows]
    moving = all(window.kind is not WindowKind.TIME or window.step is None for window in query.windows)
    element_driven = report <= {Report.ON_CONTENT_CHANGE} or (report == {Report.ON_WINDOW_CLOSE} and any(stepping))
    return moving and element_driven and query.times.every is None and query.form is not Form.ASK


@dataclass(eq=False)
class MovingAnswers:
    """Computes the answers of batches of evaluations."""

    query: Query
    plan: NativePlan
    dictionary: Dictionary
    variables: tuple[str, ...]
    windows: Sequence[MovingWindow]
    relations: Sequence[Relation]
    extra: tuple[str, ...] = ()
    """variables that are added to every answer"""
    _begun: bool = False

    def __post_init__(self) -> None:
        head, prologue, literals = self.plan.head, self.query.expression.prologue.text, LiteralIds(self.dictionary)
        plain = head.form is Form.SELECT and head.grouping is None
        self.projection = (*(self.variables if plain else self.plan.projection), *self.extra)
        self.groups: GroupRows | None = None
        if head.grouping:
            self.groups = self._grouped(head.grouping)
        self.triples: TemplateTriples | None = None
        if head.template:
            self.triples = TemplateTriples(head.template, self.projection, self.dictionary)
        self._expressions = [
            ExpressionEvaluator(each, prologue, self.dictionary, literals) for each in self.plan.expressions
        ]
        inputs = [self._input(pattern.window, pattern.terms) for pattern in self.plan.patterns]
        self._join = IntervalJoin([*inputs, *self.relations], inputs)
        self._swapped: Sequence[Relation] | None = None
        self._values = np.empty((len(self.projection), 0), np.int64)
        self._members = np.empty((len(inputs), 0), np.int64)
        self.dictionary.hold(self._mark)

    def batch(self, ticks: Ints) -> tuple[Ints, Ints]:
        """Move the windows; return the ticks of all answers in order, and the answers as columns."""
        for window in self.windows:
            window.begin_batch(ticks)
        found = self._solutions(self._swap())
        if self.groups is not None:
            found = group_intervals(self.groups, found, -1 if self._begun else 0)
        self._begun = True
        if self.plan.head.distinct:
            found = distinct_intervals(found)
        at, places = self._streamed(found, ticks.size)
        rows = found.rows[:, places]
        if self.triples is None:
            return at, rows
        marked = self.triples.marked(rows, at)
        marked = marked[:, np.argsort(marked[0], kind="stable")]
        return marked[0], marked[1:]

    def _grouped(self, grouping: Grouping) -> GroupRows:
        keys = (*grouping.keys, *self.extra)
        return GroupRows(replace(grouping, keys=keys), self.projection, (*self.variables, *self.extra), self.dictionary)

    def replace(self, relations: Sequence[Relation]) -> None:
        """Use other solutions of the static parts from the next batch on; safe from any thread."""
        with self.dictionary.lock:
            self._swapped = relations

    def _swap(self) -> bool:
        """Take over new static solutions, if any; return True if the whole content must be joined again."""
        with self.dictionary.lock:
            if self._swapped is None:
                return False
            self.relations, self._swapped = self._swapped, None
        self._join = IntervalJoin([*self._join.windows, *self.relations], self._join.windows)
        for window in self.windows:
            window.rows.renew()
        return True

    def changes(self, count: int) -> Bools:
        """Return, by tick, whether any window changed."""
        found = np.zeros(count, bool)
        for window in self.windows:
            found |= window.rows.changes(count)
        return found

    def _streamed(self, found: Intervals, count: int) -> tuple[Ints, Ints]:
        if self.query.operator is Operator.RSTREAM:
            return found.at_each(count)
        return changed_rows(found, 1 if self.query.operator is Operator.ISTREAM else -1)

    def _solutions(self, again: bool) -> Intervals:
        """Return the old and the new solutions; those that outlast the batch are kept for the next one.

        With `again` all solutions are found anew, so the old ones end at the first evaluation.
        """
        values, members = [self._values], [self._members]
        since = [np.full(self._members.shape[1], -1)]
        until = [np.zeros(self._members.shape[1], np.int64) if again else self._join.until(self._members)]
        for solutions in self._join.batch():
            kept = apply_expressions(solutions, self._expressions)
            values.append(stacked([kept.bound[name] for name in self.projection], kept.size))
            members.append(kept.members[: len(self._members)])
            since.append(kept.bound[SINCE])
            until.append(kept.bound[UNTIL])
        found = Intervals(np.concatenate(values, axis=1), np.concatenate(since), np.concatenate(until))
        last = found.until >= DISTANT_FUTURE
        self._values, self._members = found.rows[:, last], np.concatenate(members, axis=1)[:, last]
        return found

    def _input(self, window: int, terms: Terms) -> IntervalInput:
        rows = self.windows[window].rows
        return IntervalInput(rows, self.dictionary.pattern(terms), rows)

    def _mark(self, live: Bools) -> None:
        live[self._values[self._values >= 0]] = True
        inputs: Sequence[Relation | IntervalInput] = [*self.relations, *(self._swapped or ()), *self._join.windows]
        for one in inputs:
            one.mark(live)


@dataclass(eq=False)
class MovingQuery(BatchedQuery):
    """A query that evaluates in batches all instants that its elements trigger."""

    moving: MovingAnswers = field(kw_only=True)
    quiet: bool = False
    """leave out evaluations without answers"""
    most: int = 8_192
    """the maximum number of triggers of one window in a batch; triggers of one instant are never separated"""
    _watermark: int | None = None

    def receive(self, stream: str, batch: TimedElements) -> None:
        came = columns_of(batch, self.moving.dictionary)
        for window in self.moving.windows:
            if window.window.stream == stream:
                window.receive(came)

    def discard(self, stream: str) -> None:
        for window in self.moving.windows:
            if window.window.stream == stream:
                window.waiting = None

    def reach(self, watermark: int) -> None:
        self._watermark = watermark

    def due(self) -> int | None:
        while not self._results and self._batch():
            pass
        return super().due()

    def next_triggered(self) -> int | None:
        if not self._results and self.begun and Report.ON_WINDOW_CLOSE not in self.query.times.report:
            waiting = [w.calls() for w in self.moving.windows if not w.counts]
            self._watermark = 1 + max((int(calls[-1]) for calls in waiting if calls.size), default=0)
        return self.due()

    def _batch(self) -> bool:
        """Evaluate one batch; return False if nothing is due."""
        if self._watermark is None or not self.begun:
            return False
        ticks = self._ticks(self._watermark)
        if not ticks.size:
            return False
        at, rows = self.moving.batch(ticks)
        self._results.extend(self._results_at(ticks, at, rows))
        return True

    def _results_at(self, ticks: Ints, at: Ints, rows: Ints) -> Iterator[Result]:
        changing = Report.ON_CONTENT_CHANGE in self.query.times.report
        if changing:
            reports = self.moving.changes(ticks.size)
        else:
            reports = np.ones(ticks.size, bool)
        if self.done is not None:
            reports &= ticks > self.done
        cuts = np.searchsorted(at, np.arange(ticks.size + 1))
        if self.quiet:
            reports &= cuts[1:] > cuts[:-1]
        answers, ends = self._answers_of(rows), cuts.tolist()
        for tick in np.flatnonzero(reports).tolist():
            yield self._result(tick, int(ticks[tick]), answers.part(ends[tick], ends[tick + 1]), self.name)

    def _answers_of(self, rows: Ints) -> IdRows | IdTriples:
        make = IdTriples if self.query.form is Form.CONSTRUCT else IdRows
        return make(rows, self.moving.dictionary)

    def _result(self, tick: int, now: int, answers: IdRows | IdTriples, name: str) -> Result:
        windows = {window.window.name: window.bounds(tick) for window in self.moving.windows}
        return Result(
            t=now,
            form=self.query.form,
            operator=self.query.operator,
            variables=self.moving.variables,
            answers=answers,
            freshness=None,
            windows=windows,
            query=name,
        )

    def _ticks(self, watermark: int) -> Ints:
        """Return the next evaluation times, each as often as count windows step within it."""
        calls = [(window.counts, window.calls()) for window in self.moving.windows]
        if Report.ON_WINDOW_CLOSE in self.query.times.report:
            calls = [(counts, each) for counts, each in calls if counts]
        for _, each in calls:
            if each.size > self.most:
                watermark = min(watermark, max(int(each[self.most]), int(each[0]) + 1))
        calls = [(counts, each[: np.searchsorted(each, watermark)]) for counts, each in calls]
        if calls:
            ticks = np.unique(np.concatenate([each for _, each in calls]))
        else:
            ticks = EMPTY
        times = np.ones(ticks.size, np.int64)
        for counts, each in calls:
            if counts:
                here = np.searchsorted(each, ticks, "right") - np.searchsorted(each, ticks)
                np.maximum(times, here, out=times)
        return np.repeat(ticks, times)
