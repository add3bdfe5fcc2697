"""SERVICE from the view in columns: solutions of the windows are the mappings, and copies join them.

windows ─▶ solutions ─▶ demand (what came, what left, until when) ─▶ the view's evaluation ─▶ rows of its copies
               ╰───────────────────────────────────────────────────────────▶ answers, each with its freshness
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.engine.evaluator import Evaluator, Function
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.freshness_columns import FreshnessColumns
from freshkeeper.maintenance.engine.native.group_index import GroupIndex
from freshkeeper.maintenance.engine.native.id_rows import IdRows, firsts, numbered, stacked
from freshkeeper.maintenance.engine.native.native_query import NativeAnswers
from freshkeeper.maintenance.engine.native.solution_table import SolutionTable
from freshkeeper.maintenance.engine.native.view_columns import Expansion, ViewColumns
from freshkeeper.maintenance.engine.native.window_slots import HeldSlots
from freshkeeper.maintenance.engine.r2s import Answers
from freshkeeper.maintenance.engine.service_join.from_view import FromView
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.window_content import FOREVER, NEVER, Content
from freshkeeper.maintenance.fetching.asking import Asking
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.policies import base


@dataclass(eq=False)
class NativeService:
    """One SERVICE pattern: which solutions its view knows of, and what it has for them."""

    service: FromView
    dictionary: Dictionary
    table: SolutionTable = field(init=False)
    by_sn: GroupIndex | None = None
    """solutions that the view knows of by their SN, where somebody asks"""
    number: int = 0
    """which one of the query's it is"""
    _slots: dict[tuple[int, ...], int] = field(default_factory=dict)
    _unknown: list[int] = field(default_factory=list)
    _released: int = 0
    _gone: list[tuple[Ints, Ints]] = field(default_factory=list)
    _looked: tuple[Ints, Ints] = field(init=False)

    def __post_init__(self) -> None:
        """Ids of SNs are kept, for they come again."""
        view = self.service.view
        if view.columns is None:
            view.columns = ViewColumns(view.manager, view.endpoint, self.dictionary)
        self.columns = view.columns
        self._names = dict(zip(view.endpoint.variables, self.service.variables, strict=True))
        self.dictionary.hold(self._mark)

    @property
    def notes(self) -> tuple[Ints, Ints]:
        """Of each solution: until when the view knows of it, and the slot of its SN."""
        return self.table.noted[2 * self.number], self.table.noted[2 * self.number + 1]

    def prepare(self, rows: Ints, until: Ints) -> ServiceView:
        """There will be an evaluation; these solutions, over then, may have to be told of."""
        self._looked = rows, until
        self.service.stage(self._feed)
        return self.service.view

    def lose(self, noted: Ints) -> None:
        """Solutions are gone, before their time perhaps."""
        fed, slots = noted[2 * self.number], noted[2 * self.number + 1]
        known = fed >= 0
        self._gone.append((fed[known], slots[known]))
        if self.by_sn is not None:
            self.by_sn.remove(noted[-1, known])

    def leave(self) -> None:
        """Nothing is needed any more."""
        fed, slots = self.notes
        self._gone.append((fed[fed >= 0], slots[fed >= 0]))
        self._withdraw()
        self.service.leave()

    def follow(self) -> None:
        """The view was evaluated."""
        self.columns.follow(self.service.view.evaluation, self._unknown)
        self._unknown.clear()

    def expand(self, slots: Ints) -> Expansion:
        """What the view has for solutions with these SNs."""
        found = self.columns.expand(slots, self.service.marks)
        return replace(found, columns={self._names[name]: ids for name, ids in found.columns.items()})

    def wholes(self, now: int, sns: Ints) -> tuple[Floats, Ints]:
        """How sure it is that all copies of these SNs are fresh, and how old the oldest one is."""
        manager, join = self.service.view.manager, self.service.view.evaluation.join
        place = np.searchsorted(join.sns, sns)
        known = place < join.sns.size
        known[known] = join.sns[place[known]] == sns[known]
        known[known] = join.degrees[place[known]] > 0
        sure = np.ones(sns.size)
        sure[known] = join.wholes[place[known]]
        sn, sr = manager.graph.edges_of(sns)
        refreshed = join.refreshed[sr]
        age = np.full(sns.size, NEVER)
        held = refreshed != base.NEVER
        np.maximum.at(age, np.searchsorted(sns, sn[held]), now - refreshed[held])
        return sure, age

    def _feed(self, now: int) -> tuple[Ints, Ints]:
        """What came, and what stays longer than it was known to; what is gone is taken out."""
        span, (fed, slots), (rows, until) = self.service.view.manager.window.range, self.notes, self._looked
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
        window = self.service.view.manager
        for ends, sns in self._gone:
            window.content.withdraw(ends - window.window.range, sns)
        self._gone.clear()

    def _mark(self, live: Bools) -> None:
        live[[id for sn in self._slots for id in sn]] = True

    def _resolved(self, rows: Ints) -> Ints:
        """The slots of the SNs of some solutions; those that are new to the view are ordered by their text."""
        view, table = self.service.view.manager.view, self.table
        if view.released != self._released:
            self._slots.clear()
            self._released = view.released
        places = [table.variables.index(name) for name in self.service.part.sn]
        ids = table.values[places][:, rows]
        numbers, most = numbered(ids)
        each = np.empty(most, np.int64)
        each[numbers] = np.arange(rows.size)
        sns = list(map(tuple, ids[:, each].T.tolist()))
        new = [sn for sn in sns if sn not in self._slots]
        terms = {tuple(map(self.dictionary.term, sn)): sn for sn in new}
        ordered = sorted(terms, key=str)
        unknown = view.sn_slots(ordered).tolist()
        self._slots.update(zip(map(terms.__getitem__, ordered), unknown, strict=True))
        self._unknown += unknown
        return np.array([self._slots[sn] for sn in sns], np.int64)[numbers]


