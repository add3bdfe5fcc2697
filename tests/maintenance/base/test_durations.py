"""Durations and instants are exact, and say what is wrong with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.durations import LONGEST_MS, to_delay, to_instant, to_iso, to_ms, to_unit


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("PT0.5S", 500), ("pt10m", 600_000), ("PT1H30M", 5_400_000), ("P1D", 86_400_000), ("P1DT1S", 86_401_000),
        ("P2W", 1_209_600_000), ("PT0.1H", 360_000), ("10s", 10_000), ("500ms", 500), ("10m", 600_000),
        ("1h30m", 5_400_000), ("1d2h3m4s5ms", 93_784_005), ("2.5s", 2_500), ("1000000ns", 1), ("250", 250),
        ("10MINUTES", 600_000), ("1Day", 86_400_000),
    ],
)  # fmt: skip
def test_a_duration_in_milliseconds(written: str, ms: int) -> None:
    assert to_ms(written) == ms


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("0", "positive"), ("PT0S", "positive"), ("-PT5S", "positive"), ("0.0001s", "whole number of milliseconds"),
        ("1ns", "whole number of milliseconds"), ("P1M", "no fixed length"), ("P1Y2M", "no fixed length"),
        ("3months", "no fixed length"), ("1y", "no fixed length"), ("P", "no duration"), ("PT", "no duration"),
        ("P1DT", "no duration"), ("10q", "no unit of time"), ("s", "no duration"), ("1h 5m", "no duration"),
        ("9" * 30, "no duration"), ("9" * 18, "too long"), ("PT1M1H", "no"), ("٣s", "no duration"),
    ],
)  # fmt: skip
def test_what_is_no_duration_says_why(written: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        to_ms(written)


def test_a_delay_may_be_nothing_and_not_less() -> None:
    assert (to_delay("0"), to_delay("PT0S"), to_delay("0s"), to_delay("500ms")) == (0, 0, 0, 500)
    with pytest.raises(ValueError, match="positive"):
        to_delay("-5s")


@given(st.integers(1, LONGEST_MS))
def test_every_duration_prints_back(ms: int) -> None:
    assert to_ms(to_iso(ms)) == ms
    assert to_ms(to_unit(ms, ("ms", "s", "m", "h", "d"))) == ms


@pytest.mark.parametrize(
    ("written", "ms"),
    [("0", 0), ("1435708800000", 1435708800000), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0),
     ("1970-01-01T00:00:00.250", 250), ("1970-01-02", 86_400_000), ("1970-01-01T00:00:00.0019Z", 1),
     ("1970-01-01T00:00:00.123456Z", 123), ("1970-01-01T24:00:00Z", 86_400_000),
     ("1970-01-01T24:00:00.000", 86_400_000),
     ("2016-12-31T23:59:60Z", 1_483_228_800_000), ("2016-12-31T23:59:60.25+00:00", 1_483_228_800_250)],
)  # fmt: skip
def test_an_instant(written: str, ms: int) -> None:
    assert to_instant(written) == ms


@pytest.mark.parametrize("written", ["", "soon", "1969-12-31T23:59:59Z", "1970-01-01T24:00:01Z", "-5", "9" * 40])
def test_what_is_no_instant_is_an_error(written: str) -> None:
    with pytest.raises(ValueError, match=r"instant|before 1970"):
        to_instant(written)
