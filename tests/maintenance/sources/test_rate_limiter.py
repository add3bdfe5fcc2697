"""Limits, Retry-After and breaker over a clock that the test turns; what survives a restart."""

import json
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.fetching.http.response_status import retry_after
from freshkeeper.maintenance.fetching.rate_limiter import Breaker, Limit, Rate, RateLimiter


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def limiter(clock: Clock, *written: str, failures: int = 3, cool_down: float = 10.0) -> RateLimiter:
    return RateLimiter([Limit(Rate.of(each)) for each in written], Breaker(failures, cool_down), clock)


@pytest.mark.parametrize(
    ("written", "requests", "period"),
    [("10/s", 10, 1), ("1000/day", 1000, 86_400), (" 300 / 15min ", 300, 900), ("5/10s", 5, 10), ("7/Hour", 7, 3600)],
)
def test_limits_are_read_as_people_write_them(written: str, requests: int, period: int) -> None:
    rate = Rate.of(written)
    assert (rate.requests, rate.period) == (requests, period)


@pytest.mark.parametrize("written", ["10", "/s", "0/s", "10/fortnight", "-1/s", "10/s/s", ""])
def test_a_limit_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="is no limit: write 10/s, 300/15min or 1000/day"):
        Rate.of(written)


def test_the_tightest_limit_counts() -> None:
    clock = Clock()
    narrow = limiter(clock, "3/s", "5/min")
    assert narrow.room() == 3
    assert [narrow.take() for _ in range(4)] == [True, True, True, False]
    clock.now += 1.01
    assert narrow.room() == 2
    assert [narrow.take() for _ in range(3)] == [True, True, False]
    assert 57 < narrow.wait() < 60.1
    clock.now += narrow.wait()
    assert narrow.take()


@given(st.lists(st.floats(0, 0.5), max_size=60), st.integers(1, 5))
def test_no_stretch_of_a_period_has_more_requests_than_the_limit(gaps: list[float], most: int) -> None:
    clock = Clock()
    narrow, sent = limiter(clock, f"{most}/s"), []
    for gap in gaps:
        clock.now += gap
        if narrow.take():
            sent.append(clock.now)
    for at in sent:
        assert sum(at - 1 < other <= at for other in sent) <= most
    clock.now += narrow.wait()
    assert narrow.take(), "when it says that one may be sent, one may"


def test_a_limit_knows_what_is_free_a_little_later() -> None:
    clock = Clock()
    narrow = limiter(clock, "2/s")
    assert narrow.take()
    assert narrow.take()
    clock.now += 0.95
    assert narrow.room() == 0
    assert narrow.room(patience=0.1) == 2


def test_a_source_that_says_how_long_to_wait_is_left_alone_so_long() -> None:
    clock = Clock()
    asked = limiter(clock)
    asked.failed(wait=30)
    assert (asked.room(), asked.take(), asked.wait()) == (0, False, 30)
    assert "wants no request for 30 s" in asked.why()
    clock.now += 30
    assert asked.take()
    asked.succeeded()
    assert asked.room() == float("inf")


def test_the_breaker_opens_probes_and_closes() -> None:
    clock = Clock()
    guarded = limiter(clock)
    for _ in range(3):
        assert guarded.take()
        guarded.failed()
    assert (guarded.room(), guarded.take()) == (0, False)
    assert "failed 3 times in a row" in guarded.why()
    clock.now += 10
    assert guarded.room() == 1
    assert [guarded.take(), guarded.take()] == [True, False], "one probe"
    guarded.failed()
    assert guarded.wait() == 10, "a probe that fails opens it anew"
    clock.now += 10
    assert guarded.take()
    guarded.succeeded()
    assert guarded.room() == float("inf")


def test_a_success_in_between_keeps_the_breaker_closed() -> None:
    guarded = limiter(Clock())
    for _ in range(5):
        guarded.failed()
        guarded.failed()
        guarded.succeeded()
    assert guarded.room() == float("inf")


def test_a_probe_that_nobody_hears_of_again_blocks_nothing() -> None:
    clock = Clock()
    guarded = limiter(clock, failures=1)
    guarded.failed()
    clock.now += 10
    assert guarded.take()
    clock.now += 10
    assert guarded.take()


def test_all_of_it_survives_a_restart_as_json() -> None:
    clock = Clock()
    before = limiter(clock, "3/s", "5/day", failures=2)
    for _ in range(3):
        before.take()
    before.failed(wait=60)
    before.failed()
    before.failed()
    kept = json.loads(json.dumps(before.state()))
    after = limiter(clock, "5/day", "9/min", failures=2)
    after.restore(kept)
    clock.now += 5
    assert after.room() == 0
    clock.now += 60
    assert after.room() == 1, "the breaker was open, and lets a probe through"
    assert after.take()
    after.succeeded()
    assert after.room() == 1, "of five a day four are sent; the limit per second is no longer there"


