"""How good the hints of a source are, learned from the checks that follow."""

import pytest

from freshkeeper.maintenance.beliefs.hints import MIN_UNANNOUNCED, HintQuality


def test_precision_and_recall_begin_cautiously() -> None:
    hints = HintQuality()
    assert (hints.precision, hints.recall, hints.unannounced) == (0.5, 0.0, 1.0)


def test_hints_that_are_right_and_announce_all_changes_are_believed_nearly_entirely() -> None:
    hints = HintQuality()
    for _ in range(500):
        hints.learn(True, changed=True, expected_change=0.1)
    assert hints.precision > 0.98
    assert hints.recall > 0.95
    assert hints.unannounced == MIN_UNANNOUNCED


def test_half_of_the_changes_come_without_a_hint() -> None:
    hints = HintQuality()
    for n in range(1000):
        hints.learn(n % 2 == 0, changed=True, expected_change=0.0)
    assert hints.unannounced == pytest.approx(0.5, abs=0.01)


def test_a_feed_that_dies_is_found_out_by_the_next_changes() -> None:
    hints = HintQuality()
    for _ in range(500):
        hints.learn(True, changed=True, expected_change=0.0)
    for _ in range(70):
        hints.learn(False, changed=True, expected_change=0.0)
    assert hints.unannounced > 0.5


def test_changes_that_were_expected_anyway_say_little_of_a_hint() -> None:
    expected, surprising = HintQuality(), HintQuality()
    for _ in range(20):
        expected.learn(True, changed=True, expected_change=0.9)
        surprising.learn(True, changed=True, expected_change=0.0)
    assert expected.precision < 0.8 < surprising.precision
