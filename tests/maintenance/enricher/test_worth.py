"""The rule by which a read decides, beside sums over renewal cycles and an optimal policy found by iteration."""

import math

import numpy as np
import pytest

from freshkeeper.maintenance.beliefs.change_rates import UncertainRate
from freshkeeper.maintenance.enricher.worth import Worth

CASES = [
    (UncertainRate(0.5, 30.0), 0.05, 0.4), (UncertainRate(0.5, 30.0), 0.5, 1.0), (UncertainRate(8.0, 100.0), 1.0, 0.7),
    (UncertainRate(8.0, 100.0), 0.02, 0.6), (UncertainRate(60.0, 600.0), 0.3, 1.3),
    (UncertainRate(60.0, 6000.0), 2.0, 2.5),
]  # fmt: skip


def threshold(worth: Worth, row: UncertainRate, reads: float, price: float) -> float:
    """Return the doubt at which a fetch is worth the price, stepping by what `wait` permits."""
    doubt = 0.0
    for _ in range(200):
        wait = worth.wait(row, reads, doubt, price)
        if wait <= 1e-9 or math.isinf(wait):
            return doubt if wait <= 1e-9 else math.inf
        doubt += wait
    return doubt


@pytest.mark.parametrize(("row", "reads", "price"), CASES)
def test_reads_that_wait_maximise_right_reads_less_the_price_per_cycle(
    row: UncertainRate, reads: float, price: float
) -> None:
    def gain(doubt: float) -> float:
        return (1 + reads * row.right_ms(doubt) - price) / (doubt + 1 / reads)

    found = threshold(Worth(reads_wait=True), row, reads, price)
    candidates = np.concatenate([[0], np.geomspace(1e-3, 1e6, 4000)])
    best = max(gain(each) for each in candidates)
    assert gain(found) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(("reads", "price"), [(0.5, 0.3), (2.0, 0.6), (0.2, 0.15)])
def test_reads_that_get_the_old_row_maximise_theirs(reads: float, price: float) -> None:
    row, rate = UncertainRate(1e7, 1e8), 0.1  # a rate that is known: the first read after the doubt gets the old row

    def gain(doubt: float) -> float:
        right = reads * row.right_ms(doubt) + row.probability(doubt) * reads / (reads + rate)
        return (right - price) / (doubt + 1 / reads)

    found = threshold(Worth(reads_wait=False), row, reads, price)
    best = max(gain(each) for each in np.concatenate([[0], np.geomspace(1e-3, 1e3, 8000)]))
    assert gain(found) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize(("reads", "price"), [(0.3, 0.5), (0.05, 0.4), (1.0, 0.9), (0.4, 1.2)])
def test_no_policy_at_all_is_better_where_the_rates_are_known(reads: float, price: float) -> None:
    """The best policy for a copy of each age, found by relative value iteration, begins to fetch at the same age."""
    step, rate, ages = 0.1, 0.1, 1200  # ms; a change in ten ms
    right = np.exp(-rate * step * np.arange(ages))
    read = reads * step
    value, older = np.zeros(ages), np.minimum(np.arange(ages) + 1, ages - 1)
    for _ in range(6000):
        fetched = 1.0 - price + value[1]
        updated = (1 - read) * value[older] + read * np.maximum(fetched, right + value[older])
        value = updated - updated[0]
    fetches = 1.0 - price + value[1] > right + value[older]
    best = float(np.argmax(fetches)) * step if fetches.any() else math.inf
    found = threshold(Worth(reads_wait=True), UncertainRate(1e7, 1e8), reads, price)
    assert found == pytest.approx(best, abs=3 * step, rel=0.1)


def test_worked_numbers() -> None:
    row = UncertainRate(1.0, 60_000.0)
    waits = Worth(reads_wait=True)
    # Read never again: a fetch is worth the probability that the row is wrong, 1 − 1/(1 + 1).
    assert waits.of_fetch(row, 0.0, 60_000.0) == 0.5
    # Read once a minute: 1 + ln 2 − 0.5 · 2.
    assert waits.of_fetch(row, 1 / 60_000, 60_000.0) == pytest.approx(math.log(2))
    # Nobody waits: half of it, as the next read comes before the next change with probability 1/2.
    assert Worth(reads_wait=False).of_fetch(row, 1 / 60_000, 60_000.0) == pytest.approx(math.log(2) / 2)
    assert waits.of_fetch(row, 1.0, -5.0) == 0.0
    assert waits.of_fetch(row, 1.0, math.inf) == math.inf


def test_a_row_that_is_promised_to_hold_is_not_fetched_before() -> None:
    assert Worth(reads_wait=True).wait(UncertainRate(1.0, 10.0), 0.1, doubt=-500.0, price=0.1) > 500.0


def test_no_wait_is_too_long() -> None:
    rng = np.random.default_rng(1)
    for _ in range(2000):
        row = UncertainRate(float(rng.uniform(0.5, 50)), float(np.exp(rng.normal(5, 2))))
        reads, price = float(np.exp(rng.normal(-4, 2))), float(np.exp(rng.normal(-1, 1)))
        doubt = float(rng.exponential(row.scale))
        worth = Worth(reads_wait=bool(rng.random() < 0.5))
        wait = worth.wait(row, reads, doubt, price)
        if 0 < wait < math.inf:
            assert worth.of_fetch(row, reads, doubt + wait * 0.999) <= price * (1 + 1e-9)
