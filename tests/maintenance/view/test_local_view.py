"""The local view: misses come and go, slots are used again, and edges stay right through any history."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from freshkeeper.maintenance.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.demand.window import Window, WindowSpec
from freshkeeper.maintenance.view.local_view import Miss, View
from freshkeeper.maintenance.view.schedule import FixedSchedule
from freshkeeper.policies.base import NEVER

TRUTH = {sn: [f"r{(sn * 7 + n) % 9}" for n in range(sn % 4)] for sn in range(8)}


class ViewMachine(RuleBasedStateMachine):
    """SNs arrive, are fetched and are let go; the view's edges are always those of the truth, or one placeholder."""

    def __init__(self):
        super().__init__()
        self.window = Window(WindowSpec(range=3, step=1), ring=3)
        model = FixedSchedule(np.full(9, 100), np.zeros(9, int), {f"r{n}": n for n in range(9)})
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
        for key in [key for key in self.view.srs.numbers if isinstance(key, Miss)]:
            slots = self.view.complete(key.sn, TRUTH[key.sn])
            self.view.store(slots, TRUTH[key.sn], self.k)
            self.fetched.add(key.sn)

    @rule()
    def evict(self):
        self.view.evict()
        self.fetched &= set(self.view.sns.numbers)

    @invariant()
    def edges_are_right(self):
        graph, srs = self.view.graph, self.view.srs
        for sn, slot in self.view.sns.numbers.items():
            keys = {srs.keys[sr] for sr in graph.by_sn.of(slot).tolist()}
            assert keys == (set(TRUTH[sn]) if sn in self.fetched else {Miss(sn)})
        assert graph.edges == sum(len(graph.by_sn.of(slot)) for slot in self.view.sns.numbers.values())

    @invariant()
    def copies_are_of_fetched_srs_only(self):
        for key, slot in self.view.srs.numbers.items():
            assert (self.view.last_refresh[slot] == NEVER) == isinstance(key, Miss)
            assert isinstance(key, Miss) or self.view.values[slot] == key

    @invariant()
    def demand_follows(self):
        adjacency = self.view.graph.snapshot().matrix.toarray() if self.view.graph.sns else np.zeros((0, 0))
        profile = self.window.profile(self.view.graph.sns, 3)
        assert self.view.graph.demand(3).tolist() == (adjacency.T @ profile).tolist()


ViewMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
test_any_history = ViewMachine.TestCase
