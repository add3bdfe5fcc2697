"""The truth about a trace: the rates that `--knowledge rates` tells."""

import numpy as np
import pytest

from freshkeeper.simulator.trace.trace import Changes, Edges, Trace, TraceArrivals
from freshkeeper.simulator.trace.workload import Workload, generate
from freshkeeper.simulator.world.truth import mean_rates


def test_a_generated_trace_has_the_rates_that_it_was_drawn_with() -> None:
    trace = generate(Workload(sns=5, srs=4, edges=10, change_law="poisson", change_interval_ms=(500, 900)), 1)
    assert trace.schedule is not None
    assert mean_rates(trace).tolist() == (1 / trace.schedule.interval_ms).tolist()


def test_a_recorded_trace_has_changes_over_the_time_that_it_was_recorded() -> None:
    arrivals = TraceArrivals(np.array([1000, 5000]), np.zeros(2, np.int32))
    edges = Edges(np.zeros(2, np.int32), np.arange(2, dtype=np.int32))
    changes = Changes(np.array([2000, 4000, 11_000]), np.array([1, 1, 1], np.int32))
    assert mean_rates(Trace(arrivals, edges, changes, np.arange(1), np.arange(3))) == pytest.approx([0, 3e-4, 0])


def test_a_trace_without_changes_has_rates_of_nothing() -> None:
    none = Changes(np.empty(0, np.int64), np.empty(0, np.int32))
    trace = Trace(
        TraceArrivals(np.array([7]), np.zeros(1, np.int32)),
        Edges(np.zeros(1, np.int32), np.zeros(1, np.int32)),
        none,
        np.arange(1),
        np.arange(1),
    )
    assert mean_rates(trace).tolist() == [0.0]
