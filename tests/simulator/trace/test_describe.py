"""The description of a trace: worked by hand, and equal to going through the evaluations one by one."""

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.simulator.trace.describe import describe, rank_correlation, stale_answers, text
from freshkeeper.simulator.trace.trace import Changes, Edges, Trace, TraceArrivals
from freshkeeper.simulator.trace.workload import Workload, generate


def by_hand() -> Trace:
    """SN 0 needs SRs 0 and 1, SN 1 needs SR 0, SN 2 arrives without edges, SN 3 never arrives."""
    return Trace(
        TraceArrivals(np.array([100, 104, 112, 125, 130]), np.array([0, 1, 0, 2, 1], np.int32)),
        Edges(np.array([0, 0, 1, 3], np.int32), np.array([0, 1, 0, 2], np.int32), repeated=1),
        Changes(np.array([90, 100, 115, 118, 200]), np.array([1, 0, 0, 3, 0], np.int32)),
        np.arange(4),
        np.arange(4),
    )


def one_by_one(trace: Trace, window: int, step: int) -> dict[str, int]:
    """Answers and stale answers of both cases, evaluation by evaluation."""
    counts = dict.fromkeys(("bgp", "stale_bgp", "aggregate", "stale_aggregate"), 0)
    joined = np.bincount(trace.edges.sn, minlength=trace.sns) > 0
    for k in range(1, (int(trace.arrivals.t_ms[-1]) - trace.t0) // step + 1):
        now = trace.t0 + k * step
        stale = np.zeros(trace.srs, bool)
        stale[trace.changes_between(trace.t0, now).sr] = True
        content = np.bincount(trace.arrivals_between(now - window, now).sn, minlength=trace.sns)
        spoilt = np.zeros(trace.sns, bool)
        spoilt[trace.edges.sn[stale[trace.edges.sr]]] = True
        counts["bgp"] += int(content[trace.edges.sn].sum())
        counts["stale_bgp"] += int(content[trace.edges.sn][stale[trace.edges.sr]].sum())
        counts["aggregate"] += int(content[joined].sum())
        counts["stale_aggregate"] += int(content[joined & spoilt].sum())
    return counts


def test_entities_are_counted_with_what_is_alone() -> None:
    description = describe(by_hand(), 20, 10)
    assert {name: description[name] for name in list(description)[:10]} == {
        "sns": 4,
        "srs": 4,
        "edges": 4,
        "repeated_edges": 1,
        "arrivals": 5,
        "changes": 5,
        "sns_that_never_arrive": 1,
        "arrivals_without_edges": 1,
        "srs_without_edges": 1,
        "srs_that_never_change": 1,
    }


def test_staleness_worked_by_hand() -> None:
    """Of ω = 20 and β = 10 at 110, 120, 130: what arrived is {0, 1}, {1, 0}, {0, –, 1}, and SR 0 is stale from 120 on.

    At 100 it changes with the first arrival, when it was fetched: that is in the copy. Answers are the edges 2 + 1,
    1 + 2 and 2 + 1, stale 0, 1 + 1 and 1 + 1; sums are 2, 2 and 2, stale 0, 2 and 2.
    """
    description = describe(by_hand(), 20, 10)
    assert description["evaluations"] == 3
    assert description["answers_per_evaluation_median"] == 3
    assert description["share_stale_if_never_refreshed_bgp"] == pytest.approx(4 / 9)
    assert description["share_stale_if_never_refreshed_aggregate"] == pytest.approx(4 / 6)


@settings(max_examples=examples(100))
@given(
    seed=st.integers(0, 2**32),
    edges=st.integers(1, 100),
    slowest=st.integers(100, 40_000),
    window=st.integers(1, 9000),
    step=st.integers(1, 4000),
)
def test_staleness_is_that_of_every_evaluation(seed: int, edges: int, slowest: int, window: int, step: int) -> None:
    workload = Workload(sns=10, srs=10, edges=edges, change_interval_ms=(100, slowest), duration_ms=10_000)
    trace = generate(workload, seed)
    description = describe(trace, window, max(step, 50))
    counts = one_by_one(trace, window, max(step, 50))
    for case in ("bgp", "aggregate"):
        whole = counts[case]
        share = counts[f"stale_{case}"] / whole if whole else None
        assert description[f"share_stale_if_never_refreshed_{case}"] == share


def test_many_evaluations_of_many_sns_are_counted_right() -> None:
    """At k = 1 to 9 the first arrival is in the window, at the last of 10⁹ the second; the SR changes in between."""
    trace = Trace(
        TraceArrivals(np.array([0, 10**9]), np.array([3, 3], np.int32)),
        Edges(np.array([3], np.int32), np.array([0], np.int32)),
        Changes(np.array([10**8]), np.array([0], np.int32)),
        np.arange(4),
        np.arange(1),
    )
    assert stale_answers(trace, trace.edges.sn, np.array([10**8]), window=10, step=1) == 1


def test_the_papers_trace() -> None:
    description = describe(generate(Workload(), 0))
    assert (description["suggested_window_ms"], description["suggested_step_ms"]) == (4000, 1000)
    assert (description["window_ms"], description["step_ms"]) == (4000, 1000)
    assert description["edges_per_sn_median"] == pytest.approx(20, abs=2)
    assert description["arrivals_per_second"] == pytest.approx(50 * np.log(2), rel=0.1)
    assert description["changes_per_second"] == pytest.approx(50 * np.log(30) / 2.9, rel=0.3)


def test_rank_correlation_shares_the_ranks_of_equals() -> None:
    assert rank_correlation(np.array([1, 2, 3, 9]), np.array([10, 20, 30, 31])) == pytest.approx(1)
    assert rank_correlation(np.array([1, 2, 3]), np.array([9, 5, 1])) == pytest.approx(-1)
    assert rank_correlation(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 4])) == pytest.approx(0.9**0.5)
    assert rank_correlation(np.array([1, 1]), np.array([1, 2])) is None


