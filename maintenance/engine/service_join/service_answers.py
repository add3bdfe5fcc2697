"""SERVICE from the view in columns: the solutions over windows are the window mappings; cached entries join them.

windows ─▶ solutions ─▶ demand (new, gone, until when) ─▶ evaluation of the view ─▶ rows of its entries
               ╰─────────────────────────────────────────────────────────▶ answers with their freshness
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.group_index import GroupIndex
from freshkeeper.maintenance.engine.columns.id_rows import (
    IdRows,
    bag_difference,
    first_occurrences,
    number_columns,
    stacked,
)
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore
from freshkeeper.maintenance.engine.native.native_query import NativeAnswers
from freshkeeper.maintenance.engine.native.solutions import SolutionTable
from freshkeeper.maintenance.engine.r2s import AnswerBag, FreshnessColumns
from freshkeeper.maintenance.engine.service_join.from_view import CachedService
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.service_join.view_columns import ServiceExpansion, ViewColumns
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.policies import base


@dataclass(eq=False)
class NativeService:
    """A SERVICE pattern: the solutions that its view has been told about, and the view's rows for them."""

    service: CachedService
    dictionary: Dictionary
    table: SolutionTable = field(init=False)
    by_sn: GroupIndex | None = None
    """solutions by lookup key, for queries that need it"""
    number: int = 0
    """the position of the pattern in the query"""
    _slots: dict[tuple[int, ...], int] = field(default_factory=dict)
    _unknown: list[int] = field(default_factory=list)
    _released: int = 0
    _gone: list[tuple[Ints, Ints]] = field(default_factory=list)
    _offered: tuple[Ints, Ints] = field(init=False)

    def __post_init__(self) -> None:
        view = self.service.view
        if view.columns is None:
            view.columns = ViewColumns(view.manager, view.source, self.dictionary)
        self.columns = view.columns
        self._names = dict(zip(view.source.variables, self.service.variables, strict=True))
        self.dictionary.hold(self._mark)

    @property
    def notes(self) -> tuple[Ints, Ints]:
        """Return until when the view knows each solution (-1: not at all), and the slot of its lookup key."""
        return self.table.noted[2 * self.number], self.table.noted[2 * self.number + 1]

    def prepare(self, rows: Ints, until: Ints) -> ServiceView:
        """Offer these solutions, which hold until `until`, as demand for the next evaluation of the view."""
        self._offered = rows, until
        self.service.set_demand(self._feed)
        return self.service.view

    def lose(self, noted: Ints) -> None:
        """Withdraw the demand of solutions that have ended."""
        fed, slots = noted[2 * self.number], noted[2 * self.number + 1]
        known = fed >= 0
        self._gone.append((fed[known], slots[known]))
        if self.by_sn is not None:
            self.by_sn.remove(noted[-1, known])

    def leave(self) -> None:
        """Withdraw all demand."""
        fed, slots = self.notes
        self._gone.append((fed[fed >= 0], slots[fed >= 0]))
        self._withdraw()
        self.service.leave()

    def follow(self) -> None:
        """Take in the changes of the view's last evaluation."""
        self.columns.follow(self.service.view.evaluation, self._unknown)
        self._unknown.clear()

    def expand(self, slots: Ints) -> ServiceExpansion:
        """Return the view's rows for solutions with these lookup keys, under the names of this query."""
        found = self.columns.expand(slots, self.service.marks)
        return replace(found, columns={self._names[name]: ids for name, ids in found.columns.items()})

    def key_freshness(self, now: int, sns: Ints) -> tuple[Floats, Ints]:
        """Return the probability that all entries of each lookup key are fresh, and the age of the oldest."""
        manager, join = self.service.view.manager, self.service.view.evaluation.join
        place = np.searchsorted(join.sns, sns)
        known = place < join.sns.size
        known[known] = join.sns[place[known]] == sns[known]
        known[known] = join.degrees[place[known]] > 0
        sure = np.ones(sns.size)
        sure[known] = join.fresh_by_sn[place[known]]
        sn, sr = manager.graph.edges_of(sns)
        refreshed = join.refreshed[sr]
        age = np.full(sns.size, DISTANT_PAST)
        held = refreshed != base.NEVER
        np.maximum.at(age, np.searchsorted(sns, sn[held]), now - refreshed[held])
        return sure, age

    def _feed(self, now: int) -> tuple[Ints, Ints]:
        """Return the demand that is new or holds longer than the view knew, as arrival times and slots."""
        span, (fed, slots), (rows, until) = self.service.view.manager.window.range, self.notes, self._offered
        # Same arrival time as in ServiceView._arrivals: the mapping leaves the manager's window at `until`, and never
        # arrives in the future.
        end = np.minimum(now, np.maximum(until - span, now - span + 1)) + span
        later = fed[rows] < end
        new, end = rows[later], end[later]
        again = new[fed[new] >= 0]
        self._gone.append((fed[again], slots[again]))
        self._withdraw()
        fresh = new[slots[new] < 0]
        slots[fresh] = self._resolved(fresh)
        if self.by_sn is not None:
            self.by_sn.add(fresh, [slots[fresh]])
        fed[new] = end
        return end - span, slots[new]

    def _withdraw(self) -> None:
        manager = self.service.view.manager
        for ends, sns in self._gone:
            manager.content.withdraw(ends - manager.window.range, sns)
        self._gone.clear()

    def _mark(self, live: Bools) -> None:
        live[[id for sn in self._slots for id in sn]] = True

    def _resolved(self, rows: Ints) -> Ints:
        """Return the slots of the solutions' lookup keys."""
        view, table = self.service.view.manager.view, self.table
        if view.released != self._released:
            self._slots.clear()
            self._released = view.released
        places = [table.variables.index(name) for name in self.service.part.sn]
        ids = table.values[places][:, rows]
        numbers, most = number_columns(ids)
        each = np.empty(most, np.int64)
        each[numbers] = np.arange(rows.size)
        sns = list(map(tuple, ids[:, each].T.tolist()))
        new = [sn for sn in sns if sn not in self._slots]
        terms = {tuple(map(self.dictionary.term, sn)): sn for sn in new}
        # New keys get slots in the order of their text, as in the snapshot evaluator, so that both choose alike.
        ordered = sorted(terms, key=str)
        unknown = view.sn_slots(ordered).tolist()
        self._slots.update(zip(map(terms.__getitem__, ordered), unknown, strict=True))
        self._unknown += unknown
        return np.array([self._slots[sn] for sn in sns], np.int64)[numbers]


