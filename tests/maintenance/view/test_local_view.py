"""The local view: misses come and go, slots are used again, and edges stay right through any history."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from freshkeeper.maintenance.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.demand.window import Window, WindowSpec
from freshkeeper.maintenance.view.local_view import View
from freshkeeper.maintenance.view.schedule import FixedSchedule
from freshkeeper.policies.base import NEVER, Kind

TRUTH = {sn: [(sn * 7 + n) % 9 for n in range(sn % 4)] for sn in range(8)}
"""SNs and SRs have the same keys."""


class ViewMachine(RuleBasedStateMachine):
    """SNs arrive, are fetched and are let go; the view's edges are always those of the truth, or one placeholder."""

    def __init__(self):
        super().__init__()
        self.window = Window(WindowSpec(range=3, step=1), ring=3)
        model = FixedSchedule(np.full(9, 100), np.zeros(9, int))
        self.view = View(MaintenanceGraph(self.window), model, capacity=4)
        self.fetched, self.k = set(), 0

    @rule(sns=st.lists(st.integers(0, 7), min_size=1, max_size=3))
    def arrive(self, sns):
        self.k += 1
        slots = self.view.sn_slots(sns)
        self.window.insert(np.full(len(sns), self.k), slots)
        self.view.graph.apply(self.window.advance(self.k))

    @rule()
    def fetch_all_misses(self):
        for sn in list(self.view.misses):
            slots = self.view.complete(sn, TRUTH[sn], edges=False)
            self.view.store(slots, TRUTH[sn], self.k)
            self.fetched.add(sn)

    @rule()
    def evict(self):
        self.view.evict()
        self.fetched &= set(self.view.sns.numbers)

    @invariant()
    def edges_are_right(self):
        graph, srs, kinds = self.view.graph, self.view.srs, self.view.kinds
        for sn, slot in self.view.sns.numbers.items():
            found = {(kinds[sr], srs.keys[sr]) for sr in graph.by_sn.of(slot).tolist()}
            known = {(Kind.COPY, key) for key in TRUTH[sn]}
            assert found == (known if sn in self.fetched else {(Kind.MISS, sn)})
        assert graph.edges == sum(len(graph.by_sn.of(slot)) for slot in self.view.sns.numbers.values())

    @invariant()
    def copies_are_of_fetched_srs_only(self):
        view = self.view
        assert all(view.last_refresh[slot] == NEVER and view.kinds[slot] == Kind.MISS for slot in view.misses.values())
        assert all(view.values[slot] == key and not view.kinds[slot] for key, slot in view.srs.numbers.items())
        assert (view.last_refresh[list(view.srs.numbers.values())] != NEVER).all()
        assert len(view.srs) == len(view.misses) + len(view.srs.numbers)

    @invariant()
    def demand_follows(self):
        adjacency = self.view.graph.snapshot().matrix.toarray() if self.view.graph.sns else np.zeros((0, 0))
        profile = self.window.profile(self.view.graph.sns, 3)
        assert self.view.graph.demand(3).tolist() == (adjacency.T @ profile).tolist()


ViewMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
test_any_history = ViewMachine.TestCase
