"""ISTREAM and DSTREAM of answers with SERVICE, at a cost that depends on the changes, not on the window size.

Answers are stored with the entries that they are made of. The answers of a solution are found again if it is new, has
ended, or its entries have new rows; only answers that are equal to one of these, before or after, are compared.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Floats, Ints, spread
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.engine.columns.group_index import GroupIndex
from freshkeeper.maintenance.engine.columns.id_rows import IdRows, bag_difference
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore, WindowMove
from freshkeeper.maintenance.engine.native.solutions import IndexedRows, IndexedSolutions
from freshkeeper.maintenance.engine.r2s import AnswerBag, FreshnessColumns
from freshkeeper.maintenance.engine.service_join.service_answers import NativeService, NativeServiceAnswers, ages
from freshkeeper.maintenance.engine.service_join.view_columns import ViewChanges
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.query.model import Operator

SPREAD = np.int64(-7046029254386353131)


@dataclass(eq=False)
class ServiceChanges(NativeServiceAnswers):
    """A query with SERVICE patterns whose R2S operator selects what came or went."""

    solutions: IndexedSolutions = field(init=False)
    _overdue: "OverdueSolutions" = field(init=False)
    _lost: list[Ints] = field(default_factory=list)
    """answers that have gone since the last evaluation"""
    _changes: list[ViewChanges] = field(default_factory=list)
    _last: "tuple[int, Sequence[tuple[Floats, Ints]]] | None" = None
    """the time of the last evaluation, and per view the freshness and fetch times of its entries then"""

    def __post_init__(self) -> None:
        super().__post_init__()
        shown = len(self.variables)
        # A row has the visible variables, the entries, the number of the solution, and a hash of the variables. The
        # last two are indexed.
        made = shown + len(self.services)
        self._answers = IndexedRows(made + 2, (made, made + 1))
        for service in self.services:
            service.by_sn = GroupIndex()
            self._changes.append(ViewChanges())
            service.columns.listeners.append(self._changes[-1])

    def apply(self, content: WindowState, move: WindowMove) -> None:
        super().apply(content, move)
        self.solutions.renewed(content.store)

    def _create_table(self, variables: tuple[str, ...], holders: Sequence[ColumnWindowStore]) -> IndexedSolutions:
        self.solutions, self._overdue = (
            IndexedSolutions(variables, holders, 2 * len(self.services) + 1),
            OverdueSolutions(),
        )
        return self.solutions

    def _lose(self, values: Ints, noted: Ints) -> None:
        super()._lose(values, noted)
        self._drop(noted[-1])

    def _demand_candidates(self, now: int) -> Ints:
        if all(content.expiry(0) == DISTANT_FUTURE for content in self.contents):
            return self.solutions.rows.numbers
        overdue = self._overdue.at(now, self.solutions.rows.there)
        touched: Ints = np.unique(np.concatenate([NO_INTS, *self.solutions.touched, overdue]))
        self.solutions.touched.clear()
        touched = touched[self.solutions.rows.there[touched]]
        self._overdue.add(self._until(touched), touched)
        return touched

    def _current_answers(self, now: int) -> AnswerBag:
        changed = self._changed()
        self._drop(changed)
        found = self._joined(changed)
        hashes = column_hashes(found.output)
        came = self._answers.add(np.concatenate([found.output, found.srs, found.solutions[None], hashes[None]]))
        lost = np.concatenate([self._answers.columns[:, :0], *self._lost], axis=1)
        self._lost = []
        there = self._answers.having(self._answers.width - 1, np.unique(np.concatenate([hashes, lost[-1]])))
        new = np.zeros(self._answers.size, bool)
        new[came] = True
        present = self._answers.columns[:, there]
        past = np.concatenate([self._answers.columns[:, there[~new[there]]], lost], axis=1)
        streamed = self._streamed_of(now, present, past)
        if self.query.operator is Operator.DSTREAM:
            joins = [service.service.view.evaluation.join for service in self.services]
            self._last = now, [(join.copies, join.refreshed.copy()) for join in joins]
        return streamed

    def _streamed_of(self, now: int, present: Ints, past: Ints) -> AnswerBag:
        shown, end = len(self.variables), len(self.variables) + len(self.services)
        if self.query.operator is Operator.ISTREAM:
            left, other, (sure, age) = present, past, self._freshness(now, present[shown:end])
        else:
            left, other, (sure, age) = past, present, self._previous_freshness(past[shown:end])
        rows, sure, age = self._sort_and_merge(left[:shown], sure, age)
        others, _, _ = self._sort_and_merge(other[:shown], np.ones(other.shape[1]), np.zeros(other.shape[1], np.int64))
        kept = bag_difference(rows, others)
        return AnswerBag(IdRows(rows[:, kept], self.dictionary), FreshnessColumns(sure[kept], age[kept]))

    def _previous_freshness(self, srs: Ints) -> tuple[Floats, Ints]:
        """Return what `_sure` returned at the last evaluation."""
        now, views = self._last or (0, [(np.empty(0), NO_INTS)] * len(self.services))
        sure, age = np.ones(srs.shape[1]), np.full(srs.shape[1], DISTANT_PAST)
        for (copies, refreshed), each in zip(views, srs, strict=True):
            sure, age = sure * copies[each], np.maximum(age, ages(now, refreshed[each]))
        return sure, age

    def _changed(self) -> Ints:
        """Return the solutions that are new, and those whose entries or edges have changed."""
        found = [NO_INTS, *self.solutions.added]
        self.solutions.added.clear()
        for service, changes in zip(self.services, self._changes, strict=True):
            sns, srs = changes.take()
            rows = service.service.view.manager.graph.by_sr
            srs = srs[srs < rows.count]
            near = rows.neighbours[spread(rows.start[srs], rows.stop[srs] - rows.start[srs])]
            found.append(_with(service, np.union1d(sns, near)))
        numbers: Ints = np.unique(np.concatenate(found))
        return numbers[self.solutions.rows.there[numbers]]

    def _drop(self, solutions: Ints) -> None:
        """Remove the answers of these solutions."""
        numbers = self._answers.having(len(self.variables) + len(self.services), solutions)
        if numbers.size:
            self._lost.append(self._answers.remove(numbers))

    def _mark(self, live: Bools) -> None:
        super()._mark(live)
        shown = len(self.variables)
        for ids in (self._answers.columns[:shown, self._answers.numbers], *(lost[:shown] for lost in self._lost)):
            live[ids[ids >= 0]] = True


@dataclass(eq=False)
class OverdueSolutions:
    """Solutions that are present although they should have ended, as when one window moves less often than another."""

    _waiting: list[tuple[int, int, Ints, Ints]] = field(default_factory=list)
    """a heap of (first end time, sequence number, end times, solutions)"""
    _over: Ints = field(default_factory=lambda: NO_INTS)
    _added: int = 0

    def add(self, until: Ints, numbers: Ints) -> None:
        """Register when solutions should end."""
        order = np.argsort(until, kind="stable")
        if order.size:
            self._push(until[order], numbers[order])

    def at(self, now: int, there: Bools) -> Ints:
        """Return the solutions that should have ended by `now` but are still present."""
        over = [self._over]
        while self._waiting and self._waiting[0][0] <= now:
            _, _, until, numbers = heapq.heappop(self._waiting)
            cut = int(np.searchsorted(until, now, "right"))
            over.append(numbers[:cut])
            if cut < until.size:
                self._push(until[cut:], numbers[cut:])
        numbers = np.unique(np.concatenate(over))
        self._over = numbers[there[numbers]]
        return self._over

    def _push(self, until: Ints, numbers: Ints) -> None:
        heapq.heappush(self._waiting, (int(until[0]), self._added, until, numbers))
        self._added += 1


def column_hashes(rows: Ints) -> Ints:
    """Return a hash for each column of a matrix."""
    found = np.zeros(rows.shape[1], np.int64)
    for ids in rows:
        found = (found ^ (found >> 29)) * SPREAD + ids
    return found


def _with(service: NativeService, sns: Ints) -> Ints:
    """Return the numbers of the solutions with one of these lookup keys."""
    assert service.by_sn is not None
    groups, total = service.by_sn.find([sns.astype(np.int64)], sns.size)
    return service.by_sn.expand(groups, total)[1]
