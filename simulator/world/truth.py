"""The truth about a trace: its changes, which answers are really fresh, and the future that a bound sees."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule, RecordedChanges
from freshkeeper.maintenance.cache.view.slots import Slots
from freshkeeper.policies.base import Case, Graph
from freshkeeper.policies.bound.future import Future, headline_weight
from freshkeeper.simulator.trace.trace import Trace

NO_NUMBER = -1
"""The number of a slot that is free or holds no copy, and the slot of a key that the view lacks."""


@dataclass(eq=False)
class TraceNumbers:
    """The two-way table between slots of a view whose keys are trace numbers, and those numbers."""

    count: int
    """how many numbers the trace has"""
    _slots: Slots | None = None
    _version: int = -1
    _number_of: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _slot_of: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def numbers(self, slots: Slots) -> Ints:
        """Return the trace number of every slot, NO_NUMBER for those without a copy's key."""
        self._renew(slots)
        return self._number_of

    def slots(self, slots: Slots, numbers: Ids | Ints) -> Ints:
        """Return the slots of these trace numbers, NO_NUMBER for those that the view lacks."""
        self._renew(slots)
        return self._slot_of[numbers]

    def _renew(self, slots: Slots) -> None:
        if slots is self._slots and slots.version == self._version:
            return
        held = slots.by_kind[Kind.COPY]
        numbers, places = (np.fromiter(part, np.int64, len(held)) for part in (held.keys(), held.values()))
        self._number_of = np.full(slots.width, NO_NUMBER)
        self._number_of[places] = numbers
        self._slot_of = np.full(self.count, NO_NUMBER)
        self._slot_of[numbers] = places
        self._slots, self._version = slots, slots.version


Schedule: TypeAlias = FixedSchedule | RecordedChanges


def schedule_of(trace: Trace) -> Schedule:
    """Return all changes of a trace: by formula for fixed schedules, or as they were recorded."""
    known = trace.schedule
    if known is not None and known.phase_ms is not None:
        return FixedSchedule(known.interval_ms, known.phase_ms)
    return RecordedChanges(trace.changes.sr.astype(np.int64), trace.changes.t_ms, trace.srs)


def mean_rates(trace: Trace) -> Floats:
    """Return the true rate of every SR per ms, from the generator, or as changes over the recorded time."""
    if trace.schedule is not None:
        return 1.0 / trace.schedule.interval_ms
    times = np.concatenate([trace.arrivals.t_ms[[0, -1]], trace.changes.t_ms[:1], trace.changes.t_ms[-1:]])
    return np.bincount(trace.changes.sr, minlength=trace.srs) / max(1, int(np.ptp(times)))


@dataclass(eq=False)
class SimulatedTruth:
    """Counts answers and fresh answers by version, misses included: an SN that the view lacks has its answers too."""

    schedule: Schedule
    graph: Graph

    def __post_init__(self) -> None:
        self.degree = np.diff(self.graph.sn_start)
        self._sns = TraceNumbers(self.graph.sns)
        self._srs = TraceNumbers(self.graph.srs)

    def measure(self, manager: Manager, evaluation: Evaluation) -> tuple[float, float]:
        """Return how many answers the evaluation has, and how many of them are fresh."""
        degree, counts = self.degree[self.numbers(manager, evaluation)], evaluation.counts
        fresh = self._fresh_copies(manager.view, evaluation.record.t_ms)
        if manager.case is Case.BGP:
            # Demand is counted by entry already: a sum over entries instead of one over all edges of the window.
            needed = manager.demand.needed(evaluation.record.t_ms, evaluation.sns, counts)
            return float(counts @ degree), float(needed[fresh].sum())
        _, sr = manager.graph.edges_of(evaluation.sns)
        held = manager.graph.degrees(evaluation.sns)
        connected = held > 0
        starts = (np.cumsum(held) - held)[connected]
        whole = np.zeros(0, bool)
        if starts.size:  # reduceat refuses an empty list of starts
            whole = np.logical_and.reduceat(fresh[sr], starts)
        return float(counts[degree > 0].sum()), float(counts[connected] @ whole)

    def numbers(self, manager: Manager, evaluation: Evaluation) -> Ints:
        """Return the SNs of the evaluation as the trace numbers them."""
        return self._sns.numbers(manager.view.sns)[evaluation.sns]

    def _fresh_copies(self, view: View, now: int) -> Bools:
        """Return which slots hold a copy that has not changed since it was fetched, at `now`; a miss holds none."""
        numbers = self._srs.numbers(view.srs)
        fresh: Bools = self.schedule.last_change(now)[numbers] <= view.last_refresh
        # A slot without a number got the last entry's time of change; a copy never fetched is older than any change.
        fresh &= numbers != NO_NUMBER
        return fresh


def future_of(
    trace: Trace, graph: Graph, schedule: Schedule, window: WindowSpec, evaluations: int, warm_up: int,
    rule: BudgetRule, case: Case, warm: bool,
) -> Future:  # fmt: skip
    """Return the future of a run of `evaluations` evaluations."""
    profile = profiles(trace, window, evaluations)
    degree = np.diff(graph.sn_start)
    per_mapping = degree.astype(np.float64) if case is Case.BGP else (degree > 0).astype(np.float64)
    t_ms, sr = schedule.changes(window.start, window.instant(evaluations))
    seen = window.first(t_ms) - 1 if t_ms.size else np.empty(0, np.int64)
    paid = [float(rule.paid(k)) for k in range(evaluations + 1)]
    return Future.of(
        profile,
        graph,
        changed_at=seen,
        changed_sr=sr,
        weight=headline_weight(np.asarray(profile @ per_mapping), warm_up),
        pay=np.diff(paid),
        fresh_at_start=np.full(graph.srs, warm),
        cost=np.ones(graph.srs),
        bank=float(rule.bank),
        initial=float(rule.initial),
    )


def profiles(trace: Trace, window: WindowSpec, evaluations: int) -> "sparse.csr_array[np.float64, tuple[int, int]]":
    """c_i(0) of every evaluation, K × SN."""
    content, rows = Window(window, ring=64), []
    instants = (window.instant(k) for k in range(1, evaluations + 1))
    for k, (_, batch) in enumerate(trace.batches(instants), 1):
        content.insert(batch.t_ms, batch.sn.astype(np.int64))
        content.advance(k)
        rows.append(sparse.csr_array(content.profile(trace.sns, 1).T))
    return sparse.csr_array(sparse.vstack(rows, format="csr"))
