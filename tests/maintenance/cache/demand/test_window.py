"""Windows: lifetimes by hand, and the incremental profile against a plain count."""

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import ConfigError, TimeError
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec


def at(*times: int) -> Ints:
    return np.array(times, dtype=np.int64)


def test_lifetimes_of_section_5_2() -> None:
    spec = WindowSpec(range=150, step=30, start=100)
    assert spec.lifetime(at(100), spec.index(100)) == [5]
    assert spec.lifetime(at(100), spec.index(160)) == [3]


def test_a_left_open_window_lets_go_of_its_first_instant() -> None:
    spec = WindowSpec(range=4, step=2)
    assert spec.lifetime(at(6, 7, 8, 10), spec.index(10)).tolist() == [0, 1, 1, 2]


def test_a_right_open_window_keeps_its_first_instant_and_not_its_last() -> None:
    spec = WindowSpec(range=4, step=2, closure=Closure.RIGHT_OPEN)
    assert spec.first(at(6, 10)).tolist() == [4, 6]
    assert spec.lifetime(at(6, 8), spec.index(10)).tolist() == [1, 2]


def test_elements_in_the_gap_between_windows_are_counted_as_passed_over() -> None:
    window = Window(WindowSpec(range=1, step=10), ring=1)
    window.insert(at(5, 10), at(0, 0))
    window.advance(1)
    assert (window.size, window.passed_over) == (1, 1)


def test_the_same_mapping_arriving_again_keeps_its_latest_time() -> None:
    window = Window(WindowSpec(range=4, step=1), ring=4)
    window.insert(at(1, 1), at(0, 1), identity=["a", "b"])
    window.advance(1)
    window.insert(at(2), at(0), identity=["a"])
    window.advance(2)
    assert window.profile(2, 4).tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    window.insert(at(1), at(0), identity=["a"])
    window.advance(3)
    assert window.profile(2, 4).tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]


def test_a_count_window_is_a_time_window_over_ordinals() -> None:
    window = Window(WindowSpec(range=3, step=2, count=True), ring=2)
    window.insert(at(50, 60), at(0, 1))
    assert window.due() == 1
    window.advance(1)
    assert window.profile(3, 2).tolist() == [[1, 0], [1, 1], [0, 0]]
    window.insert(at(70, 80, 90), at(2, 2, 0))
    assert window.due() == 2
    window.advance(2)
    assert window.profile(3, 2).tolist() == [[0, 0], [1, 0], [2, 1]]


@pytest.mark.parametrize(("wrong", "named"), [((0, 1), "range"), ((1, 0), "step"), ((1, -3), "step")])
def test_a_window_that_is_none_is_refused(wrong: tuple[int, int], named: str) -> None:
    with pytest.raises(ConfigError, match=f"window's {named} must be positive"):
        WindowSpec(*wrong)


def test_time_does_not_go_backwards() -> None:
    window = Window(WindowSpec(range=4, step=1), ring=4)
    window.advance(3)
    with pytest.raises(TimeError, match="evaluation 3 after evaluation 3"):
        window.advance(3)


def test_an_instant_off_the_grid_is_told_its_neighbours() -> None:
    with pytest.raises(TimeError, match="they are at 30 and 40"):
        WindowSpec(range=10, step=10).index(35)


specs = st.builds(
    WindowSpec,
    range=st.integers(1, 40),
    step=st.integers(1, 12),
    start=st.integers(-5, 5),
    closure=st.sampled_from(Closure),
)


@settings(max_examples=examples(150))
@given(
    specs,
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 3)), max_size=40),
    st.integers(1, 9),
    st.integers(1, 9),
    st.data(),
)
def test_the_profile_equals_a_plain_count(
    spec: WindowSpec, arrivals: list[tuple[int, int]], ring: int, horizon: int, data: DataObject
) -> None:
    """Whatever the order of arrivals, early or late, and however many evaluations are skipped."""
    horizon = min(ring, horizon)
    window = Window(spec, ring)
    inserted, pending, k = [], list(arrivals), int(spec.first(at(0))[0]) - 1
    for _ in range(6):
        k += data.draw(st.integers(1, 4))
        take = data.draw(st.integers(0, len(pending)))
        now, pending = pending[:take], pending[take:]
        window.insert(at(*[t for t, _ in now]), at(*[sn for _, sn in now]))
        inserted += now
        window.advance(k)
        expected = np.zeros((4, horizon))
        for t, sn in inserted:
            for m in range(min(horizon, spec.span)):
                expected[sn, m] += spec.first(at(t))[0] <= k and spec.last(at(t))[0] >= k + m
        assert window.profile(4, horizon).tolist() == expected.tolist()
        assert window.size == expected[:, 0].sum()


