"""Groups of answers with SERVICE: a group is as fresh as everything that belongs to it.

Groups that separate lookup keys are as fresh as all entries of their key. Any other group may lack what any key in the
windows would contribute, so it is as fresh as all of them together.
"""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.native.freshness_columns import FreshnessColumns
from freshkeeper.maintenance.engine.native.id_rows import IdRows, bag_difference
from freshkeeper.maintenance.engine.native.service_answers import NativeService, NativeServiceAnswers
from freshkeeper.maintenance.engine.r2s import AnswerBag
from freshkeeper.maintenance.query.model import Operator


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
