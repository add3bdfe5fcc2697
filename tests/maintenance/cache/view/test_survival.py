"""The curve by hand, against what it estimates, and the beliefs read from it."""

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Evidence
from freshkeeper.maintenance.cache.view.survival import KNOTS, Curve, Curves, Survival
from freshkeeper.policies.base import NEVER

ALMOST_NOTHING = 1e-9


def ints(*values: int) -> Ints:
    """Times as the models take them."""
    return np.array(values, np.int64)


def survival(curve: Curve, *ages: float | int) -> list[float]:
    """S at these ages."""
    at = np.array(ages, np.float64)
    found: list[float] = np.exp(Curves([curve]).log_survival(np.zeros(at.size, np.int64), at)).tolist()
    return found


def fit(
    leave: ArrayLike,
    ended: ArrayLike,
    entry: list[int] | None = None,
    rate: float = 1e-3,
    weight: float = ALMOST_NOTHING,
) -> Curve:
    """A curve from lists."""
    left = np.array(leave, np.float64)
    entered = np.zeros(left.size) if entry is None else np.array(entry, np.float64)
    return Curve.fit(entered, left, np.array(ended, np.bool_), rate, weight)


def test_the_textbook_example() -> None:
    """Lives 2, 3+, 5, 5, 8+, 9: S falls to 5/6, 5/6·(1 − 2/4) and 5/12·0."""
    curve = fit([2, 3, 5, 5, 8, 9], [1, 0, 1, 1, 0, 1])
    assert survival(curve, 0, 1.9, 2, 4.9, 5, 8.9) == pytest.approx([1, 1, 5 / 6, 5 / 6, 5 / 12, 5 / 12])
    assert survival(curve, 9)[0] < 1e-8


def test_versions_seen_late_count_from_then_on() -> None:
    """Lives 2 and 6 seen from birth, 4 seen from age 3: at 2 one of 2 ends, at 4 one of 2, at 6 one of 1."""
    curve = fit([2, 6, 4], [1, 1, 1], entry=[0, 0, 3])
    assert survival(curve, 2, 3, 4, 5) == pytest.approx([1 / 2, 1 / 2, 1 / 4, 1 / 4])


def test_without_observations_it_is_the_prior() -> None:
    assert survival(fit([], [], rate=0.1, weight=1.0), 0, 5, 30) == pytest.approx([1, exp(-0.5), exp(-3)])


def test_the_prior_weighs_as_one_version() -> None:
    """One end at 10: until then half of the prior's hazard, there 1 of 2 ends, from then on the prior alone."""
    curve = fit([10], [1], rate=0.1, weight=1.0)
    assert survival(curve, 8, 10, 20) == pytest.approx([exp(-0.4), exp(-0.5) / 2, exp(-1.5) / 2])


def test_what_nobody_watched_goes_on_as_the_prior() -> None:
    curve = fit([10], [0], rate=0.1)
    assert survival(curve, 10, 20) == pytest.approx([1, exp(-1)])


def test_it_converges_to_what_is_true() -> None:
    """2,000 lives of a Weibull of shape 2 and scale 1000, half of them cut off at random."""
    rng = np.random.default_rng(1)
    life, cut = 1000 * rng.weibull(2, 2000), rng.uniform(0, 2000, 2000)
    curve = fit(np.minimum(life, cut), life < cut, weight=1.0)
    ages = np.array([100, 500, 1000, 1500])
    assert survival(curve, *ages) == pytest.approx(np.exp(-((ages / 1000) ** 2)), abs=0.04)
    assert curve.age.size <= KNOTS


def test_an_interval_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InputError, match=r"from age 5.0 to 4.0"):
        fit([4], [1], entry=[5])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50), st.booleans()), max_size=30), st.floats(1e-4, 1))
def test_it_never_rises_and_the_residual_is_its_integral(lives: list[tuple[int, int, bool]], rate: float) -> None:
    entry = [begin for begin, _, _ in lives]
    curve = fit([b + d for b, d, _ in lives], [e for _, _, e in lives], entry, rate, 1.0)
    curves, ages = Curves([curve]), np.arange(0, 200, 0.25)
    middle = np.array(survival(curve, *(ages + 0.125)))
    left = curves.residual(np.zeros(ages.size, np.int64), ages + 0.25)
    assert (np.diff(middle) <= 1e-12).all()
    assert (1 - left) * curves.mean[0] == pytest.approx(np.cumsum(middle) * 0.25, rel=5e-3)


def test_several_curves_are_looked_up_at_once() -> None:
    curves = Curves([fit([10], [1], rate=0.1, weight=1.0), fit([], [], rate=0.2, weight=1.0)])
    s = np.exp(curves.log_survival(ints(1, 0, 1), np.array([5.0, 10.0, 1e13])))
    assert s.tolist() == pytest.approx([exp(-1), exp(-0.5) / 2, 0])
    assert curves.mean[1] == pytest.approx(5)


