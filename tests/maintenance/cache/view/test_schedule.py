"""Changes that are known exactly: phases, boundaries, traces, and what lies past the next change."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.schedule import BEFORE, FixedSchedule, RecordedChanges
from freshkeeper.policies.base import NEVER

Model = TypeVar("Model", bound=ChangeModel)


def ints(*values: int) -> Ints:
    """Times as the models take them."""
    return np.array(values, np.int64)


def admitted(model: Model, keys: Sequence[object]) -> Model:
    """The model with slots 0, 1, ... standing for these keys."""
    model.admit(np.arange(len(keys), dtype=np.int32), keys)
    return model


def recorded(*changes: tuple[int, int], **settings: Any) -> RecordedChanges:
    """A trace of (t, sr)."""
    return RecordedChanges(ints(*[sr for _, sr in changes]), ints(*[t for t, _ in changes]), **settings)


@pytest.mark.parametrize(("expiry", "fresh"), [(190, 3), (175, 3), (161, 3), (160, 2), (101, 1)])
def test_a_refresh_is_fresh_for_the_ceiling_of_the_time_left_over_the_step(expiry: int, fresh: int) -> None:
    """ω = 150, β = 30, refreshed at 100: B = ⌈(t_exp − 100)/30⌉; a change at an instant is stale at it."""
    model = admitted(FixedSchedule(ints(1000), ints(expiry)), [0])
    beliefs = model.beliefs(ints(100, 130, 160, 190, 220), ints(50), look_ahead=False)
    assert beliefs.refreshed.tolist() == [[1.0] * fresh + [0.0] * (5 - fresh)]


def test_the_phase_matters_and_not_the_interval_from_now() -> None:
    """Interval 100, phase 30: the next change after 120 is at 130."""
    schedule = FixedSchedule(ints(100), ints(30))
    assert schedule.next_change(120).tolist() == [130]
    assert schedule.last_change(120).tolist() == [30]


def test_the_next_change_is_strictly_later_and_the_last_one_may_be_now() -> None:
    schedule = FixedSchedule(ints(100), ints(30))
    assert schedule.last_change(130).tolist() == [130]
    assert schedule.next_change(130).tolist() == [230]


def test_a_schedule_has_no_beginning() -> None:
    schedule = FixedSchedule(ints(100), ints(530))
    assert schedule.last_change(0).tolist() == [-70]


def test_a_copy_is_kept_fresh_if_fetched_at_or_after_the_last_change() -> None:
    model = admitted(FixedSchedule(ints(100, 100, 100, 100), ints(30, 30, 30, 30)), [0, 1, 2, 3])
    kept = model.beliefs(ints(150, 200, 250), ints(129, 130, 140, NEVER), look_ahead=False).kept
    assert kept.tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_change_says_whether_one_falls_between_two_instants() -> None:
    model = admitted(FixedSchedule(ints(100, 10), ints(30, 0)), [0, 1])
    change = model.beliefs(ints(150, 200, 230, 231), ints(150, 150), look_ahead=True).change
    assert change is not None
    assert change.tolist() == [[0, 0, 1, 0], [0, 1, 1, 0]]


def test_a_key_without_a_number_never_changes() -> None:
    model = admitted(FixedSchedule(ints(10), ints(0)), [object(), 0])
    beliefs = model.beliefs(ints(5, 15, 25), ints(NEVER, 4), look_ahead=True)
    assert beliefs.refreshed.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert beliefs.kept.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert beliefs.change is not None
    assert beliefs.change.tolist() == [[0, 0, 0], [0, 1, 1]]


def test_a_placeholder_that_was_fetched_stays_fresh() -> None:
    model = admitted(FixedSchedule(ints(10), ints(0)), [object()])
    assert model.beliefs(ints(5, 15), ints(-(10**15)), look_ahead=False).kept.tolist() == [[1, 1]]


def test_keys_find_their_numbers() -> None:
    model = admitted(FixedSchedule(ints(10, 1000), ints(0, 0), {"slow": 1, "fast": 0}), ["slow", "fast"])
    assert model.beliefs(ints(5, 15), ints(5, 5), look_ahead=False).kept.tolist() == [[1, 1], [1, 0]]


def test_changes_are_listed_by_time_and_then_by_number() -> None:
    t_ms, sr = FixedSchedule(ints(100, 50), ints(0, 0)).changes(0, 200)
    assert list(zip(t_ms.tolist(), sr.tolist(), strict=True)) == [
        (50, 1),
        (100, 0),
        (100, 1),
        (150, 1),
        (200, 0),
        (200, 1),
    ]


def test_an_empty_range_has_no_changes() -> None:
    assert FixedSchedule(ints(100), ints(0)).changes(200, 100)[0].size == 0


@given(st.integers(1, 60), st.integers(-200, 200), st.integers(-100, 100), st.integers(0, 100), st.integers(1, 40))
def test_it_agrees_with_looking_at_every_millisecond(interval: int, phase: int, now: int, age: int, step: int) -> None:
    """Fresh at t iff no change in (r, t]."""
    model = admitted(FixedSchedule(ints(interval), ints(phase)), [0])
    instants = now + step * np.arange(5)
    at = [int(t) for t in instants]
    beliefs = model.beliefs(instants, ints(now - age), look_ahead=True)
    changes = [t for t in range(now - age, now + 5 * step) if (t - phase) % interval == 0]

    def quiet(begin: int, end: int) -> float:
        return float(not any(begin < t <= end for t in changes))

    assert beliefs.refreshed[0].tolist() == [quiet(now, t) for t in at]
    assert beliefs.kept[0].tolist() == [quiet(now - age, t) for t in at]
    assert beliefs.change is not None
    assert instants is not None
    assert beliefs.change[0, 1:].tolist() == [1 - quiet(t, t + step) for t in instants[:-1]]


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="entry 1 has a change interval of 0 ms; the least is 1 ms"):
        FixedSchedule(ints(10, 0), ints(0, 0))


def test_as_many_phases_as_intervals() -> None:
    with pytest.raises(InputError, match="2 intervals and 1 phases"):
        FixedSchedule(ints(10, 20), ints(0))


def test_a_number_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match="'a' has the entry number 7; the numbers here are 0 to 0"):
        FixedSchedule(ints(10), ints(0), {"a": 7})


def test_last_and_next_follow_now() -> None:
    trace = recorded((10, 0), (20, 1), (30, 0), (40, 0))
    assert trace.last_change(5).tolist() == [BEFORE, BEFORE]
    assert trace.next_change(5).tolist() == [10, 20]
    assert trace.last_change(30).tolist() == [30, 20]
    assert trace.next_change(30).tolist() == [40, DISTANT_FUTURE]


def test_time_may_go_back() -> None:
    trace = recorded((10, 0), (20, 1), (30, 0))
    trace.last_change(100)
    assert trace.last_change(15).tolist() == [10, BEFORE]
    assert trace.next_change(15).tolist() == [30, 20]


def test_the_order_of_the_rows_does_not_matter() -> None:
    trace = recorded((30, 0), (10, 0), (20, 1))
    assert trace.next_change(10).tolist() == [30, 20]


def test_several_changes_may_pass_at_once() -> None:
    trace = recorded(*[(t, 0) for t in range(10, 100, 10)])
    assert trace.last_change(55).tolist() == [50]
    assert trace.next_change(55).tolist() == [60]


def test_an_sr_that_never_changes_stays_fresh() -> None:
    model = admitted(recorded((10, 0), srs=2), [0, 1])
    beliefs = model.beliefs(ints(20, 30), ints(0, 0), look_ahead=False)
    assert beliefs.kept.tolist() == [[0, 0], [1, 1]]
    assert beliefs.refreshed.tolist() == [[1, 1], [1, 1]]


def test_past_the_next_change_the_rate_so_far_speaks() -> None:
    """SR 0: 3 changes in T = 40, of 4 by 2 SRs: 1/λ̄ = 40·2/4 = 20, λ = (3 + 1)/(40 + 20)."""
    model = admitted(recorded((10, 0), (20, 0), (30, 0), (40, 1), (65, 0), (99, 1), start=0), [0])
    change = model.beliefs(ints(40, 50, 60, 70, 85), ints(40), look_ahead=True).change
    assert change is not None
    assert change[0].tolist() == pytest.approx([0, 0, 0, 1, 1 - np.exp(-4 / 60 * 15)])


def test_before_anything_has_changed_nothing_is_expected_past_the_next_change() -> None:
    model = admitted(recorded((10, 0), (20, 0)), [0])
    change = model.beliefs(ints(0, 15, 25), ints(0), look_ahead=True).change
    assert change is not None
    assert change.tolist() == [[0, 1, 0]]


def test_an_empty_trace_is_a_quiet_one() -> None:
    model = admitted(RecordedChanges(ints(), ints(), srs=1), [0])
    beliefs = model.beliefs(ints(0, 10), ints(0), look_ahead=True)
    assert beliefs.kept.tolist() == [[1, 1]]
    assert beliefs.change is not None
    assert beliefs.change.tolist() == [[0, 0]]


def test_changes_are_listed_left_open() -> None:
    t_ms, sr = recorded((10, 0), (20, 1), (30, 0)).changes(10, 30)
    assert (t_ms.tolist(), sr.tolist()) == ([20, 30], [1, 0])


def test_what_is_handed_out_does_not_move_with_the_cursor() -> None:
    trace = recorded((10, 0), (20, 0))
    early = trace.next_change(0)
    trace.next_change(15)
    assert early.tolist() == [10]


def test_a_stranger_in_the_trace_is_refused() -> None:
    with pytest.raises(InputError, match="entries 0 to 3; the numbers here are 0 to 1"):
        recorded((10, 0), (20, 3), srs=2)


@given(st.integers(0, 2**32 - 1))
def test_it_agrees_with_the_schedule_that_it_recorded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed = FixedSchedule(rng.integers(1, 300, 8), rng.integers(0, 300, 8))
    t_ms, sr = fixed.changes(-1000, 3000)
    trace = RecordedChanges(sr, t_ms, 8)
    keys = rng.permutation(8).tolist()
    admitted(fixed, keys), admitted(trace, keys)
    for now in np.sort(rng.integers(0, 2000, 6)):
        instants = now + 100 * np.arange(4)
        refreshed_at = now - rng.integers(0, 500, 8)
        one, other = (model.beliefs(instants, refreshed_at, look_ahead=False) for model in (fixed, trace))
        assert (one.refreshed == other.refreshed).all()
        assert (one.kept == other.kept).all()
