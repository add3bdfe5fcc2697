"""Finds the solutions of all evaluations of a batch at once: each holds as long as all its triples do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.native.delta_join import DeltaJoin, PartialSolutions
from freshkeeper.maintenance.engine.native.interval_rows import IntervalRows
from freshkeeper.maintenance.engine.native.join_inputs import Bindings, WindowInput

SINCE, UNTIL = " since", " until"
"""Columns next to the variables; the leading space keeps them apart from SPARQL names."""


@dataclass(frozen=True, eq=False)
class IntervalInput(WindowInput):
    """A triple pattern over rows that hold during some evaluations of the batch."""

    rows: IntervalRows

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """Return which pairs overlap in time, and satisfy the pattern."""
        since = np.maximum(bound[SINCE][rows], self.rows.since[members])
        found: Bools = since < np.minimum(bound[UNTIL][rows], self.rows.until[members])
        same = super().fits(bound, rows, members)
        return found if same is None else found & same


@dataclass(frozen=True, eq=False)
class IntervalJoin(DeltaJoin):
    """A join over the inputs of one plan, with those over windows first."""

    windows: Sequence[IntervalInput]

    def batch(self) -> Iterator[PartialSolutions]:
        """Yield all solutions that a batch adds, with their intervals."""
        new = {n: one.rows.is_new() for n, one in enumerate(self.windows)}
        for n, one in enumerate(self.windows):
            if (rows := one.matching(one.rows.added)).size:
                members = np.full((len(self.inputs), rows.size), -1, np.int64)
                members[n] = rows
                bound = {name: one.column(name, rows) for name in one.variables}
                bound |= {SINCE: one.rows.since[rows], UNTIL: one.rows.until[rows]}
                # As in DeltaJoin.arrived: new rows meet old ones only in the inputs after n, so no solution is found
                # twice.
                behind = {m: each for m, each in new.items() if m > n}
                yield from self._extend(
                    PartialSolutions(bound, members), frozenset(range(len(self.inputs))) - {n}, behind
                )

    def until(self, members: Ints) -> Ints:
        """Return when the solutions of these rows end."""
        found = np.full(members.shape[1], DISTANT_FUTURE)
        for one, rows in zip(self.windows, members, strict=True):
            np.minimum(found, one.rows.until[rows], out=found)
        return found

    def _joined(self, rows: PartialSolutions, number: int, some: Ints, members: Ints) -> PartialSolutions:
        found = super()._joined(rows, number, some, members)
        if number < len(self.windows):
            held, bound = self.windows[number].rows, found.bound
            bound[SINCE] = np.maximum(bound[SINCE], held.since[members])
            bound[UNTIL] = np.minimum(bound[UNTIL], held.until[members])
        return found