@dataclass(frozen=True, eq=False)
class Joined:
    """Answers: what they show, and what they are made of."""

    shown: Ints
    """variables × answers"""
    srs: Ints
    """SERVICE patterns × answers"""
    solutions: Ints


@dataclass(eq=False)
class NativeServiceAnswers(NativeAnswers):
    """A query with SERVICE patterns, all of them from views."""

    services: Sequence[NativeService] = ()

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Sequence[Asking]:
        """The views learn what is in the windows."""
        del evaluator, functions
        self._swap()
        rows = self._looked(now)
        until = self._until(rows)
        return [service.prepare(rows, until) for service in self.services]

    def answers(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Answers:
        """The solutions joined with the views."""
        del evaluator, functions
        self.errors = sum(service.service.view.evaluation.record.errors for service in self.services)
        for service in self.services:
            service.follow()
        return self._compared(now)

    def rebuild(self, now: int, done: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Sequence[Asking]:
        """An evaluation that an earlier run answered: the last one of query and view tell what is in its window."""
        del evaluator, functions
        self._swap()
        lasts = [service.service.view.store.last for service in self.services]
        told = [service for service, last in zip(self.services, lasts, strict=True) if now in (done, last)]
        rows = self._looked(now)
        views = [service.prepare(rows, self._until(rows)) for service in told]
        return [view for view in views if now == view.store.last]

    def leave(self) -> None:
        """Views that others have as well need nothing for this one any more."""
        for service in self.services:
            service.leave()

    def _table(self, holders: Sequence[HeldSlots]) -> SolutionTable:
        needed = frozenset(self._projection).union(
            *(service.service.variables for service in self.services),
            *(service.service.part.sn for service in self.services),
            *(expression.variables for expression in self.plan.expressions),
        )
        table = self._made(tuple(sorted(self.plan.bound & needed)), holders)
        for number, service in enumerate(self.services):
            service.table, service.number = table, number
        return table

    def _made(self, variables: tuple[str, ...], holders: Sequence[HeldSlots]) -> SolutionTable:
        return SolutionTable(variables, holders, 2 * len(self.services))

    def _looked(self, now: int) -> Ints:
        """The solutions that may be new to a view, or stay longer than it knows."""
        del now
        return np.arange(self.table.size)

    def _lose(self, values: Ints, noted: Ints) -> None:
        if values.shape[1] or noted.shape[1]:
            for service in self.services:
                service.lose(noted)

    def _until(self, rows: Ints) -> Ints:
        """When some solutions are over: with the first of their elements to leave."""
        found = np.full(rows.size, FOREVER, np.int64)
        contents: dict[int, Content] = {id(content.held): content for content in self.contents}
        for held, slots in zip(self.table.holders, self.table.slots, strict=True):
            lasts = contents[id(held)].expiry(0)
            if lasts != FOREVER:
                found = np.minimum(found, held.latest[slots[rows]] + lasts)
        return found

    def _joined(self, solutions: Ints) -> "Joined":
        """The answers that some solutions have."""
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
                bound, slots = {name: ids[fits] for name, ids in bound.items()}, [each[fits] for each in slots]
                srs, solutions = srs[:, fits], solutions[fits]
        for condition in self._expressions:
            names = condition.expression.variables
            if not self.plan.bound >= set(names):
                kept = condition.holds([bound[name] for name in names], solutions.size)
                bound = {name: ids[kept] for name, ids in bound.items()}
                srs, solutions = srs[:, kept], solutions[kept]
        shown = stacked([bound[name] for name in self._projection], solutions.size)
        return Joined(shown if self._groups else self._with_blanks(shown), srs, solutions)

    def _with_blanks(self, shown: Ints) -> Ints:
        """Blank nodes of sources are such again."""
        for service in self.services:
            for travelling, blank in service.columns.blanks.items():
                shown[shown == travelling] = blank
        return shown

    def _sure(self, now: int, srs: Ints) -> tuple[Floats, Ints]:
        """How sure answers are that are made of these copies, a row for each pattern, and how old."""
        sure, age = np.ones(srs.shape[1]), np.full(srs.shape[1], NEVER)
        for service, each in zip(self.services, srs, strict=True):
            join = service.service.view.evaluation.join
            sure, age = sure * join.copies[each], np.maximum(age, ages(now, join.refreshed[each]))
        return sure, age

    def _compared(self, now: int) -> Answers:
        """All of them, or with DISTINCT the surest of each."""
        found = self._joined(np.arange(self.table.size))
        rows, sure, age = self._once(found.shown, *self._sure(now, found.srs))
        return Answers(IdRows(rows, self.dictionary), FreshnessColumns(sure, age))

    def _once(self, rows: Ints, sure: Floats, age: Ints) -> tuple[Ints, Floats, Ints]:
        """Answers, the surest first where they are compared; with DISTINCT that one alone."""
        distinct = self.plan.head.distinct
        if distinct or self.operator is not Operator.RSTREAM:
            order = np.lexsort((age, -sure))
            rows, sure, age = rows[:, order], sure[order], age[order]
        if distinct:
            kept = firsts(rows)
            rows, sure, age = rows[:, kept], sure[kept], age[kept]
        return rows, sure, age


def ages(now: int, refreshed: Ints) -> Ints:
    """How old copies are; of what was never fetched there is none."""
    return np.where(refreshed == base.NEVER, NEVER, now - np.maximum(refreshed, base.NEVER // 2))


def _merged(left: dict[str, Ints], right: Mapping[str, Ints]) -> tuple[Bools | None, dict[str, Ints]]:
    """Two sides of a join by columns: which rows fit, and what they bind together; -1 is unbound and fits all."""
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
