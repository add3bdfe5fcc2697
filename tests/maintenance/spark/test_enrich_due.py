"""When evaluations are due, what is late, and that the order of arrival within the delay does not matter."""

from typing import Any

import enriched
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import Due, collected

WINDOW = enriched.WINDOW


def handed_out(due: Due, *events: tuple[int, str]) -> list[tuple[int, list[Any]]]:
    due.take(collected(enriched.counts_of(list(events), due.window), ["topic"]))
    return [
        (k, sorted(str(part.names[code]) for part in parts for code in part.codes)) for k, parts in due.evaluations()
    ]


def test_an_evaluation_is_due_when_the_watermark_has_passed_it_not_when_it_is_reached() -> None:
    due = Due(WINDOW, 0)
    assert handed_out(due, (700, "a"), (1000, "b")) == []
    assert handed_out(due, (1000, "c"), (1001, "d")) == [(1, ["a", "b", "c"])]


def test_several_evaluations_may_become_due_at_once_in_order() -> None:
    due = Due(WINDOW, 500)
    found = handed_out(due, (700, "a"), (2100, "b"), (4600, "c"))
    assert found == [(1, ["a"]), (2, []), (3, ["b"]), (4, [])]
    assert due.watermark == 4100


def test_evaluations_begin_with_the_first_element_and_never_before_the_first_of_the_window() -> None:
    assert handed_out(Due(WINDOW, 0), (9_300, "a"), (10_500, "b")) == [(10, ["a"])]
    assert handed_out(Due(WindowSpec(4000, 1000, 9_300), 0), (9_300, "a"), (10_301, "b")) == [(1, ["a"])]


def test_an_element_whose_first_evaluation_is_over_is_late_and_takes_part_in_the_next() -> None:
    due = Due(WINDOW, 0)
    handed_out(due, (700, "a"), (2100, "b"))
    assert handed_out(due, (1500, "late"), (2050, "in time"), (3001, "c")) == [(3, ["b", "in time", "late"])]
    assert (due.late, due.elements) == (1, 5)


def test_event_times_in_another_unit_are_refused_in_words() -> None:
    due = Due(WINDOW, 0)
    with pytest.raises(InputError, match="are the event times milliseconds"):
        handed_out(due, (1_700_000_000, "a"), (1_700_000_000_000, "b"))


@given(st.integers(0, 2**32), st.integers(0, 3000), st.integers(1, 8))
def test_what_comes_out_of_order_within_the_delay_is_never_late(seed: int, delay: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(1, 20_000, 60))
    order = np.argsort(at + rng.integers(0, delay + 1, at.size), kind="stable")
    events = [(int(at[n]), f"e{n}") for n in order]
    due, found = Due(WINDOW, delay), []
    for part in np.array_split(np.arange(at.size), parts):
        found += handed_out(due, *(events[n] for n in part))
    assert due.late == 0
    expected = [sorted(f"e{n}" for n in np.flatnonzero((at > (k - 1) * 1000) & (at <= k * 1000))) for k, _ in found]
    assert [names for _, names in found] == expected
