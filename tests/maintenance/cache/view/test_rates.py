"""Rates from checks: the bound of the bins, the exact solution, the pool, and what is forgotten."""

import pickle
from collections.abc import Sequence
from math import exp, inf, log
from typing import TypeVar

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.view.rates import ChangeBits, Checks, LastModified, expected_age, solve

Estimator = TypeVar("Estimator", bound=ChangeBits | LastModified)


def checks(
    slots: Sequence[int] | Ints,
    tau: Sequence[int] | Ints,
    changed: Sequence[bool] | Bools,
    age: Sequence[int] | Ints | None = None,
) -> Checks:
    """Checks from lists."""
    return Checks(
        np.array(slots, np.int32),
        np.array(tau, np.int64),
        np.array(changed, np.bool_),
        np.full(len(slots), -1) if age is None else np.array(age, np.int64),
    )


def told(estimator: Estimator, tau: Sequence[int] | Ints, changed: Sequence[bool] | Bools, slot: int = 0) -> Estimator:
    """The estimator after these checks of one slot, one by one."""
    for interval, bit in zip(tau, changed, strict=True):
        estimator.observe(checks([slot], [interval], [bit]))
    return estimator


def exact_rate(
    tau_changed: Floats | Ints, tau_unchanged: Floats | Ints, pooled: float | None = None, weight: float = 1.0
) -> float:
    """The root of (*) over every single check; with `pooled`, `weight` pseudo-intervals of each kind are added.

    As 1/λ − τ/2 ≤ τ/(e^{λτ} − 1) ≤ 1/λ, the root lies between n/(U + Σ_changed τ/2) and n/U.
    """
    taus, counts = np.asarray(tau_changed, np.float64), np.ones(len(tau_changed))
    unchanged = float(np.sum(tau_unchanged))
    if pooled is not None:
        taus, counts = np.append(taus, log(2) / pooled), np.append(counts, weight)
        unchanged += weight * log(2) / pooled
    if not counts.sum():
        return 0.0
    if not unchanged:
        return inf

    def excess(rate: float) -> float:
        return float(counts @ (taus / np.expm1(np.minimum(rate * taus, 500)))) - unchanged

    low, high = counts.sum() / (unchanged + counts @ taus / 2), counts.sum() / unchanged
    return float(brentq(excess, low * 0.999, high * 1.001, xtol=1e-15 * low, rtol=1e-12))


def test_equal_intervals_have_a_closed_form() -> None:
    """Polling every τ with c of n changed: λ = −ln(1 − c/n)/τ."""
    assert exact_rate(np.full(3, 50.0), np.full(7, 50.0)) == pytest.approx(-log(0.7) / 50)


def test_nothing_changed_and_all_changed() -> None:
    assert exact_rate(np.empty(0), np.array([5.0])) == 0.0
    assert exact_rate(np.array([5.0]), np.empty(0)) == inf


def test_without_checks_the_exact_rate_is_the_pooled_one() -> None:
    assert exact_rate(np.empty(0), np.empty(0), pooled=0.003) == pytest.approx(0.003)


@given(
    st.lists(st.floats(1, 1e6), min_size=1, max_size=30),
    st.lists(st.floats(1, 1e6), min_size=1, max_size=30),
    st.floats(1e-8, 10),
)
def test_the_exact_rate_solves_the_equation(changed: list[float], unchanged: list[float], pooled: float) -> None:
    rate = exact_rate(np.array(changed), np.array(unchanged), pooled)
    taus = np.append(changed, log(2) / pooled)
    left = (taus / np.expm1(np.minimum(rate * taus, 500))).sum()
    assert left == pytest.approx(sum(unchanged) + log(2) / pooled, rel=1e-6)


@given(st.lists(st.floats(1, 1e7), min_size=1, max_size=12), st.floats(0.1, 1e9), st.floats(1e-9, 100))
def test_newton_arrives_from_anywhere(taus: list[float], unchanged: float, start: float) -> None:
    count, tau = np.ones((1, len(taus))), np.array([taus])
    rate = solve(count, tau, np.array([unchanged]), np.array([start]))
    exact = exact_rate(np.array(taus), np.array([unchanged]))
    assert rate[0] == pytest.approx(exact, rel=1e-4)


def holds(epsilon: float, longest: int, per_octave: int = 6) -> bool:
    low = np.geomspace(1e-3, longest, 3000)
    high = low * 2 ** (1 / per_octave)
    share = np.linspace(0, 1, 401)[:, None]

    def g(x: Floats) -> Floats:
        return x / np.expm1(x)

    ends = ((1 - share) * g((1 + epsilon) * low) + share * g((1 + epsilon) * high)) / (1 + epsilon)
    return bool((ends <= g((1 - share) * low + share * high)).all())


@pytest.mark.parametrize(("epsilon", "longest"), [(0.02, 13), (0.01, 7), (0.003, 3)])
def test_the_inequality_holds_where_the_docstring_says(epsilon: float, longest: int) -> None:
    assert holds(epsilon, longest)


