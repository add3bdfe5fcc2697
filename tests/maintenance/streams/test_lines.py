"""Timestamped N-Quads and order in time: what is an element, and what is said of what is none."""

import io
from collections.abc import Callable

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from terms import text_of

from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines, Columns, columns_of
from freshkeeper.maintenance.streams.batch import Batch, Stream
from freshkeeper.maintenance.streams.event_order import EventOrder
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors, StreamError
from freshkeeper.maintenance.streams.timed_lines import TimedLines


def test_timestamped_nquads_keep_blank_nodes_and_lose_graphs(
    lines: Callable[..., TimedLines | ColumnLines],
    read: Callable[[Stream], list[tuple[int, str]]],
    three: str,
    expected: list[tuple[int, str]],
) -> None:
    assert read(lines(three)) == expected
    assert read(lines("# a comment\n\n" + three.rstrip("\n"))) == expected


def test_elements_are_in_the_default_graph(lines: Callable[..., TimedLines | ColumnLines], three: str) -> None:
    for text in (three, three.replace(" <http://e/g>", ""), three.replace(" .", ".")):
        assert {q.graph_name for b in lines(text).batches() for q in b.quads} == {ox.DefaultGraph()}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("5 <http://e/a> <http://e/p> 1 .", "has no tab: write <milliseconds>, a tab"),
        ("soon\t<http://e/a> <http://e/p> <http://e/b> .", "'soon' is no time"),
        ("-5\t<http://e/a> <http://e/p> <http://e/b> .", "'-5' is no time"),
        ("1_000\t<http://e/a> <http://e/p> <http://e/b> .", "'1_000' is no time"),
        (" +2000 \t<http://e/a> <http://e/p> <http://e/b> .", "' +2000 ' is no time"),
        ("5\t<http://e/a> <http://e/p> .", "is no statement in N-Quads"),
        ("5\t<http://e/a> <http://e/p> <http://e/b> . <http://e/a> <http://e/p> <http://e/c> .", "is no statement"),
        ("5\t", "has 0 statements"),
    ],
)
def test_a_malformed_line_is_fatal_or_skipped_and_told_with_its_place(
    lines: Callable[..., TimedLines | ColumnLines],
    read: Callable[[Stream], list[tuple[int, str]]],
    three: str,
    line: str,
    says: str,
) -> None:
    with pytest.raises(StreamError, match=r"cars.nq, line 4: ") as caught:
        read(lines(three + line + "\n" + three))
    assert says in str(caught.value) or "statements" in str(caught.value)
    heard: list[str] = []
    stream = lines(three + line + "\n" + three, OnError.SKIP, heard)
    assert len(read(stream)) == 6
    assert len(heard) == 1
    assert heard[0].endswith("(skipped)")


@given(st.binary(max_size=60))
def test_whatever_a_line_holds_it_is_an_element_or_an_error_of_ours(text: bytes) -> None:
    stream = TimedLines("x", lambda: io.BytesIO(b"1\t" + text), ReadErrors(OnError.SKIP))
    for batch in stream.batches():
        assert len(batch.times) == len(batch.quads)


def numbered(times: list[int]) -> Batch:
    """Elements that are told apart by their place."""
    node = ox.NamedNode("http://e/x")
    return Batch(times, [ox.Quad(node, node, ox.Literal(n)) for n in range(len(times))])


@given(st.lists(st.lists(st.integers(0, 50), max_size=8), max_size=8), st.integers(0, 20))
def test_nothing_is_lost_silently_and_everything_comes_in_order(arrivals: list[list[int]], delay: int) -> None:
    order = EventOrder(delay)
    found: list[int] = []
    for times in arrivals:
        ready = order.take(numbered(times))
        assert all(at <= order.watermark for at in ready.times)
        found += ready.times
    found += order.rest().times
    assert found == sorted(found)
    assert len(found) + order.late == sum(map(len, arrivals))


def test_what_a_silent_stream_says_of_the_time_that_has_passed_without_it_is_late() -> None:
    order = EventOrder()
    order.take(numbered([10]))
    order.advance(50)
    assert order.watermark == 50
    assert list(order.take(numbered([20, 49, 50, 60])).times) == [50, 60]
    assert (order.late, order.watermark) == (2, 60)


def one_by_one(arrivals: list[list[int]], delay: int) -> tuple[list[list[tuple[int, int]]], int]:
    """The order as its definition says it: (time, number) in order, how many came too late."""
    latest, waiting, handed, late, number = DISTANT_PAST, [], [], 0, 0
    for times in arrivals:
        for time in times:
            if time < latest - delay:
                late += 1
            else:
                latest = max(latest, time)
                waiting.append((time, number))
            number += 1
        waiting.sort()
        handed.append([element for element in waiting if element[0] <= latest - delay])
        waiting = [element for element in waiting if element[0] > latest - delay]
    return [*handed, waiting], late


@given(st.lists(st.lists(st.integers(0, 50), max_size=8), max_size=8), st.integers(0, 20), st.booleans())
def test_elements_of_any_form_are_ordered_as_the_definition_says(
    arrivals: list[list[int]], delay: int, as_columns: bool
) -> None:
    order, dictionary, number, found = EventOrder(delay), Dictionary(), 0, []
    node = ox.NamedNode("http://e/x")
    for times in arrivals:
        batch = Batch(times, [ox.Quad(node, node, ox.Literal(number + n)) for n in range(len(times))])
        found.append(order.take(columns_of(batch, dictionary) if as_columns else batch))
        number += len(times)
    found.append(order.rest())
    shown = [[(at, int(text_of(q.object))) for at, q in zip(b.times, b.quads, strict=True)] for b in found]
    assert (shown, order.late) == one_by_one(arrivals, delay)
    assert all(not len(b) or isinstance(b, Columns) == as_columns for b in found)
