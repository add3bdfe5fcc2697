"""Adjacency rows grow one by one, keep their neighbours, and never write into a snapshot that somebody has."""

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.cache.demand.adjacency import Rows, both_ways

steps = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(0, 12), st.just(0)),
        st.tuples(st.just("append"), st.integers(0, 11), st.integers(0, 5)),
        st.tuples(st.just("discard"), st.integers(0, 11), st.just(0)),
        st.tuples(st.just("snapshot"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("loaded", [False, True])
@settings(max_examples=examples(150))
@given(steps=steps)
def test_rows_are_what_a_list_of_lists_is(loaded: bool, steps: list[tuple[str, int, int]]) -> None:
    rows, lists = (
        (both_ways(np.array([0, 0, 2]), np.array([1, 0, 1]), 3, 2)[0], [[0, 1], [], [1]]) if loaded else (Rows(), [])
    )
    snapshots = []
    for what, row, neighbour in steps:
        if what == "extend":
            rows.extend(row)
            lists += [[] for _ in range(row - len(lists))]
        elif what == "snapshot":
            start, neighbours = rows.csr()
            snapshots.append((start, neighbours, start.copy(), neighbours.copy()))
            assert neighbours.size == start[-1] == sum(map(len, lists))
        elif row < len(lists) and what == "append":
            rows.append(row, neighbour)
            lists[row].append(neighbour)
        elif row < len(lists) and what == "discard" and lists[row]:
            rows.discard(row, lists[row][0])
            lists[row].pop(0)
        assert rows.count == len(lists)
        assert [sorted(rows.of(n).tolist()) for n in range(rows.count)] == [sorted(mine) for mine in lists]
    for start, neighbours, start_then, neighbours_then in snapshots:
        assert np.array_equal(start, start_then)
        assert np.array_equal(neighbours, neighbours_then)


def test_a_row_more_seldom_moves_the_others() -> None:
    rows = Rows()
    places: list[object] = []
    for n in range(1000):
        rows.extend(n + 1)
        rows.append(n, n)
        if not any(rows.start.base is place for place in places):
            places.append(rows.start.base)
    assert len(places) <= 11