def test_regular_intervals_leave_a_residual_that_falls_evenly() -> None:
    """All lives 1000: E(d) = 1 − d/1000."""
    curves = Curves([fit([1000] * 50, [1] * 50)])
    assert curves.residual(ints(0, 0, 0), np.array([0.0, 250.0, 900.0])) == pytest.approx([1, 0.75, 0.1])


def polled(
    model: Survival, interval: Ints, phase: Ints, until: int, step: int, told: bool = True, begin: int = 0
) -> Ints:
    """The model after polling SRs of fixed schedules every `step`; returns when they were fetched last."""
    n = len(interval)
    slots = np.arange(n, dtype=np.int32)
    model.admit(slots, list(range(n)))
    previous = np.full(n, NEVER)
    for now in range(begin, until, step):
        last = now - (now - phase) % interval
        changed = (previous != NEVER) & (last > previous)
        modified = last if told else np.full(n, UNKNOWN)
        model.observe(Evidence(slots, now, previous, changed, modified, np.full(n, UNKNOWN)))
        previous = np.full(n, now)
    return previous


def test_before_any_end_it_is_exponential() -> None:
    model = Survival(prior_interval=1000)
    model.admit(np.array([0], np.int32), ["a"])
    beliefs = model.beliefs(ints(0, 500), ints(0), look_ahead=True)
    for row in (beliefs.refreshed, beliefs.kept):
        assert row[0].tolist() == pytest.approx([1, exp(-0.5)])
    assert beliefs.change is not None
    assert beliefs.change[0].tolist() == pytest.approx([0, 1 - exp(-0.5)])


def test_a_version_of_known_age_lives_until_its_time_comes() -> None:
    """Interval 1000, polled every 50: a version 400 old is fresh for some 600 more, and hardly any longer."""
    model = Survival()
    interval, phase = np.full(10, 1000), 100 * np.arange(10)
    fetched = polled(model, interval, phase, 20_000, 50)
    beliefs = model.beliefs(int(fetched[0]) + ints(0, 300, 1500), fetched, look_ahead=True)
    age = (fetched - phase) % 1000
    young = age < 600
    assert (beliefs.kept[young, 1] > 0.95).all()
    assert (beliefs.kept[:, 2] < 0.05).all()
    assert (beliefs.kept[age > 750, 1] < 0.05).all()
    assert beliefs.change is not None
    assert beliefs.kept is not None
    assert beliefs.change[young, 1] == pytest.approx(1 - beliefs.kept[young, 1])


def test_an_old_copy_of_an_sr_with_a_known_age() -> None:
    """Fetched at age 400, 700 ago: the version is gone, a refresh brings one of unknown age."""
    model = Survival()
    fetched = polled(model, np.full(10, 1000), np.zeros(10, np.int64), 20_401, 50)
    beliefs = model.beliefs(21_100 + ints(0, 500), fetched, look_ahead=False)
    assert (beliefs.kept[:, 0] < 0.05).all()
    assert beliefs.refreshed[0] == pytest.approx([1, 0.5], abs=0.05)


def test_without_dates_the_age_is_any() -> None:
    """Interval 1000: of versions met at any moment half live on for 500."""
    model = Survival()
    fetched = polled(model, np.full(10, 1000), 100 * np.arange(10), 20_000, 50, told=False)
    beliefs = model.beliefs(int(fetched[0]) + ints(0, 250, 500), fetched, look_ahead=True)
    assert beliefs.kept[0] == pytest.approx([1, 0.75, 0.5], abs=0.06)
    assert beliefs.refreshed[0] == pytest.approx(beliefs.kept[0])
    assert beliefs.change is not None
    assert beliefs.change[0] == pytest.approx([0, 0.25, 0.25], abs=0.06)


def test_poisson_changes_look_exponential_however_old_they_are() -> None:
    rng = np.random.default_rng(4)
    model, slots = Survival(), np.arange(50, dtype=np.int32)
    model.admit(slots, list(range(50)))
    previous, last = np.full(50, NEVER), np.zeros(50, np.int64)
    for now in range(0, 60_000, 200):
        since = now - np.rint(rng.exponential(2000, 50)).astype(np.int64)
        last = np.where(since > now - 200, since, last)
        changed = (previous != NEVER) & (last > previous)
        model.observe(Evidence(slots, now, previous, changed, last, np.full(50, UNKNOWN)))
        previous = np.full(50, now)
    kept = model.beliefs(60_000 + ints(800, 1800), previous, look_ahead=False).kept
    assert kept.mean(axis=0) == pytest.approx([exp(-0.5), exp(-1)], abs=0.06)


def test_an_sr_may_have_a_curve_of_its_own() -> None:
    """Two populations, 400 and 4000: pooled, a version of 300 dies soon with some chance; on its own curve it stays."""
    interval = np.repeat([400, 4000], 5)
    pooled, own = Survival(), Survival(own=5)
    phase = np.zeros(10, np.int64)
    fetched = polled(pooled, interval, phase, 40_301, 50)
    polled(own, interval, phase, 40_301, 50)
    instants = 40_300 + ints(0, 500)
    fast, slow = (model.beliefs(instants, fetched, look_ahead=False).kept[9, 1] for model in (pooled, own))
    assert slow > 0.9 > 0.6 > fast