def in_window(spec: WindowSpec, t: int, instant: int) -> bool:
    if spec.closure is Closure.LEFT_OPEN:
        return instant - spec.range < t <= instant
    return instant - spec.range <= t < instant


@given(specs, st.integers(-50, 200))
def test_first_and_last_evaluation_agree_with_the_definition(spec: WindowSpec, t: int) -> None:
    ks = [k for k in range(-80, 300) if in_window(spec, t, spec.instant(k))]
    first, last = int(spec.first(at(t))[0]), int(spec.last(at(t))[0])
    assert ks == list(range(first, last + 1))


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 2), st.integers(0, 4)), max_size=30))
def test_identities_hold_one_mapping_each(arrivals: list[tuple[int, int, int]]) -> None:
    """A mapping is (identity, SN); each counts once, at its latest time."""
    spec = WindowSpec(range=10, step=3)
    window = Window(spec, ring=4)
    latest = {}
    arrivals = sorted(arrivals)
    for k in range(1, 24):
        due = [a for a in arrivals if spec.instant(k - 1) < a[0] <= spec.instant(k)]
        names = [(sn, name) for _, sn, name in due]
        window.insert(at(*[t for t, _, _ in due]), at(*[sn for _, sn, _ in due]), identity=names)
        latest.update({(sn, name): t for t, sn, name in due})
        window.advance(k)
        expected = np.zeros((3, 4))
        for (sn, _), t in latest.items():
            for m in range(4):
                expected[sn, m] += in_window(spec, t, spec.instant(k + m)) and t <= spec.instant(k)
        assert window.profile(3, 4).tolist() == expected.tolist()


@given(
    st.integers(1, 30),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_without_a_grid_every_instant_is_exact_and_the_future_is_seen_in_steps(
    span: int, step: int, steps: list[tuple[int, int]]
) -> None:
    """Each pair is the time since the evaluation before and an SN that arrives at it; the rest is taken out."""
    window = Window(WindowSpec(span, step, grid=False), ring=8)
    now = 0
    arrived: dict[int, tuple[int, int]] = {}
    for number, (pause, sn) in enumerate(steps):
        now += pause
        gone = [n for n, (_, t) in arrived.items() if t + span <= now]
        window.remove(gone)
        arrived = {n: kept for n, kept in arrived.items() if n not in gone} | {number: (sn, now)}
        window.insert(at(now), at(sn), identity=[number])
        k = now // step
        window.advance(k)
        for m in range(min(8, window.spec.span)):
            until = now if m == 0 else (k + m) * step
            there = [sn for sn, t in arrived.values() if t + span > until]
            assert window.profile(4, 8)[:, m].tolist() == [there.count(n) for n in range(4)]


@given(
    st.tuples(st.integers(8, 40), st.integers(1, 5)),
    st.tuples(st.integers(2, 80), st.integers(1, 9)),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=30),
)
def test_another_window_takes_over_what_both_reach(
    old: tuple[int, int], new: tuple[int, int], steps: list[tuple[int, int]]
) -> None:
    """Each pair is the time since the evaluation before and an SN that arrives at it."""
    before, after = WindowSpec(*old, grid=False), WindowSpec(*new, grid=False)
    window, now, arrived = Window(before, ring=64), 0, []
    for pause, sn in steps:
        now += pause
        arrived.append((now, sn))
        window.insert(at(now), at(sn))
        window.advance(before.index(now))
    moved = window.with_spec(after, 64, now)
    moved.tallies.extend(3)
    window.tallies.extend(3)
    for sn in range(3):
        surely = sum(t > now - min(before.range, after.range) for t, each in arrived if each == sn)
        maybe = sum(t > now - min(before.range, after.range) - before.step - after.step for t, n in arrived if n == sn)
        assert surely <= moved.counts(3)[sn] <= maybe
    assert moved.size == moved.counts(3).sum()
    rates = window.tallies.rates
    if rates.evaluations * before.step >= after.step:
        expected = rates.per_evaluation(3) / before.step * max(rates.evaluations, 1.0) / rates.evaluations
        assert moved.tallies.rates.per_evaluation(3) / after.step == pytest.approx(expected)