@dataclass(frozen=True, eq=False)
class JoinedAnswers:
    """Answers, and the cached entries that they are made of."""

    output: Ints
    """variables × answers"""
    srs: Ints
    """slots of entries, SERVICE patterns × answers"""
    solutions: Ints


@dataclass(eq=False)
class NativeServiceAnswers(NativeAnswers):
    """A query whose SERVICE patterns are all answered from views."""

    services: Sequence[NativeService] = ()

    def prepare(self, now: int) -> Sequence[FetchJob]:
        self._swap()
        rows = self._demand_candidates(now)
        until = self._until(rows)
        return [service.prepare(rows, until) for service in self.services]

    def answers(self, now: int) -> AnswerBag:
        self.errors = sum(service.service.view.evaluation.record.errors for service in self.services)
        for service in self.services:
            service.follow()
        return self._current_answers(now)

    def rebuild(self, now: int, done: int) -> Sequence[FetchJob]:
        """Restore the demand: the last evaluations of the query and of the view show what is in the windows."""
        self._swap()
        lasts = [service.service.view.store.last for service in self.services]
        told = [service for service, last in zip(self.services, lasts, strict=True) if now in (done, last)]
        rows = self._demand_candidates(now)
        views = [service.prepare(rows, self._until(rows)) for service in told]
        return [view for view in views if now == view.store.last]

    def leave(self) -> None:
        for service in self.services:
            service.leave()

    def _table(self, holders: Sequence[ColumnWindowStore]) -> SolutionTable:
        needed = set(self._projection)
        for service in self.services:
            needed.update(service.service.variables, service.service.part.sn)
        for expression in self.plan.expressions:
            needed.update(expression.variables)
        table = self._create_table(tuple(sorted(self.plan.bound & needed)), holders)
        for number, service in enumerate(self.services):
            service.table, service.number = table, number
        return table

    def _create_table(self, variables: tuple[str, ...], holders: Sequence[ColumnWindowStore]) -> SolutionTable:
        return SolutionTable(variables, holders, 2 * len(self.services))

    def _demand_candidates(self, now: int) -> Ints:
        """Return the solutions that may be new to a view, or hold longer than it knows."""
        del now
        return np.arange(self.table.size)

    def _lose(self, values: Ints, noted: Ints) -> None:
        if values.shape[1] or noted.shape[1]:
            for service in self.services:
                service.lose(noted)

    def _until(self, rows: Ints) -> Ints:
        """Return when each solution ends: with the first of its triples to leave a window."""
        found = np.full(rows.size, DISTANT_FUTURE, np.int64)
        contents: dict[int, WindowState] = {id(content.store): content for content in self.contents}
        for held, slots in zip(self.table.holders, self.table.slots, strict=True):
            lasts = contents[id(held)].expiry(0)
            if lasts != DISTANT_FUTURE:
                found = np.minimum(found, held.latest[slots[rows]] + lasts)
        return found

    def _joined(self, solutions: Ints) -> "JoinedAnswers":
        """Join some solutions with the views."""
        bound = {name: ids[solutions] for name, ids in zip(self.table.variables, self.table.values, strict=True)}
        slots = [service.notes[1][solutions] for service in self.services]
        srs = np.empty((0, solutions.size), np.int64)
        for n, service in enumerate(self.services):
            found = service.expand(slots[n])
            rows = found.solutions
            fits, bound = _merged({name: ids[rows] for name, ids in bound.items()}, found.columns)
            srs = np.concatenate([srs[:, rows], found.srs[None]])
            solutions, slots = solutions[rows], [each[rows] for each in slots]
            if fits is not None:
                bound = {name: ids[fits] for name, ids in bound.items()}
                slots = [each[fits] for each in slots]
                srs, solutions = srs[:, fits], solutions[fits]
        for condition in self._expressions:
            names = condition.expression.variables
            # Expressions over window variables were applied when the solution was found.
            if not self.plan.bound >= set(names):
                kept = condition.holds([bound[name] for name in names], solutions.size)
                bound = {name: ids[kept] for name, ids in bound.items()}
                srs, solutions = srs[:, kept], solutions[kept]
        shown = stacked([bound[name] for name in self._projection], solutions.size)
        return JoinedAnswers(shown if self._groups else self._with_blanks(shown), srs, solutions)

    def _with_blanks(self, shown: Ints) -> Ints:
        """Turn the IRIs that stand for blank nodes of sources back into blank nodes."""
        for service in self.services:
            for travelling, blank in service.columns.blanks.items():
                shown[shown == travelling] = blank
        return shown

    def _freshness(self, now: int, srs: Ints) -> tuple[Floats, Ints]:
        """Return freshness and age of answers made of these entries, one row per pattern."""
        sure, age = np.ones(srs.shape[1]), np.full(srs.shape[1], DISTANT_PAST)
        for service, each in zip(self.services, srs, strict=True):
            join = service.service.view.evaluation.join
            sure, age = sure * join.copies[each], np.maximum(age, ages(now, join.refreshed[each]))
        return sure, age

    def _current_answers(self, now: int) -> AnswerBag:
        """Return all answers; with DISTINCT the freshest of each."""
        found = self._joined(np.arange(self.table.size))
        rows, sure, age = self._sort_and_merge(found.output, *self._freshness(now, found.srs))
        return AnswerBag(IdRows(rows, self.dictionary), FreshnessColumns(sure, age))

    def _sort_and_merge(self, rows: Ints, sure: Floats, age: Ints) -> tuple[Ints, Floats, Ints]:
        """Sort answers by freshness if they will be compared; with DISTINCT keep the freshest of each."""
        distinct = self.plan.head.distinct
        if distinct or self.operator is not Operator.RSTREAM:
            order = np.lexsort((age, -sure))
            rows, sure, age = rows[:, order], sure[order], age[order]
        if distinct:
            kept = first_occurrences(rows)
            rows, sure, age = rows[:, kept], sure[kept], age[kept]
        return rows, sure, age