def test_dates_that_come_late_are_taken() -> None:
    model = Survival(prior_interval=1000)
    slot = np.array([0], np.int32)
    model.admit(slot, ["a"])
    for now, previous, modified in [(0, NEVER, UNKNOWN), (100, 0, -500)]:
        model.observe(Evidence(slot, now, ints(previous), np.array([False]), ints(modified), ints(UNKNOWN)))
    assert model.beliefs(ints(100, 200), ints(100), look_ahead=False).kept[0, 0] == 1


def test_an_evicted_slot_keeps_its_place_in_the_pooled_curve_only() -> None:
    model = Survival(own=1)
    fetched = polled(model, np.array([400, 4000]), np.zeros(2, np.int64), 40_000, 50)
    model.evict(np.array([0], np.int32))
    model.admit(np.array([0], np.int32), ["new"])
    beliefs = model.beliefs(ints(40_000, 40_400), np.append(fetched, fetched[0]), look_ahead=True)
    assert beliefs.refreshed[0].tolist() == beliefs.refreshed[2].tolist()
    assert beliefs.refreshed[0, 1] < 0.9


def quiet(model: Survival, slots: int, ages: int, until: int, step: int = 100) -> Ids:
    """Versions as old as said at time 0, polled and never found changed."""
    at, nothing = np.arange(slots, dtype=np.int32), np.full(slots, UNKNOWN)
    model.admit(at, list(range(slots)))
    for now in range(0, until + 1, step):
        previous = np.full(slots, now - step if now else NEVER)
        model.observe(Evidence(at, now, previous, np.zeros(slots, np.bool_), np.full(slots, -ages), nothing))
    return at


def test_versions_first_seen_old_say_nothing_of_young_ones() -> None:
    """20 versions watched from age 10,000 to 11,000: no end in 20,000 and the prior's 1,000, of which one counts."""
    model = Survival(prior_interval=1000)
    quiet(model, 20, 10_000, 1000)
    new = np.array([20], np.int32)
    model.observe(Evidence(new, 1000, ints(NEVER), np.array([False]), ints(1000), ints(UNKNOWN)))
    kept = model.beliefs(1000 + ints(0, 1000), np.full(21, 1000), look_ahead=False).kept
    assert kept[20, 1] == pytest.approx(exp(-1 / 21), abs=0.005)


def test_versions_that_were_evicted_alive_count_as_unfinished() -> None:
    """Without them the curve would forget 20 versions that nobody saw end."""
    model = Survival(prior_interval=1000)
    model.evict(quiet(model, 20, 0, 2000))
    new = np.arange(20, 40, dtype=np.int32)
    born, nothing = np.full(20, 2000), np.full(20, UNKNOWN)
    model.observe(Evidence(new, 2000, np.full(20, NEVER), np.zeros(20, np.bool_), born, nothing))
    kept = model.beliefs(2000 + ints(0, 1000), np.full(40, 2000), look_ahead=False).kept
    assert kept[20, 1] > 0.99


def test_a_curve_of_one_s_own_goes_with_the_eviction() -> None:
    """Slot 0 changed every 400 and was evicted; when the curves are fitted again its successor is like any new one."""
    model = Survival(own=2)
    fetched = polled(model, np.array([400, 4000]), np.zeros(2, np.int64), 20_000, 50)
    model.evict(np.array([0], np.int32))
    model.admit(np.array([0], np.int32), ["new"])
    one, nothing = np.array([1], np.int32), ints(UNKNOWN)
    for now in range(20_000, 40_000, 50):
        model.observe(Evidence(one, now, ints(now - 50), np.array([now % 4000 == 0]), ints(now - now % 4000), nothing))
    refreshed = model.beliefs(40_000 + ints(0, 300), np.append(fetched, fetched[0]), look_ahead=False).refreshed
    assert refreshed[0].tolist() == refreshed[2].tolist()


def test_the_ring_holds_the_latest() -> None:
    """After a change of habit from 400 to 2000 the old ends are written over."""
    model = Survival(capacity=50)
    polled(model, np.full(5, 400), np.zeros(5, np.int64), 20_000, 50)
    model.evict(np.arange(5, dtype=np.int32))
    fetched = polled(model, np.full(5, 2000), np.zeros(5, np.int64), 60_051, 50, begin=20_000)
    assert model.beliefs(60_050 + ints(0, 1000), fetched, look_ahead=False).kept[0, 1] > 0.9


@pytest.mark.parametrize("setting", [{"prior_interval": 0}, {"weight": 0}, {"own": 0}, {"capacity": 0}])
def test_settings_without_sense_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="=0"):
        Survival(**setting)
