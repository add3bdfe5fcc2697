"""The truth about a trace: what changed when, and so which answers of an evaluation are really fresh."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.view.changes import Beliefs, ChangeModel, Evidence
from freshkeeper.maintenance.view.schedule import STRANGER, FixedSchedule, Numbering, RecordedChanges
from freshkeeper.policies.arrays import Bools, Floats, Ids, Ints
from freshkeeper.policies.base import Case, Graph, Knowledge
from freshkeeper.simulator.trace.trace import Trace

Schedule: TypeAlias = FixedSchedule | RecordedChanges


def schedule_of(trace: Trace) -> Schedule:
    """All changes of a trace: by formula where it knows fixed schedules, else as they were recorded."""
    known = trace.schedule
    if known is not None and known.phase_ms is not None:
        return FixedSchedule(known.interval_ms, known.phase_ms)
    return RecordedChanges(trace.changes.sr.astype(np.int64), trace.changes.t_ms, trace.srs)


def mean_rates(trace: Trace) -> Floats:
    """The true rate of every SR per ms, as what generated the trace has it, else its changes over the time recorded."""
    if trace.schedule is not None:
        return 1.0 / trace.schedule.interval_ms
    times = np.concatenate([trace.arrivals.t_ms[[0, -1]], trace.changes.t_ms[:1], trace.changes.t_ms[-1:]])
    return np.bincount(trace.changes.sr, minlength=trace.srs) / max(1, int(np.ptp(times)))


@dataclass(eq=False)
class Watched:
    """A change model that also remembers which SR of the trace each slot stands for."""

    model: ChangeModel
    numbering: Numbering

    @property
    def knowledge(self) -> Knowledge:
        """The model's."""
        return self.model.knowledge

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """The model and the numbering learn which entries these slots stand for."""
        self.numbering.admit(slots, keys)
        self.model.admit(slots, keys)

    def evict(self, slots: Ids) -> None:
        """The model and the numbering forget these slots."""
        self.numbering.evict(slots)
        self.model.evict(slots)

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """The model's."""
        return self.model.beliefs(instants, last_refresh, look_ahead, slots)

    def observe(self, evidence: Evidence) -> None:
        """The model learns."""
        self.model.observe(evidence)


@dataclass(eq=False)
class Truth:
    """Counts answers and fresh answers by version, misses included: an SN that the view lacks has its answers too."""

    schedule: Schedule
    graph: Graph
    numbering: Numbering = field(init=False)

    def __post_init__(self) -> None:
        self.numbering = Numbering(self.schedule.srs)
        self.degree = np.diff(self.graph.sn_start)

    def measure(self, manager: Manager, evaluation: Evaluation) -> tuple[float, float]:
        """How many answers the evaluation has, and how many of them are fresh."""
        counts, keys = evaluation.counts, manager.view.sns.keys
        degree = self.degree[np.array([keys[sn] for sn in evaluation.sns.tolist()], dtype=np.int64)]
        _, sr = manager.graph.edges_of(evaluation.sns)
        fresh = self.fresh_slots(manager, evaluation.record.t_ms)[sr]
        held = manager.graph.degrees(evaluation.sns)
        if manager.case is Case.BGP:
            return float(counts @ degree), float(np.repeat(counts, held) @ fresh)
        connected = held > 0
        starts = (np.cumsum(held) - held)[connected]
        whole = np.logical_and.reduceat(fresh, starts) if starts.size else np.zeros(0, bool)
        return float(counts[degree > 0].sum()), float(counts[connected] @ whole)

    def fresh_slots(self, manager: Manager, now: int) -> Bools:
        """Which copies are fresh at `now`: fetched, and not changed since."""
        refreshed = manager.view.last_refresh
        number = self.numbering.of(refreshed.size)
        last = self.schedule.last_change(now)
        fresh: Bools = (number != STRANGER) & (last[number] <= refreshed)
        return fresh