def ages(now: int, refreshed: Ints) -> Ints:
    """Return the ages of copies; NEVER for entries that were never fetched."""
    # Clamped: now - NEVER could overflow, in the branch that np.where discards.
    return np.where(refreshed == base.NEVER, DISTANT_PAST, now - np.maximum(refreshed, base.NEVER // 2))


def _merged(left: dict[str, Ints], right: Mapping[str, Ints]) -> tuple[Bools | None, dict[str, Ints]]:
    """Merge the columns of two joined sides.

    Return which rows are compatible, and the merged columns. -1 is unbound.
    """
    fits: Bools | None = None
    found = dict(left)
    for name, ids in right.items():
        if name not in left:
            found[name] = ids
            continue
        same = (left[name] == ids) | (left[name] < 0) | (ids < 0)
        fits = same if fits is None else fits & same
        found[name] = np.where(left[name] < 0, ids, left[name])
    return (None if fits is None or fits.all() else fits), found


@dataclass(eq=False)
class ServiceGroups(NativeServiceAnswers):
    """A query with SERVICE patterns whose answers are groups."""

    _earlier: tuple[Ints, Floats, Ints] | None = None

    def _current_answers(self, now: int) -> AnswerBag:
        found = self._joined(np.arange(self.table.size))
        assert self._groups is not None
        rows, members = self._groups.rows(found.output), self._groups.members(found.output)
        sure, age = np.ones(rows.shape[1]), np.full(rows.shape[1], DISTANT_PAST)
        for service in self.services:
            sn = np.where(members >= 0, service.notes[1][found.solutions[members]] if found.solutions.size else -1, -1)
            one_sure, one_age = self._freshness_from(service, now, sn)
            sure, age = sure * one_sure, np.maximum(age, one_age)
        rows, sure, age = self._sort_and_merge(self._with_blanks(rows), sure, age)
        if self.operator is not Operator.RSTREAM:
            present = rows, sure, age
            before = self._earlier or (rows[:, :0], sure[:0], age[:0])
            self._earlier = present
            selected, other = (present, before) if self.operator is Operator.ISTREAM else (before, present)
            kept = bag_difference(selected[0], other[0])
            rows, sure, age = selected[0][:, kept], selected[1][kept], selected[2][kept]
        return AnswerBag(IdRows(rows, self.dictionary), FreshnessColumns(sure, age))

    def _freshness_from(self, service: NativeService, now: int, sn: Ints) -> tuple[Floats, Ints]:
        """Return freshness and age of groups as far as one SERVICE determines them.

        `sn` is the slot of each group's lookup key, -1 for a group that has none.
        """
        grouping = self.plan.head.grouping
        assert grouping is not None
        names = service.service.part.sn
        slots = service.notes[1]
        each = np.unique(slots[slots >= 0])
        sure, age = service.key_freshness(now, each)
        least, oldest = float(np.prod(sure)), int(age.max(initial=DISTANT_PAST))
        if not names or not set(grouping.keys) >= set(names) or not each.size:
            return np.full(sn.size, least), np.full(sn.size, oldest)
        place = np.searchsorted(each, np.maximum(sn, each[0]))
        return np.where(sn >= 0, sure[place], least), np.where(sn >= 0, age[place], oldest)

    def _mark(self, live: Bools) -> None:
        super()._mark(live)
        if self._earlier is not None:
            ids = self._earlier[0]
            live[ids[ids >= 0]] = True
