"""SERVICE from the view in columns: solutions of the windows are the mappings, and copies join them.

windows ─▶ solutions ─▶ demand (what came, what left, until when) ─▶ the view's evaluation ─▶ rows of its copies
               ╰───────────────────────────────────────────────────────────▶ answers, each with its freshness
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.freshness_columns import FreshnessColumns
from freshkeeper.maintenance.native.id_rows import IdRows, firsts, numbered, without
from freshkeeper.maintenance.native.native_query import NativeAnswers
from freshkeeper.maintenance.native.solution_table import SolutionTable
from freshkeeper.maintenance.native.view_columns import Expansion, ViewColumns
from freshkeeper.maintenance.native.window_slots import HeldSlots
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.maintenance.rsp.evaluator import Evaluator, Function
from freshkeeper.maintenance.rsp.r2s import Answers
from freshkeeper.maintenance.rsp.window_content import FOREVER, NEVER, Content
from freshkeeper.maintenance.service.asking import Asking
from freshkeeper.maintenance.service_join.from_view import FromView
from freshkeeper.maintenance.service_join.service_view import ServiceView
from freshkeeper.policies.arrays import Bools, Floats, Ints


@dataclass(eq=False)
class NativeService:
    """One SERVICE pattern: which solutions its view knows of, and what it has for them."""

    service: FromView
    dictionary: Dictionary
    table: SolutionTable = field(init=False)
    until: Ints = field(init=False)
    """when each solution is over"""
    number: int = 0
    """which one of the query's it is"""
    _slots: dict[tuple[int, ...], int] = field(default_factory=dict)
    _unknown: list[int] = field(default_factory=list)
    _released: int = 0
    _gone: list[tuple[Ints, Ints]] = field(default_factory=list)

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

    def prepare(self, until: Ints) -> ServiceView:
        """There will be an evaluation."""
        self.until = until
        self.service.stage(self._feed)
        return self.service.view

    def lose(self, noted: Ints) -> None:
        """Solutions are gone, before their time perhaps."""
        fed, slots = noted[2 * self.number], noted[2 * self.number + 1]
        known = fed >= 0
        self._gone.append((fed[known], slots[known]))

    def leave(self) -> None:
        """Nothing is needed any more."""
        self.lose(self.table.noted)
        self._withdraw()
        self.service.leave()

    def expand(self, slots: Ints) -> Expansion:
        """What the view has for solutions with these SNs."""
        evaluation = self.service.view.evaluation
        self.columns.follow(evaluation, self._unknown)
        self._unknown.clear()
        found = self.columns.expand(evaluation.join, slots)
        return replace(found, columns={self._names[name]: ids for name, ids in found.columns.items()})

    def _feed(self, now: int) -> tuple[Ints, Ints]:
        """What came, and what stays longer than it was known to; what is gone is taken out."""
        span, (fed, slots) = self.service.view.manager.window.range, self.notes
        end = np.minimum(now, np.maximum(self.until - span, now - span + 1)) + span
        new = np.flatnonzero(fed < end)
        again = new[fed[new] >= 0]
        self._gone.append((fed[again], slots[again]))
        self._withdraw()
        fresh = new[slots[new] < 0]
        slots[fresh] = self._resolved(fresh)
        fed[new] = end[new]
        return end[new] - span, slots[new]

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


