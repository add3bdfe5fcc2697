"""What is believed of the changes of one row, beside numbers worked out by hand or by integration."""

import numpy as np
import pytest

from freshkeeper.maintenance.beliefs.change_rates import CHECKS_REMEMBERED, PRIOR_CHANGES, ChangeRates, UncertainRate


class Statistics:
    """The evidence of one row."""

    def __init__(self, changes: float = 0.0, exposure: float = 0.0) -> None:
        self.changes, self.exposure = changes, exposure


def test_a_new_row_is_taken_to_change_as_rows_of_its_source_do_and_its_survival_has_a_long_tail() -> None:
    row = ChangeRates(first_interval=60_000.0).of_row(Statistics())
    assert row == (0.5, 30_000.0)
    assert row.mean == pytest.approx(1 / 60_000)
    assert row.probability(90_000) == 0.5  # (1 + 90/30)^-0.5, where e^-1.5 is 0.22
    assert row.doubt_of(0.5) == pytest.approx(90_000)
    assert row.right_ms(90_000) == pytest.approx(60_000)  # 30 s / 0.5 · (√4 − 1)
    assert row.probability(0) == row.probability(-5) == 1.0
    assert row.doubt_of(0.0) == float("inf")


@pytest.mark.parametrize(("shape", "scale"), [(0.5, 30.0), (1.0, 10.0), (1.0000001, 10.0), (7.3, 4.0), (90.0, 900.0)])
def test_the_time_until_the_first_change_is_the_integral_of_the_survival(shape: float, scale: float) -> None:
    row = UncertainRate(shape, scale)
    times = np.linspace(0, 50, 200_001)
    survival = np.array([row.probability(t) for t in times])
    integral = float(np.sum((survival[1:] + survival[:-1]) / 2 * np.diff(times)))
    assert row.right_ms(50.0) == pytest.approx(integral, rel=1e-6)


def test_a_rate_that_is_well_known_gives_an_exponential_survival() -> None:
    assert UncertainRate(1e6, 1e6).probability(2.0) == pytest.approx(np.exp(-2), rel=1e-5)


@pytest.mark.parametrize("age", [1.0, 10.0, 60.0, 500.0])
def test_a_check_that_found_a_change_keeps_mean_and_variance_of_the_rate(age: float) -> None:
    rates, row = ChangeRates(first_interval=60.0), Statistics(changes=2.0, exposure=50.0)
    shape, scale = rates.of_row(row)
    rate = np.linspace(1e-6, 3, 2_000_000)
    density = rate ** (shape - 1) * np.exp(-rate * scale) * (1 - np.exp(-rate * age))
    density /= density.sum()
    mean = float(density @ rate)
    variance = float(density @ rate**2) - mean**2
    prior = rates.prior_of(row)
    rates.learn(row, age, changed=True)
    fading = 1 - 1 / CHECKS_REMEMBERED
    shape, scale = row.changes / fading + PRIOR_CHANGES, row.exposure / fading + prior
    assert shape / scale == pytest.approx(mean, rel=1e-3)
    assert shape / scale**2 == pytest.approx(variance, rel=1e-3)


def test_a_check_after_very_long_says_next_to_nothing_and_one_at_once_is_a_change_more() -> None:
    rates, row = ChangeRates(first_interval=60.0), Statistics(changes=9.5, exposure=0.0)
    rates.learn(row, 1e9, changed=True)
    assert row.changes == pytest.approx(9.5, rel=0.02)
    rates.learn(row, 1e-3, changed=True)
    assert row.changes == pytest.approx(10.5, rel=0.03)
    rates.learn(row, 0.0, changed=True)
    rates.learn(row, -5.0, changed=True)
    assert row.changes == pytest.approx(10.5, rel=0.03)


def test_checks_without_a_change_add_their_age() -> None:
    rates, row = ChangeRates(first_interval=60.0), Statistics()
    rates.learn(row, 100.0, changed=False)
    assert (row.changes, row.exposure) == pytest.approx((0.0, 99.0))


@pytest.mark.parametrize("ages", ["short", "long"])
def test_the_true_rate_is_learned_from_checks(ages: str) -> None:
    rng = np.random.default_rng(1)
    rates, row = ChangeRates(first_interval=5.0), Statistics()
    for _ in range(2000):
        age = rng.exponential(5.0 if ages == "short" else 40.0)
        rates.learn(row, age, changed=bool(rng.random() < 1 - np.exp(-age / 20)))
    assert rates.of_row(row).mean == pytest.approx(1 / 20, rel=0.3)
    assert rates.changes / rates.exposure == pytest.approx(1 / 20, rel=0.3)


def test_a_row_that_changes_its_habits_is_followed_within_a_few_dozen_checks() -> None:
    rates, row = ChangeRates(first_interval=10.0), Statistics()
    for _ in range(1000):
        rates.learn(row, 10.0, changed=False)
    assert rates.of_row(row).mean < 1 / 1500
    for _ in range(40):
        rates.learn(row, 10.0, changed=True)
    assert rates.of_row(row).mean > 1 / 50


def test_a_row_that_changes_a_thousand_times_as_often_as_the_others_is_found_out_soon() -> None:
    rates, row = ChangeRates(first_interval=3600.0), Statistics()
    believed = []
    for _ in range(100):
        rates.learn(row, 10.0, changed=True)
        believed.append(1 / rates.of_row(row).mean)
    assert believed[0] > 500
    assert believed[19] < 100
    assert believed[99] < 15


def test_silence_thins_the_changes_where_hints_announce_most_of_them() -> None:
    rates = ChangeRates(first_interval=60_000.0)
    rates.unannounced = 0.25
    row = rates.of_row(Statistics())
    assert row.mean == pytest.approx(0.25 / 60_000)
    assert row.probability(360_000) == 0.5  # as after 90 s without hints