def test_correlations_have_the_sign_of_the_generator() -> None:
    workload = Workload(
        degree_skew=0.6, change_degree_correlation=-0.9, arrival_degree_correlation=0.9, duration_ms=300_000
    )
    description = describe(generate(workload, 1))
    changing, arriving = (description[f"correlation_of_{what}_and_degree"] for what in ("changes", "arrivals"))
    assert changing is not None
    assert arriving is not None
    assert changing < -0.6
    assert arriving > 0.6


def test_what_cannot_be_told_is_none() -> None:
    trace = Trace(
        TraceArrivals(np.array([7]), np.array([0], np.int32)),
        Edges(np.array([0], np.int32), np.array([0], np.int32)),
        Changes(np.empty(0, np.int64), np.empty(0, np.int32)),
        np.array(["a"], object),
        np.array(["x"], object),
    )
    description = describe(trace)
    assert description["evaluations"] == 0
    assert description["share_stale_if_never_refreshed_bgp"] is None
    assert description["arrivals_per_second"] is None
    assert description["change_interval_ms_median"] is None
    assert ("stale if never refreshed (BGP)", "–") in text(description)


def test_the_text_reads_well() -> None:
    rows = dict(text(describe(by_hand(), 7 * 86_400_000, 6 * 3_600_000)))
    assert rows["lookup keys that never arrive"] == "1"
    assert rows["edges per lookup key: min, median, 90 %, max"] == "1 · 1 · 1.8 · 2"
    assert rows["window"] == "7 days"
    assert rows["step"] == "6 h"
    assert rows["first arrival"] == "100 ms"


def test_slow_rates_are_told_by_the_day_and_instants_as_dates() -> None:
    trace = by_hand()
    slow = Trace(
        TraceArrivals(1_700_000_000_000 + trace.arrivals.t_ms * 1_000_000, trace.arrivals.sn),
        trace.edges,
        trace.changes,
        trace.sn_labels,
        trace.sr_labels,
    )
    rows = dict(text(describe(slow)))
    assert rows["arrivals per second"] == "0.000167, or 14.4 a day"
    assert rows["first arrival"].startswith("2023-11-16T")