@dataclass(eq=False)
class NativeServiceAnswers(NativeAnswers):
    """A query with SERVICE patterns, all of them from views."""

    services: Sequence[NativeService] = ()
    _earlier: tuple[Ints, Floats, Ints] | None = None

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Sequence[Asking]:
        """The views learn what is in the windows."""
        del now, evaluator, functions
        self._swap()
        until = self._until()
        return [service.prepare(until) for service in self.services]

    def answers(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Answers:
        """The solutions joined with the views."""
        del evaluator, functions
        self.errors = sum(service.service.view.evaluation.record.errors for service in self.services)
        return self._compared(*self._joined(now))

    def rebuild(self, now: int, done: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Sequence[Asking]:
        """An evaluation that an earlier run answered: the last one of query and view tell what is in its window."""
        del evaluator, functions
        self._swap()
        until, lasts = self._until(), [service.service.view.store.last for service in self.services]
        told = [service for service, last in zip(self.services, lasts, strict=True) if now in (done, last)]
        views = [service.prepare(until) for service in told]
        return [view for view in views if now == view.store.last]

    def leave(self) -> None:
        """Views that others have as well need nothing for this one any more."""
        for service in self.services:
            service.leave()

    def _table(self, holders: Sequence[HeldSlots]) -> SolutionTable:
        needed = frozenset(self.variables).union(
            *(service.service.variables for service in self.services),
            *(service.service.part.sn for service in self.services),
            *(expression.variables for expression in self.plan.expressions),
        )
        table = SolutionTable(tuple(sorted(self.plan.given & needed)), holders, 2 * len(self.services))
        for number, service in enumerate(self.services):
            service.table, service.number = table, number
        return table

    def _lose(self, values: Ints, noted: Ints) -> None:
        if values.shape[1] or noted.shape[1]:
            for service in self.services:
                service.lose(noted)

    def _until(self) -> Ints:
        """When each solution is over: with the first of its elements to leave."""
        found = np.full(self.table.size, FOREVER, np.int64)
        contents: dict[int, Content] = {id(content.held): content for content in self.contents}
        for held, slots in zip(self.table.holders, self.table.slots, strict=True):
            lasts = contents[id(held)].expiry(0)
            if lasts != FOREVER:
                found = np.minimum(found, held.latest[slots] + lasts)
        return found

    def _joined(self, now: int) -> tuple[Ints, Floats, Ints]:
        """The answers: what they show, how sure they are, how old."""
        bound = dict(zip(self.table.variables, self.table.values, strict=True))
        sure, age = np.ones(self.table.size), np.full(self.table.size, NEVER)
        slots = [service.notes[1] for service in self.services]
        for n, service in enumerate(self.services):
            found = service.expand(slots[n])
            rows = found.solutions
            fits, bound = _merged({name: ids[rows] for name, ids in bound.items()}, found.columns)
            sure, age = sure[rows] * found.fresh, np.maximum(age[rows], now - found.refreshed)
            slots = [each[rows] for each in slots]
            if fits is not None:
                bound, slots = {name: ids[fits] for name, ids in bound.items()}, [each[fits] for each in slots]
                sure, age = sure[fits], age[fits]
        for condition in self._expressions:
            names = condition.expression.variables
            if not self.plan.given >= set(names):
                kept = condition.holds([bound[name] for name in names], sure.size)
                bound = {name: ids[kept] for name, ids in bound.items()}
                sure, age = sure[kept], age[kept]
        shown = np.stack([bound[name] for name in self.variables]) if self.variables else np.empty((0, sure.size), int)
        for service in self.services:
            for travelling, blank in service.columns.blanks.items():
                shown[shown == travelling] = blank
        return shown, sure, age

    def _compared(self, rows: Ints, sure: Floats, age: Ints) -> Answers:
        """DISTINCT, and R2S."""
        operator = self.query.operator
        if self.plan.head.distinct or operator is not Operator.RSTREAM:  # of equal answers the surest come first
            order = np.lexsort((age, -sure))
            rows, sure, age = rows[:, order], sure[order], age[order]
        if self.plan.head.distinct:
            kept = firsts(rows)
            rows, sure, age = rows[:, kept], sure[kept], age[kept]
        if operator is not Operator.RSTREAM:
            now = rows, sure, age
            before = self._earlier or (rows[:, :0], sure[:0], age[:0])
            self._earlier = now
            (rows, sure, age), other = (now, before) if operator is Operator.ISTREAM else (before, now)
            kept = without(rows, other[0])
            rows, sure, age = rows[:, kept], sure[kept], age[kept]
        return Answers(IdRows(rows, self.dictionary), FreshnessColumns(sure, age))

    def _mark(self, live: Bools) -> None:
        super()._mark(live)
        if self._earlier is not None:
            ids = self._earlier[0]
            live[ids[ids >= 0]] = True


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
