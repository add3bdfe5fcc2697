"""What is known of a source's clock by the Date of its answers."""

import math

from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.sources.fragments.fragments_over_http import SourceClock


@given(st.floats(-100, 100), st.lists(st.floats(0, 0.2), min_size=1, max_size=30))
def test_the_true_difference_is_always_between_the_bounds(ahead: float, takes: list[float]) -> None:
    clock, now = SourceClock(), 1_000_000.0
    for taken in takes:
        now += 0.37
        clock.see(math.floor(now + ahead + taken / 2), now, now + taken)
        assert clock.least - 1e-6 <= ahead <= clock.most + 1e-6
    assert clock.jumps == 0
    assert clock.ahead <= max(0, ahead) + 1e-6 or clock.agrees


def test_clocks_that_may_agree_are_taken_to() -> None:
    clock = SourceClock()
    clock.see(100.0, 100.3, 100.4)
    assert clock.agrees
    assert clock.ahead == clock.ahead_at_most == 0


def test_a_clock_that_was_set_is_counted_and_believed() -> None:
    clock = SourceClock()
    clock.see(100.0, 100.0, 100.1)
    clock.see(500.0, 101.0, 101.1)
    assert clock.jumps == 1
    assert 398 < clock.ahead < 400


def test_an_answer_without_a_date_says_nothing() -> None:
    clock = SourceClock()
    clock.see(None, 1.0, 2.0)
    assert clock.agrees
