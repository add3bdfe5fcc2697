"""The local view: misses come and go, slots are used again, and edges stay right through any history."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule
from freshkeeper.maintenance.fetching.endpoint import Key
from freshkeeper.policies.base import NEVER

TRUTH: dict[Key, list[int]] = {sn: [(sn * 7 + n) % 9 for n in range(sn % 4)] for sn in range(8)}
"""SNs and SRs have the same keys."""


class ViewMachine(RuleBasedStateMachine):
    """SNs arrive, are fetched and are let go; the view's edges are always those of the truth, or one placeholder."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window(WindowSpec(range=3, step=1), ring=3)
        model = FixedSchedule(np.full(9, 100), np.zeros(9, int))
        self.view = View(MaintenanceGraph(self.window), model, capacity=4)
        self.fetched: set[Key] = set()
        self.k = 0
        self.view.watch()
        self.written: tuple[dict[int, object], dict[int, object]] = {}, {}
        """rows of SNs and SRs, by slot, as somebody wrote them who was told of changes alone"""

    @rule(sns=st.lists(st.integers(0, 7), min_size=1, max_size=3))
    def arrive(self, sns: list[int]) -> None:
        self.k += 1
        slots = self.view.sn_slots(sns)
        self.window.insert(np.full(len(sns), self.k), slots)
        self.view.graph.apply(self.window.advance(self.k))

    @rule()
    def fetch_all_misses(self) -> None:
        for sn in list(self.view.misses):
            slots = self.view.complete(sn, TRUTH[sn], edges=False)
            self.view.store(slots, TRUTH[sn], self.k)
            self.fetched.add(sn)

    @rule()
    def evict(self) -> None:
        self.view.evict()
        self.fetched &= set(self.view.sns.numbers)

    @invariant()
    def edges_are_right(self) -> None:
        graph, srs, kinds = self.view.graph, self.view.srs, self.view.kinds
        for sn, slot in self.view.sns.numbers.items():
            found = {(kinds[sr], srs.keys[sr]) for sr in graph.by_sn.of(slot).tolist()}
            known = {(Kind.COPY, key) for key in TRUTH[sn]}
            assert found == (known if sn in self.fetched else {(Kind.MISS, sn)})
        assert graph.edges == sum(len(graph.by_sn.of(slot)) for slot in self.view.sns.numbers.values())

    @invariant()
    def copies_are_of_fetched_srs_only(self) -> None:
        view = self.view
        assert all(view.last_refresh[slot] == NEVER and view.kinds[slot] == Kind.MISS for slot in view.misses.values())
        assert all(view.values[slot] == key and not view.kinds[slot] for key, slot in view.srs.numbers.items())
        assert (view.last_refresh[list(view.srs.numbers.values())] != NEVER).all()
        assert len(view.srs) == len(view.misses) + len(view.srs.numbers)

    @invariant()
    def what_is_told_of_changes_is_all_that_changed(self) -> None:
        for slots, written, rows in zip(self.view.changed(), self.written, (sn_rows, sr_rows), strict=True):
            written.update(zip(slots, rows(self.view, slots), strict=True))
        assert list(map(self.written[0].get, range(self.view.sns.width))) == sn_rows(self.view)
        assert list(map(self.written[1].get, range(self.view.srs.width))) == sr_rows(self.view)
        assert self.view.changed() == ([], [])

    @invariant()
    def another_view_that_loads_it_is_the_same(self) -> None:
        view, window = self.view, Window(self.window.spec, ring=3)
        other = View(MaintenanceGraph(window), view.model, capacity=4)
        sns = range(view.sns.width)
        known = self.window.dump(sns)
        other.sns.load(view.sns.keys, [Kind.COPY] * len(sns), view.sns.free)
        other.load(view.dump(range(view.srs.width)), view.srs.free)
        window.load(known["evaluations"], known["arrivals"], [0] * len(sns))
        other.graph.load(view.graph.dump(sns), view.srs.width)
        assert (sn_rows(other), sr_rows(other)) == (sn_rows(view), sr_rows(view))
        assert (other.srs.by_kind, other.srs.free, other.degree) == (view.srs.by_kind, view.srs.free, view.degree)
        srs = np.arange(view.srs.width)
        assert np.allclose(other.graph.arrivals(srs), view.graph.arrivals(srs), atol=1e-9)
        assert other.graph.edges == view.graph.edges

    @invariant()
    def demand_follows(self) -> None:
        adjacency = self.view.graph.snapshot().matrix.toarray() if self.view.graph.sns else np.zeros((0, 0))
        profile = self.window.profile(self.view.graph.sns, 3)
        assert self.view.graph.demand(3).tolist() == (adjacency.T @ profile).tolist()


def sn_rows(view: View, slots: Sequence[int] | None = None) -> list[object]:
    """Key and edges of some slots, or of all."""
    shown = range(view.sns.width) if slots is None else slots
    return list(zip([view.sns.keys[slot] for slot in shown], view.graph.dump(shown), strict=True))


def sr_rows(view: View, slots: list[Any] | None = None) -> list[Any]:
    """Key, kind, value and time of some slots, or of all."""
    return list(zip(*view.dump(range(view.srs.width) if slots is None else slots).values(), strict=True))


ViewMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=20)
test_any_history = ViewMachine.TestCase


def test_copies_of_srs_that_no_sn_needs_keep_their_times_and_those_that_are_known_stay_as_they_are() -> None:
    view = View(
        MaintenanceGraph(Window(WindowSpec(range=3, step=1), ring=3)), FixedSchedule(np.full(9, 100), np.zeros(9, int))
    )
    first = view.hold([5, 2], ["a", "b"], np.array([10, 20]))
    again = view.hold([2, 7], ["other", "c"], np.array([90, 30]))
    assert first[1] == again[0]
    assert [view.values[slot] for slot in (*first, again[1])] == ["a", "b", "c"]
    assert view.last_refresh[[*first, again[1]]].tolist() == [10, 20, 30]
    assert view.graph.demand(1).sum() == 0


def test_what_a_miss_may_bring_is_told_by_edges_elsewhere_as_well() -> None:
    view = View(
        MaintenanceGraph(Window(WindowSpec(range=3, step=1), ring=3)), FixedSchedule(np.full(9, 100), np.zeros(9, int))
    )
    view.elsewhere = 12, 4
    assert view.degree == 3
    view.sn_slots([3])
    assert view.degree == 3
    view.complete(3, [1, 2, 4, 5, 6, 7, 8, 0], edges=False)
    assert view.degree == 20 / 5
