"""Connections that end and come back: what is asked again, what is missing, what a run is told."""

import random

import pytest
from feeds import Given, Line, fed

from freshkeeper.maintenance.base.errors import ConfigError, InputLostError
from freshkeeper.maintenance.streams.live.feed import (
    MAX_POSITIONS,
    TOO_LONG,
    Backoff,
    FeedLines,
    LineSplitter,
    LostError,
    OnLoss,
    Received,
    Trail,
    stamped,
)
from freshkeeper.maintenance.streams.live.kafka import Backlog, PendingMessage
from freshkeeper.maintenance.streams.opening import open_stream
from freshkeeper.maintenance.streams.read_errors import ReadErrors
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE


def element(at: int, **place: int) -> Received:
    return Received(f"{at}\t<urn:a> <urn:b> <urn:{at}> .\n".encode(), place)


def times(lines: FeedLines) -> list[int]:
    return [at for batch in lines.batches() for at in batch.times]


def test_a_connection_that_ends_is_an_error_unless_it_may_end() -> None:
    with pytest.raises(InputLostError, match="the stream there has ended") as lost:
        times(fed(Line([Given([element(1)])]), OnLoss.FAIL))
    assert lost.value.exit_code == 75
    assert times(fed(Line([Given([element(1)])]), OnLoss.END)) == [1]
    with pytest.raises(InputLostError, match="broke off: reset by peer"):
        times(fed(Line([Given([LostError("reset by peer")])]), OnLoss.FAIL))
    with pytest.raises(InputLostError, match="cannot be reached: nobody is there"):
        times(fed(Line([]), OnLoss.END))


def test_a_stream_goes_on_over_connections_and_tells_what_is_missing() -> None:
    now = iter(range(100))
    told: list[str] = []
    line = Line(
        [LostError("refused"), Given([element(1)]), LostError("refused"), Given([element(2)]), ConfigError("no")]
    )
    lines = fed(line, OnLoss.RECONNECT, notify=told.append, clock=lambda: float(next(now)))
    taken = lines.batches()
    assert [next(taken).times for _ in range(2)] == [[1], [2]]
    status = lines.feed.status
    assert (status.connected, status.reconnects, status.gaps) == (True, 1, 1)
    assert status.away > 0
    assert told[0] == "the stream there cannot be reached: refused; trying again"
    assert told[1:3] == [
        "the stream there has ended; trying again",
        "the stream there cannot be reached: refused; trying again",
    ]
    assert told[3].endswith(" s: data sent meanwhile is missing")
    with pytest.raises(ConfigError):
        next(taken)


def test_what_the_other_side_keeps_is_asked_for_again_and_no_gap() -> None:
    line = Line([Given([element(1, a=1), element(2, a=2)]), Given([element(3, a=3)], gap="5 are gone")], keeps=True)
    lines = fed(line, OnLoss.RECONNECT)
    taken = lines.batches()
    assert [next(taken).times[0] for _ in range(2)] == [1, 2]
    assert lines.feed.status.gaps == 0
    assert next(taken).times == [3]
    assert line.asked == [{}, {"a": 2}]
    assert lines.feed.status.gaps == 1  # the other side says that it has not kept all


def test_waits_grow_and_differ() -> None:
    backoff = Backoff(1, 8, random.Random(1))
    waits = [backoff.next() for _ in range(200)]
    assert all(wait <= min(8, 2 ** (n + 1)) for n, wait in enumerate(waits))
    assert len(set(waits)) == 200
    assert max(waits) > 7
    backoff.reset()
    assert backoff.next() <= 2


def test_elements_in_windows_are_read_again_from_the_place_before_them() -> None:
    trail = Trail()
    for at in range(1, 6):
        trail.add({"": at - 1}, at * 10, {"": at})
    assert trail.back_to(5) == {"": 0}
    assert trail.back_to(10) == {"": 1}
    assert trail.back_to(34) == {"": 3}
    trail.add({"": 5}, 50, {"": 6})  # no later than what came before
    assert trail.back_to(40) == {"": 4}
    assert trail.back_to(50) == {"": 6}


def test_places_that_are_remembered_are_bounded_and_never_too_late() -> None:
    trail, count = Trail(), 3 * MAX_POSITIONS
    for at in range(count):
        trail.add({"": at}, at, {"": at + 1})
    assert len(trail._steps) <= MAX_POSITIONS
    for wanted in range(0, count, 997):
        assert int(trail.back_to(wanted)[""]) <= wanted + 1


def test_lines_are_whole_wherever_they_are_cut() -> None:
    text = b"a\nbb\n\nccc\n"
    for size in range(1, 12):
        splitter = LineSplitter()
        whole = b"".join(splitter.take(text[at : at + size]) for at in range(0, len(text), size))
        assert whole + splitter.rest() == text
    splitter = LineSplitter()
    assert splitter.take(b"a\n" + b"x" * (LONGEST_LINE + 1)) == b"a\n" + TOO_LONG
    assert splitter.take(b"xx\nb\n") == b"b\n"


def test_parts_with_a_backlog_are_handed_on_in_the_order_of_time() -> None:
    def message(part: str, number: int, at: int) -> PendingMessage:
        return PendingMessage(part, number, b"%d\t." % at)

    backlog = Backlog()
    backlog.expect("0", 0, 3)
    backlog.expect("1", 5, 6)
    backlog.expect("2", 0, 0)
    for number, at in enumerate((10, 20, 40)):
        backlog.take(message("0", number, at))
    assert backlog.ready() == []  # the other part may have something earlier
    backlog.take(message("1", 5, 15))
    assert [one.time for one in backlog.ready()] == [10, 15, 20, 40]
    backlog.take(message("1", 6, 12))
    assert [one.time for one in backlog.ready()] == [12]  # from where reading began on, as they come
    backlog.expect("0", 3, 9)
    backlog.take(message("1", 7, 50))
    assert backlog.ready() == []
    backlog.forget("0")
    assert [one.time for one in backlog.ready()] == [50]


def test_statements_without_a_time_have_that_of_their_message() -> None:
    assert stamped(b"<urn:a> <urn:b> <urn:c> .\n_:a <urn:b> <urn:c> .", 7) == (
        b"7\t<urn:a> <urn:b> <urn:c> .\n7\t_:a <urn:b> <urn:c> .\n"
    )
    assert stamped(b"5\t<urn:a> <urn:b> <urn:c> .", 7) == b"5\t<urn:a> <urn:b> <urn:c> .\n"
    assert stamped(b" ", 7) == b""


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("tcp://host", "write tcp://host:port"),
        ("http://", "has no host: write http://host/path"),
        ("ws://", "write ws://host:port/path"),
        ("kafka://broker:9092", "no topic: write kafka://broker:9092/TOPIC"),
        ("kafka://ann:pw@broker/t", "credentials go into properties=FILE"),
        ("kafka://broker/t?gruop=a", "unknown gruop; did you mean 'group'"),
        ("kafka://broker/t?start=now", "start=now: it is earliest or latest"),
        ("kafka://broker/t?properties=none", "none cannot be read: No such file"),
        ("redis://host/0", "has no stream: write redis://host:port/0"),
        ("redis://host/0?stream=a&start=1", "start=1: it is earliest or latest"),
    ],
)
def test_an_address_that_is_none_says_what_would_be_right_before_anything_runs(written: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")) as refused:
        open_stream(written, ReadErrors())
    assert "pw" not in str(refused.value)