def test_the_inequality_would_not_hold_with_coarser_bins() -> None:
    assert not holds(0.02, 13, per_octave=4)


def test_without_checks_change_bits_have_the_prior() -> None:
    assert ChangeBits(prior_interval=500).rates(2).tolist() == pytest.approx([1 / 500, 1 / 500])


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.integers(250, 200_000), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_change_bits_are_within_two_percent_of_the_exact_solution_and_never_above(seen: list[tuple[int, bool]]) -> None:
    tau, changed = (np.array(column) for column in zip(*seen, strict=True))
    bits = told(ChangeBits(prior_interval=5_000), tau, changed)
    exact = exact_rate(tau[changed], tau[~changed], bits.prior)
    assert exact / 1.02 <= bits.rates(1)[0] <= exact * (1 + 1e-5)


@given(st.integers(1, 9), st.integers(250, 10**7))
def test_change_bits_on_a_polling_grid_are_exact(changed: int, step: int) -> None:
    tau, bit = np.full(10, step), np.arange(10) < changed
    bits = told(ChangeBits(prior_interval=step), tau, bit)
    assert bits.rates(1)[0] == pytest.approx(exact_rate(tau[bit], tau[~bit], bits.prior), rel=1e-5)


def test_the_bound_holds_at_many_checks_of_every_length() -> None:
    """3,000 irregular checks, from a tenth to ten mean change intervals; what is kept does not grow."""
    rng = np.random.default_rng(5)
    tau = rng.permutation(np.geomspace(6_000, 600_000, 3_000).astype(np.int64))
    changed = rng.random(tau.size) < -np.expm1(-tau / 60_000)
    bits = told(ChangeBits(prior_interval=60_000), tau[:10], changed[:10])
    size = len(pickle.dumps(bits))
    told(bits, tau[10:], changed[10:])
    exact = exact_rate(tau[changed], tau[~changed], bits.prior)
    assert bits.rates(1)[0] == pytest.approx(exact, rel=0.005)
    assert len(pickle.dumps(bits)) == pytest.approx(size, abs=50)


def test_the_estimates_from_change_bits_converge() -> None:
    """60 SRs of rates over two decades, checked 600 times at irregular times."""
    rng = np.random.default_rng(11)
    rate = np.geomspace(1e-5, 1e-3, 60)
    bits, slots = ChangeBits(), np.arange(60)
    errors = {}
    for k in range(1, 601):
        tau = rng.integers(250, 20_000, 60)
        bits.observe(checks(slots, tau, rng.random(60) < -np.expm1(-rate * tau)))
        errors[k] = float(np.median(np.abs(bits.rates(60) / rate - 1)))
    assert errors[600] < 0.08
    assert errors[600] < errors[60] < errors[6]


def test_an_sr_without_checks_takes_the_pooled_rate() -> None:
    bits = told(ChangeBits(prior_interval=1e6), [1000] * 50, [True, False] * 25)
    assert bits.rates(2)[1] == bits.pooled == pytest.approx(log(2) / 1000, rel=0.05)


def test_few_checks_are_drawn_to_the_pooled_rate() -> None:
    bits = told(ChangeBits(), [1000] * 200, [True, False] * 100)
    told(bits, [1000], [False], slot=1)
    assert exp(-bits.rates(2)[1] * 1000) == pytest.approx(2 / 3, abs=0.02)


def test_slots_solved_long_ago_follow_when_the_pooled_rate_moves() -> None:
    """Slot 1 is checked once, before anything is known; its prior is renewed without another check."""
    bits = told(ChangeBits(prior_interval=1e7), [1000], [False], slot=1)
    before = bits.rates(2)[1]
    told(bits, [1000] * 100, [True, False] * 50)
    assert bits.rates(2)[1] > 1.2 * before
    assert bits.rates(2)[1] == pytest.approx(exact_rate(np.empty(0), np.array([1000.0]), bits.prior), rel=1e-4)


def test_slots_can_be_checked_together_or_one_by_one() -> None:
    rng = np.random.default_rng(3)
    together, apart = ChangeBits(), ChangeBits()
    for _ in range(20):
        tau, changed = rng.integers(250, 9_000, 8), rng.random(8) < 0.5
        together.observe(checks(range(8), tau, changed))
        for slot in range(8):
            told(apart, tau[slot : slot + 1], changed[slot : slot + 1], slot)
    assert together.rates(8) == pytest.approx(apart.rates(8), rel=0.08)


def test_forgetting_follows_a_rate_that_moves() -> None:
    """First never changed, then always: with a memory of 10 checks the past is gone after 60."""
    tau, changed = [1000] * 160, [False] * 100 + [True, False] * 30
    steady, forgetful = told(ChangeBits(), tau, changed), told(ChangeBits(memory=10), tau, changed)
    assert forgetful.rates(1)[0] == pytest.approx(log(2) / 1000, rel=0.25)
    assert steady.rates(1)[0] < 0.5 * forgetful.rates(1)[0]