def test_a_restart_without_a_state_begins_with_everything_free() -> None:
    after = limiter(Clock(), "5/day")
    after.restore({})
    assert after.room() == 5


def test_a_clock_that_was_wrong_does_not_stop_requests_for_ever() -> None:
    clock = Clock(now=9_000_000.0)
    ahead = limiter(clock, "1/s", failures=1)
    ahead.take()
    ahead.failed()
    clock.now = 1_000_000.0
    assert ahead.wait() <= 10
    clock.now += 10
    assert ahead.take()


HOUR, DAY = 3600.0, 86_400.0


def test_a_wall_clock_that_is_set_changes_no_wait(caplog: pytest.LogCaptureFixture) -> None:
    clock, wall = Clock(50.0), Clock()
    asked = RateLimiter([Limit(Rate.of("2/s"))], Breaker(), clock, wall)
    wall.now += HOUR
    asked.failed(wait=5)
    wall.now -= HOUR
    assert asked.wait() == 5
    clock.now, wall.now = clock.now + 5, wall.now + 5
    assert asked.take()
    assert asked.room() == 1
    asked.state()
    wall.now -= HOUR
    asked.state()
    asked.state()
    assert [record.getMessage() for record in caplog.records] == [
        "the clock was set back by 3600 s: waits for sources do not change"
    ]


@given(st.floats(0, DAY), st.floats(-400 * DAY, 400 * DAY), st.floats(0, 2 * DAY))
def test_a_wait_that_was_saved_is_never_longer_than_it_was(wait: float, jump: float, down: float) -> None:
    clock, wall = Clock(50.0), Clock(2_000_000_000.0)
    before = RateLimiter((), Breaker(), clock, wall)
    before.failed(wait)
    kept = json.loads(json.dumps(before.state()))
    after = RateLimiter((), Breaker(), Clock(7.0), Clock(wall.now + down + jump))
    after.restore(kept)
    assert after.wait() <= wait + 1e-3
    if jump == 0:
        assert after.wait() == pytest.approx(max(0.0, wait - down), abs=1e-3)


def test_a_wait_that_was_saved_by_a_clock_ahead_is_as_long_as_the_source_said(caplog: pytest.LogCaptureFixture) -> None:
    ahead = RateLimiter((), Breaker(), Clock(), Clock(1_000_000.0 + HOUR))
    ahead.failed(wait=1)
    after = RateLimiter((), Breaker(), Clock(9.0), Clock(1_000_000.0))
    after.restore(json.loads(json.dumps(ahead.state())))
    assert after.wait() == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("since_s", [30 * DAY, 1])
def test_a_wait_that_was_saved_thirty_days_ahead_is_a_day_at_most(
    since_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    after = RateLimiter((), Breaker(), clock, Clock())
    until = clock.now + 30 * DAY
    after.restore({"paused": [until - since_s, until]})
    assert after.wait() <= DAY
    assert len(caplog.records) == 1
    clock.now += DAY
    assert after.take()


@given(st.lists(st.sampled_from(["take", "fail", "wait", "tick", "jump"]), max_size=20))
def test_a_state_changes_only_with_what_happened(steps: list[str]) -> None:
    clock, wall = Clock(50.0), Clock()
    asked = RateLimiter([Limit(Rate.of("5/min"))], Breaker(), clock, wall)
    for step in steps:
        before = asked.state()
        if step == "tick":
            clock.now, wall.now = clock.now + 0.3, wall.now + 0.3 + 1e-7
            assert asked.state() == before, "so that it need not be written again"
        elif step == "jump":
            wall.now -= 7200
        elif step == "take":
            asked.take()
        else:
            asked.failed(0.1 if step == "wait" else None)


@pytest.mark.parametrize("skew", [-HOUR, 0, HOUR])
def test_a_date_to_wait_for_is_read_by_the_clock_that_wrote_it(skew: float) -> None:
    now = 1_700_000_000.0
    headers = {"retry-after": formatdate(now + skew + 90, usegmt=True), "date": formatdate(now + skew, usegmt=True)}
    assert retry_after(headers, now) == 90
    assert retry_after({"retry-after": headers["retry-after"]}, now) == max(0, 90 + skew)
    assert retry_after({"retry-after": " 120 "}, now) == 120
    assert retry_after({"retry-after": "9" * 400}, now) == DAY
    for nothing in ("", "soon", "-5", "1.5", "٣"):
        assert retry_after({"retry-after": nothing}, now) is None


def test_a_large_limit_is_kept_in_few_numbers() -> None:
    clock = Clock()
    wide = limiter(clock, "1000000/day")
    for _ in range(20_000):
        clock.now += 4.0
        wide.take()
    assert len(wide.state()["limits"]["1000000/day"]) <= 1001
