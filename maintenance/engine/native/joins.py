"""Joins new triples with all other inputs; each row continues with the input that has the fewest matches for it.

Seed 000, Algorithm 2: the next operator for a mapping is the one with the lowest cardinality for it. IntervalJoin finds
the solutions of all evaluations of a batch at once: each holds as long as all its triples do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.columns.join_inputs import Bindings, JoinInput, WindowInput
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore, IntervalRows
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimitError

MAX_ROWS = 1 << 25
"""Rows of one step of a join, some hundred bytes each: a product of three patterns would else take all memory."""


@dataclass(frozen=True, eq=False)
class PartialSolutions:
    """Partial solutions in columns: the ids of variables, and the member of each input, -1 if not joined yet."""

    bound: dict[str, Ints]
    members: Ints
    """inputs × rows"""

    @property
    def size(self) -> int:
        """The number of solutions."""
        return int(self.members.shape[1])

    def take(self, rows: Ints | Bools) -> "PartialSolutions":
        """Return the solutions at these rows."""
        return PartialSolutions({name: ids[rows] for name, ids in self.bound.items()}, self.members[:, rows])


@dataclass(frozen=True, eq=False)
class DeltaJoin:
    """A join over the inputs of one plan."""

    inputs: Sequence[JoinInput]

    def arrived(self, held: ColumnWindowStore) -> Iterator[PartialSolutions]:
        """Yield all solutions that one window's last move adds, each once.

        A new triple in pattern n is joined with all triples, new and old, in the patterns before n, but only with old
        ones in the patterns after n; otherwise a solution with two new triples would be found twice.
        """
        if not held.added.size:
            return
        new = np.zeros(held.width, bool)
        new[held.added] = True
        for n, one in enumerate(self.inputs):
            if not isinstance(one, WindowInput) or one.store is not held:
                continue
            slots = one.matching(held.added)
            if slots.size:
                members = np.full((len(self.inputs), slots.size), -1, np.int64)
                members[n] = slots
                start = PartialSolutions({name: one.column(name, slots) for name in one.variables}, members)
                behind = {m: new for m in range(n + 1, len(self.inputs)) if self._reads(m, held)}
                yield from self._extend(start, frozenset(range(len(self.inputs))) - {n}, behind)

    def all(self) -> Iterator[PartialSolutions]:
        """Yield the solutions over the present content of all inputs."""
        none = PartialSolutions({}, np.full((len(self.inputs), 1), -1, np.int64))
        yield from self._extend(none, frozenset(range(len(self.inputs))), {})

    def _reads(self, number: int, held: ColumnWindowStore) -> bool:
        one = self.inputs[number]
        return isinstance(one, WindowInput) and one.store is held

    def _extend(
        self, rows: PartialSolutions, rest: frozenset[int], new: Mapping[int, Bools]
    ) -> Iterator[PartialSolutions]:
        """Join rows with the remaining inputs; members of input n that are set in new[n] are left out."""
        if not rest or not rows.size:
            if rows.size:
                yield rows
            return
        # Avoid Cartesian products: inputs that share a variable with the rows come first.
        joined = [n for n in sorted(rest) if not self.inputs[n].variables.isdisjoint(rows.bound)] or sorted(rest)
        probes = {n: self.inputs[n].probe(rows.bound, rows.size) for n in joined}
        for n, here in self._routed({n: probe.counts for n, probe in probes.items()}):
            groups = probes[n].groups[here]
            total = int(probes[n].index.counts(groups).sum())
            if total > MAX_ROWS:
                raise EvaluationLimitError(f"a join has {total:,} intermediate rows, and at most {MAX_ROWS:,} fit")
            places, members = probes[n].index.expand(groups, total)
            some = here[places]
            if n in new:
                kept = ~new[n][members]
                some, members = some[kept], members[kept]
            fit = self.inputs[n].fits(rows.bound, some, members)
            if fit is not None:
                some, members = some[fit], members[fit]
            yield from self._extend(self._joined(rows, n, some, members), rest - {n}, new)

    def _routed(self, counts: dict[int, Ints]) -> Iterator[tuple[int, Ints]]:
        """Yield the rows that continue with each input; rows without a match in some input are dropped."""
        if len(counts) == 1:
            ((n, count),) = counts.items()
            yield n, np.flatnonzero(count)
            return
        matrix = np.stack(list(counts.values()))
        alive, best = matrix.min(axis=0) > 0, matrix.argmin(axis=0)
        for place, n in enumerate(counts):
            here = np.flatnonzero(alive & (best == place))
            if here.size:
                yield n, here

    def _joined(self, rows: PartialSolutions, number: int, some: Ints, members: Ints) -> PartialSolutions:
        found, one = rows.take(some), self.inputs[number]
        found.members[number] = members
        for name in one.variables:
            if name not in found.bound:
                found.bound[name] = one.column(name, members)
        return found


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
