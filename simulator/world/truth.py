"""The truth about a trace: its changes, and which answers of an evaluation are really fresh."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule, RecordedChanges
from freshkeeper.policies.base import Case, Graph
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.world.trace_numbers import NO_NUMBER, TraceNumbers

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
