"""The price that a bucket sets, on loads whose best price is known."""

import math

import pytest

from freshkeeper.maintenance.enricher.token_bucket import PriceController, TokenBucket


def spend(demand: float, hours: int, controller: PriceController, bucket: TokenBucket, begin: int = 0) -> list[float]:
    """Return the levels of a bucket where a price p makes `demand`·e^−p requests a minute; it has one in a minute."""
    levels, owed = [], 0.0
    for minute in range(begin, begin + 60 * hours):
        price = controller.update(bucket, bucket.fill(float(minute)))
        owed += demand * math.exp(-price)
        while owed >= 1.0:
            owed -= 1.0
            bucket.take(1.0)
        levels.append(bucket.level / bucket.capacity)
    return levels


def test_the_price_begins_at_one_right_read_and_doubles_and_halves_with_the_level() -> None:
    controller = PriceController()
    prices = {level: controller.update(TokenBucket(1.0, 100.0, level, 0.0), 0.0) for level in (50.0, 0.0, 100.0)}
    assert prices == pytest.approx({50.0: 1.0, 0.0: math.e, 100.0: 1 / math.e})


@pytest.mark.parametrize("demand", [1.5, 3.0, 8.0])
def test_a_steady_load_is_charged_the_price_at_which_it_spends_the_income(demand: float) -> None:
    controller, bucket = PriceController(), TokenBucket(1.0, 60.0, 30.0, 0.0)
    levels = spend(demand, 48, controller, bucket)
    assert controller.price == pytest.approx(math.log(demand), rel=0.05)
    assert 0.3 < min(levels[-600:]) <= max(levels[-600:]) < 0.7
    assert bucket.spent == pytest.approx(48 * 60, rel=0.02)


def test_a_load_ten_times_as_high_never_starves_for_long_and_settles() -> None:
    controller, bucket = PriceController(), TokenBucket(1.0, 60.0, 30.0, 0.0)
    spend(1.5, 24, controller, bucket)
    levels = spend(15.0, 24, controller, bucket, begin=24 * 60)
    assert min(levels) >= 0.05 - 1e-9
    assert controller.price == pytest.approx(math.log(15.0), rel=0.1)


def test_nothing_is_spent_below_zero_and_the_last_twentieth_is_for_misses() -> None:
    bucket = TokenBucket(1.0, 40.0, 3.0, 0.0)
    assert bucket.take(1.0)
    assert not bucket.take(1.0)
    assert bucket.take(1.0, miss=True)
    assert bucket.take(1.0, miss=True)
    assert not bucket.take(1.0, miss=True)
    assert bucket.level == 0.0
