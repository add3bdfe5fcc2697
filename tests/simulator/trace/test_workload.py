"""The generator draws what its settings say: counts exactly, laws as far as a fixed seed shows."""

import time
from typing import Any, Literal

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from same_traces import same

from freshkeeper.simulator.trace.describe import change_intervals, rank_correlation
from freshkeeper.simulator.trace.trace import ChangeSchedule, Trace
from freshkeeper.simulator.trace.workload import Workload, generate


def degrees(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Of the SNs and of the SRs."""
    sns = np.bincount(trace.edges.sn, minlength=trace.sns)
    return sns, np.bincount(trace.edges.sr, minlength=trace.srs)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Small ones, with any combination of knobs."""
    sns, srs = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    low = draw(st.integers(1, 3000))
    return Workload(
        sns=sns,
        srs=srs,
        edges=draw(st.integers(1, sns * srs)),
        degree_skew=draw(st.floats(0, 10)),
        change_law=draw(st.sampled_from(["fixed", "poisson", "beta", "gamma"])),
        change_interval_ms=(low, low + draw(st.integers(0, 3000))),
        gamma_shape=draw(st.floats(0.2, 20)),
        phases=draw(st.sampled_from(["random", "synchronised"])),
        change_degree_correlation=draw(st.floats(-1, 1)),
        arrival_degree_correlation=draw(st.floats(-1, 1)),
        arrival_interval_ms=(500, 1500),
        modulation=tuple(draw(st.lists(st.floats(0.5, 2), min_size=1, max_size=3))),
        modulation_period_ms=draw(st.integers(1, 5000)),
        bursts_per_minute=draw(st.sampled_from([0, 10])),
        duration_ms=draw(st.integers(1, 20_000)),
    )


@settings(max_examples=examples(150))
@given(workload=workloads(), seed=st.integers(0, 2**32))
def test_every_trace_keeps_the_shape_of_one(workload: Workload, seed: int) -> None:
    trace = generate(workload, seed)
    assert trace.t0 == workload.t0
    assert trace.arrivals.t_ms[-1] <= workload.t0 + workload.duration_ms
    assert trace.changes.t_ms.size == 0 or 0 <= trace.changes.t_ms[0] <= trace.changes.t_ms[-1] <= workload.end
    for table in (trace.arrivals, trace.changes):
        assert np.all(np.diff(table.t_ms) >= 0)
    assert np.unique(np.stack([trace.edges.sn, trace.edges.sr]), axis=1).shape[1] == len(trace.edges)
    assert len(trace.edges) == round(workload.edges * trace.sns / workload.sns)
    assert trace.edges.sn.max() < trace.sns
    assert trace.edges.sr.max() < trace.srs == workload.srs
    assert same(generate(workload, seed), trace)


def test_the_defaults_are_the_papers() -> None:
    trace = generate(Workload(), 0)
    assert (trace.sns, trace.srs, len(trace.edges)) == (50, 50, 1000)
    assert trace.schedule is not None
    assert 100 <= trace.schedule.interval_ms.min() < 300
    assert 2700 < trace.schedule.interval_ms.max() <= 3000


def test_the_defaults_are_quick() -> None:
    generate(Workload(), 0)
    begin = time.process_time()
    for seed in range(20):
        generate(Workload(), seed)
    assert (time.process_time() - begin) / 20 < 0.05


def test_another_seed_is_another_trace() -> None:
    one, other = generate(Workload(), 1), generate(Workload(), 2)
    assert not np.array_equal(one.edges.sn, other.edges.sn)
    assert not np.array_equal(one.arrivals.t_ms[:100], other.arrivals.t_ms[:100])


def test_one_knob_leaves_the_other_streams_alone() -> None:
    base = generate(Workload(), 1)
    denser = generate(Workload(edges=2000), 1)
    assert np.array_equal(base.arrivals.sn, denser.arrivals.sn)
    assert np.array_equal(base.changes.t_ms, denser.changes.t_ms)
    faster = generate(Workload(change_interval_ms=(500, 2000)), 1)
    assert np.array_equal(base.edges.sr, faster.edges.sr)
    assert np.array_equal(base.arrivals.t_ms - base.t0, faster.arrivals.t_ms - faster.t0)
    bursty = generate(Workload(bursts_per_minute=30), 1)
    assert np.isin(base.arrivals.t_ms, bursty.arrivals.t_ms).all()


def next_after(schedule: ChangeSchedule, instant: int) -> np.ndarray:
    """t_exp of every SR: its first change strictly after the instant."""
    assert schedule.phase_ms is not None
    passed = np.maximum((instant - schedule.phase_ms) // schedule.interval_ms + 1, 0)
    found: np.ndarray = schedule.phase_ms + passed * schedule.interval_ms
    return found


@pytest.mark.parametrize("law", ["fixed", "beta"])
@pytest.mark.parametrize("phases", ["random", "synchronised"])
def test_a_fixed_schedule_tells_every_change(
    law: Literal["fixed", "beta"], phases: Literal["random", "synchronised"]
) -> None:
    workload = Workload(change_law=law, phases=phases)
    trace = generate(workload, 3)
    assert trace.schedule is not None
    expected = next_after(trace.schedule, -1)
    instant = trace.t0 + 20_000
    for j in range(trace.srs):
        own = trace.changes.t_ms[trace.changes.sr == j]
        assert own[0] == expected[j] < trace.schedule.interval_ms[j]
        assert np.all(np.diff(own) == trace.schedule.interval_ms[j])
        assert own[own > instant][0] == next_after(trace.schedule, instant)[j]
    assert np.all(next_after(trace.schedule, trace.t0 + workload.duration_ms) <= workload.end)


def test_every_fixed_sr_has_changed_before_the_first_arrival() -> None:
    trace = generate(Workload(), 4)
    assert np.unique(trace.changes_between(-1, trace.t0).sr).size == trace.srs


def test_random_laws_have_no_phase() -> None:
    schedule = generate(Workload(change_law="poisson"), 0).schedule
    assert schedule is not None
    assert schedule.phase_ms is None


def test_synchronised_schedules_meet() -> None:
    trace = generate(Workload(phases="synchronised", change_interval_ms=(700, 700)), 5)
    instants, counts = np.unique(trace.changes.t_ms, return_counts=True)
    assert np.all(counts == trace.srs)
    assert np.all(np.diff(instants) == 700)


def test_random_phases_are_spread_evenly() -> None:
    trace = generate(Workload(srs=4000, edges=4000, change_interval_ms=(1000, 1000), duration_ms=10_000), 6)
    in_step = np.histogram(trace.changes.t_ms % 1000, bins=10)[0] / len(trace.changes)
    assert np.allclose(in_step, 0.1, atol=0.02)


@pytest.mark.parametrize(
    ("law", "shape", "variation"), [("poisson", 9.0, 1.0), ("gamma", 4.0, 0.5), ("gamma", 0.5, 2**0.5)]
)
def test_random_gaps_have_their_mean_and_variation(
    law: Literal["poisson", "gamma"], shape: float, variation: float
) -> None:
    workload = Workload(
        srs=500, change_law=law, gamma_shape=shape, change_interval_ms=(1000, 1000), duration_ms=200_000
    )
    trace = generate(workload, 7)
    gaps = change_intervals(trace)
    assert gaps.mean() == pytest.approx(1000, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.03)


@pytest.mark.parametrize("law", ["fixed", "poisson", "gamma"])
def test_changes_are_stationary(law: Literal["fixed", "poisson", "gamma"]) -> None:
    """As many in the first 100 ms as anywhere else: a renewal process that begins at 0 would show."""
    workload = Workload(srs=20_000, change_law=law, change_interval_ms=(1000, 1000), duration_ms=1000, gamma_shape=5)
    per_slot = np.bincount(generate(workload, 8).changes.t_ms // 100)[: workload.end // 100]
    assert np.allclose(per_slot, 2000, rtol=0.1)


def test_beta_intervals_are_mostly_long() -> None:
    schedule = generate(Workload(srs=5000, change_law="beta", change_interval_ms=(1000, 11_000)), 9).schedule
    assert schedule is not None
    assert schedule.interval_ms.mean() == pytest.approx(1000 + 10_000 * 50 / 51, rel=0.005)
    assert np.median(schedule.interval_ms) > schedule.interval_ms.mean()


def test_uniform_degrees_do_not_favour_any_sr() -> None:
    total = sum(degrees(generate(Workload(), seed))[1] for seed in range(100))
    assert np.allclose(total / 100, 20, atol=1.5)


def test_skewed_degrees_follow_zipf() -> None:
    trace = generate(Workload(sns=20_000, srs=100, edges=40_000, degree_skew=0.7, duration_ms=1), 10)
    degree = np.sort(degrees(trace)[1])[::-1]
    slope = np.polyfit(np.log(np.arange(1, 51)), np.log(degree[:50]), 1)[0]
    assert slope == pytest.approx(-0.7, abs=0.05)


def test_a_high_skew_fills_the_favourites_and_goes_on() -> None:
    degree = np.sort(degrees(generate(Workload(degree_skew=10), 11))[1])[::-1]
    assert degree.sum() == 1000
    assert degree[:15].tolist() == [50] * 15


@pytest.mark.slow
def test_the_race_draws_like_one_draw_after_the_other() -> None:
    """Two of four pairs, the SRs' weights being 2 : 1. Both of one SR: 2/3 · 2/(2 + 2) + 1/3 · 1/(1 + 4) = 0.4."""
    workload = Workload(sns=2, srs=2, edges=2, degree_skew=1, duration_ms=1, change_interval_ms=(1, 1))
    both_of_one = [degrees(generate(workload, seed))[1].max() == 2 for seed in range(3000)]
    assert np.mean(both_of_one) == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize("wanted", [-0.9, -0.5, 0.0, 0.5, 0.9])
def test_rates_correlate_with_degrees_as_told(wanted: float) -> None:
    workload = Workload(
        sns=2000,
        srs=2000,
        edges=40_000,
        degree_skew=0.5,
        change_degree_correlation=wanted,
        arrival_degree_correlation=wanted,
        arrival_interval_ms=(100, 2000),
        duration_ms=20_000,
    )
    trace = generate(workload, 12)
    assert trace.schedule is not None
    sn_degree, sr_degree = degrees(trace)
    changing = rank_correlation(-trace.schedule.interval_ms, sr_degree)
    arriving = rank_correlation(np.bincount(trace.arrivals.sn, minlength=trace.sns), sn_degree)
    assert changing == pytest.approx(wanted, abs=0.06)
    assert arriving == pytest.approx(wanted, abs=0.1)


@pytest.mark.parametrize("sign", [-1, 1])
def test_full_correlation_is_monotone(sign: int) -> None:
    trace = generate(Workload(change_degree_correlation=sign, degree_skew=0.5), 13)
    assert trace.schedule is not None
    order = np.lexsort((sign * -trace.schedule.interval_ms, degrees(trace)[1]))
    assert np.all(np.diff(sign * trace.schedule.interval_ms[order]) <= 0)


def test_correlation_does_not_change_the_intervals_themselves() -> None:
    free, tied = (generate(Workload(change_degree_correlation=c), 14).schedule for c in (0.0, 0.8))
    assert free is not None
    assert tied is not None
    assert np.array_equal(np.sort(free.interval_ms), np.sort(tied.interval_ms))


def test_arrivals_are_poisson() -> None:
    workload = Workload(sns=200, arrival_interval_ms=(1500, 1500), duration_ms=300_000)
    trace = generate(workload, 15)
    per_sn = np.bincount(trace.arrivals.sn)
    assert per_sn.mean() == pytest.approx(200, rel=0.02)
    assert per_sn.var() == pytest.approx(200, rel=0.25)
    gaps = np.concatenate([np.diff(trace.arrivals.t_ms[trace.arrivals.sn == i]) for i in range(200)])
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)


def test_mean_arrival_intervals_fill_their_range() -> None:
    trace = generate(Workload(sns=500, duration_ms=500_000), 16)
    intervals = 500_000 / np.bincount(trace.arrivals.sn)
    assert np.quantile(intervals, (0.25, 0.5, 0.75)) == pytest.approx([1250, 1500, 1750], rel=0.04)


def test_modulation_stretches_the_intervals_of_its_periods() -> None:
    """λ0 in even periods and 0.5·λ0 in odd ones: twice the arrivals in the odd."""
    trace = generate(Workload(sns=500, modulation=(1.0, 0.5), duration_ms=60_000), 17)
    since = trace.arrivals.t_ms - trace.t0
    periods = np.bincount((since[1:] - 1) // 1000)
    assert periods[::2].mean() == pytest.approx(periods[1::2].mean() / 2, rel=0.03)
    steady = generate(Workload(sns=500, duration_ms=60_000), 17)
    assert periods[::2].mean() == pytest.approx(len(steady.arrivals) / 60, rel=0.03)


def test_bursts_add_crowds_of_one_sn() -> None:
    calm, bursty = (generate(Workload(bursts_per_minute=b, duration_ms=120_000), 18) for b in (0, 10))
    extra = len(bursty.arrivals) - len(calm.arrivals)
    assert extra == pytest.approx(20 * 20, rel=0.5)
    steps = range(bursty.t0 + 2000, bursty.t0 + 122_000, 2000)
    densest = [np.bincount(batch.sn, minlength=50).max() for _, batch in bursty.batches(steps)]
    assert max(densest) >= 20


def test_blocks_make_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshkeeper.simulator.trace.workload.BLOCK", 200)
    workload = Workload(modulation=(1.0, 0.95), bursts_per_minute=10)
    trace = generate(workload, 20)
    assert len(trace.arrivals) > 1000
    assert np.all(np.diff(trace.arrivals.t_ms) >= 0)


@pytest.mark.slow
def test_a_hundred_thousand_entities() -> None:
    workload = Workload(sns=100_000, srs=100_000, edges=300_000, degree_skew=1.0, duration_ms=5000)
    begin = time.process_time()
    trace = generate(workload, 21)
    assert time.process_time() - begin < 10
    assert len(trace.edges) == 300_000
    assert len(trace.arrivals) == pytest.approx(100_000 * 5 * np.log(2), rel=0.02)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Workload.model_fields.values())


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"edges": 2501}, "edges is 2501; 50 × 50 distinct edges are all that there are"),
        ({"change_interval_ms": (3000, 100)}, r"change_interval_ms is \[3000, 100\]; the least comes first"),
        ({"edgs": 5}, "Extra inputs are not permitted"),
        ({"modulation": ()}, "at least 1 item"),
        ({"modulation": (0.0,)}, "greater than 0"),
        ({"change_degree_correlation": 1.5}, "less than or equal to 1"),
    ],
)
def test_settings_that_cannot_be(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Workload(**given_)


def test_entries_that_are_not_shared_belong_to_one_key_each() -> None:
    trace = generate(Workload(sns=3, srs=6, edges=6, shared=False), 1)
    assert list(zip(trace.edges.sn.tolist(), trace.edges.sr.tolist(), strict=True)) == [(n // 2, n) for n in range(6)]
    with pytest.raises(ValidationError, match="must be as many"):
        Workload(sns=3, srs=7, edges=7, shared=False)