def test_a_first_fetch_is_no_check() -> None:
    bits = ChangeBits(prior_interval=500)
    bits.observe(checks([0], [0], [False]))
    assert bits.rates(1).tolist() == [pytest.approx(1 / 500)]


def test_checks_shorter_and_longer_than_all_bins_count_too() -> None:
    bits = told(ChangeBits(), [1, 10**12], [True, True])
    assert np.isfinite(bits.rates(1)).all()


def test_last_modified_divides_changes_by_quiet_time() -> None:
    """Checks: changed 200 ago, changed 300 ago, quiet for 1600: X = 2, T = 2100 in 3 checks, and the prior on top."""
    estimator = LastModified(prior_interval=1000)
    for tau, bit, age in [(900, True, 200), (900, True, 300), (1600, False, 1900)]:
        estimator.observe(checks([0], [tau], [bit], [age]))
    pooled = 3 / (2100 + 700 / log(2))
    assert estimator.pooled == pytest.approx(pooled)
    assert estimator.rates(1)[0] == pytest.approx(3 / (2100 + 1 / pooled))


def test_a_first_fetch_with_an_age_counts() -> None:
    estimator = LastModified(prior_interval=1000)
    estimator.observe(checks([0, 1], [0, 0], [False, False], [5000, -1]))
    assert estimator.pooled == pytest.approx(2 / (5000 + 5000 / log(2)))


def test_an_age_that_is_not_told_is_replaced_by_what_is_expected() -> None:
    estimator = LastModified(prior_interval=1000)
    estimator.observe(checks([0], [1000], [True]))
    expected = 1000 - 1000 / np.expm1(1.0)
    assert estimator.pooled == pytest.approx(2 / (expected + expected / log(2)))


def test_no_more_quiet_time_is_counted_than_has_passed() -> None:
    """A value that changed within 1000 while its date says 5000: the check itself was quiet for 1000 at most."""
    estimator = LastModified(prior_interval=1000)
    estimator.observe(checks([0], [1000], [True], [5000]))
    assert estimator.pooled == pytest.approx(2 / (1000 + 1000 / log(2)))


@pytest.mark.parametrize("ages", [True, False])
def test_the_estimates_from_last_modified_converge(ages: bool) -> None:
    rng = np.random.default_rng(7)
    rate = np.geomspace(1e-5, 1e-3, 60)
    estimator = LastModified()
    for _ in range(800):
        tau, age = rng.integers(250, 20_000, 60), np.rint(rng.exponential(1 / rate)).astype(np.int64)
        changed = age < tau
        estimator.observe(checks(range(60), tau, changed, np.where(ages, age, -1)))
    assert np.median(np.abs(estimator.rates(60) / rate - 1)) < (0.06 if ages else 0.12)


def test_last_modified_forgets() -> None:
    estimator = LastModified(memory=5)
    for k in range(200):
        estimator.observe(checks([0], [1000], [k >= 100], [0 if k < 100 else 500]))
    assert estimator.rates(1)[0] == pytest.approx(1 / 500, rel=0.05)


@pytest.mark.parametrize("kind", [ChangeBits, LastModified])
def test_a_reset_slot_starts_afresh(kind: type[ChangeBits] | type[LastModified]) -> None:
    estimator = told(kind(), [1000] * 20, [True] * 20)
    told(estimator, [1000] * 20, [False] * 20, slot=1)
    estimator.reset(np.array([0], np.int32))
    assert estimator.rates(3)[0] == estimator.rates(3)[2] == pytest.approx(estimator.pooled)


@pytest.mark.parametrize("kind", [ChangeBits, LastModified])
def test_slots_far_apart_find_room(kind: type[ChangeBits] | type[LastModified]) -> None:
    estimator = told(kind(), [1000], [True], slot=1000)
    assert estimator.rates(2000).shape == (2000,)


@pytest.mark.parametrize("kind", [ChangeBits, LastModified])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"prior_interval": 0}, "prior_interval is 0 ms"),
        ({"weight": 0}, "weight is 0"),
        ({"memory": 1}, "memory is 1"),
    ],
)
def test_settings_without_sense_are_refused(
    kind: type[ChangeBits] | type[LastModified], setting: dict[str, int], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        kind(**setting)


def test_bins_without_width_are_refused() -> None:
    with pytest.raises(ConfigError, match="per_octave=0"):
        ChangeBits(per_octave=0)


@given(st.floats(1e-9, 1), st.floats(1, 1e7))
def test_the_expected_age_lies_within_the_interval(rate: float, tau: float) -> None:
    age = expected_age(np.array([tau]), np.array([rate]))[0]
    assert 0 < age <= min(tau / 2, 1 / rate) * (1 + 1e-6)
