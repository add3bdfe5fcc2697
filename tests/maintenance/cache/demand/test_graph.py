"""The maintenance graph: what is kept up to date equals what is built from scratch."""

import numpy as np
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import DataObject

from freshkeeper.maintenance.cache.demand.adjacency import Rows
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec

SNS, SRS = 5, 6


class GraphMachine(RuleBasedStateMachine):
    """object sequence of arrivals, evaluations, added and removed edges, and a reload."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = WindowSpec(range=7, step=2)
        self.window = Window(self.spec, ring=3)
        self.graph = MaintenanceGraph(self.window)
        self.graph.extend(SNS, SRS)
        self.k = 0
        self.edges: set[tuple[int, int]] = set()
        self.arrived: list[object] = []

    @rule(sn=st.integers(0, SNS - 1), sr=st.integers(0, SRS - 1))
    def add(self, sn: int, sr: int) -> None:
        assert self.graph.add_edge(sn, sr) == ((sn, sr) not in self.edges)
        self.edges.add((sn, sr))

    @precondition(lambda self: self.edges)
    @rule(data=st.data())
    def remove(self, data: DataObject) -> None:
        edge = data.draw(st.sampled_from(sorted(self.edges)))
        self.graph.remove_edge(*edge)
        self.edges.remove(edge)

    @rule(sns=st.lists(st.integers(0, SNS - 1), max_size=6), back=st.integers(0, 3), named=st.booleans())
    def arrive(self, sns: list[int], back: int, named: bool) -> None:
        at = np.full(len(sns), self.spec.instant(self.k + 1) - back)
        self.window.insert(at, np.array(sns, dtype=np.int64), [("n", sn) for sn in sns] if named else None)

    @rule(steps=st.integers(1, 5))
    def evaluate(self, steps: int) -> None:
        self.k += steps
        self.graph.apply(self.window.advance(self.k))

    @precondition(lambda self: self.edges)
    @rule()
    def reload(self) -> None:
        sn, sr = np.array(sorted(self.edges), dtype=np.int32).T
        self.graph.lay(sn, sr, SNS, SRS)

    @rule(step=st.integers(1, 3))
    def move(self, step: int) -> None:
        self.spec = WindowSpec(range=3 * step, step=step)
        self.k = int(self.spec.first(np.array([self.k * self.window.spec.step]))[0])
        moved = Window(self.spec, ring=3)
        moved.tallies.rates = self.window.tallies.rates.in_steps(self.window.spec.step / step)
        sns, _ = self.window.mappings_by_row()
        moved.insert(np.full(sns.size, self.spec.instant(self.k)), sns)
        moved.advance(self.k)
        self.window = moved
        self.graph.follow(moved)

    @rule()
    def look(self) -> None:
        snapshot = self.graph.snapshot()
        seen = {(sn, int(sr)) for sn in range(SNS) for sr in snapshot.inputs(sn)}
        assert seen == self.edges == {(int(sn), sr) for sr in range(SRS) for sn in snapshot.dependants(sr)}

    @invariant()
    def demand_is_adjacency_times_profile(self) -> None:
        adjacency = np.zeros((SNS, SRS))
        for sn, sr in self.edges:
            adjacency[sn, sr] = 1
        profile = self.window.profile(SNS, 4)
        assert self.graph.demand(4).tolist() == (adjacency.T @ profile).tolist()
        assert self.graph.edges == len(self.edges)
        assert self.graph.demand(1)[:, 0].tolist() == self.graph.demand(4)[:, 0].tolist()
        assert self.window.counts(SNS).tolist() == profile[:, 0].tolist()

    @invariant()
    def expected_arrivals_are_adjacency_times_rate(self) -> None:
        adjacency = self.graph.snapshot().matrix.toarray()
        expected = adjacency.T @ self.window.tallies.rates.per_evaluation(SNS)
        assert np.allclose(self.graph.arrivals(np.arange(SRS)), expected, atol=1e-9)

    @invariant()
    def a_round_of_some_srs_is_the_whole_one_without_the_others(self) -> None:
        srs = np.flatnonzero(self.graph.demand(1)[:, 0])
        sns = np.flatnonzero(self.window.counts(SNS))
        whole, part = self.graph.structure(3, None), self.graph.structure(3, srs)
        assert part.profile.tolist() == whole.profile[sns].tolist()
        assert part.graph.matrix.toarray().tolist() == whole.graph.matrix.toarray()[np.ix_(sns, srs)].tolist()
        assert self.graph.demand(3, srs).tolist() == self.graph.demand(3)[srs].tolist()


GraphMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25)
test_any_history = GraphMachine.TestCase


def test_a_snapshot_does_not_change_with_the_graph() -> None:
    graph = MaintenanceGraph(Window(WindowSpec(range=4, step=1), ring=4))
    graph.lay(np.array([0, 0, 1]), np.array([0, 1, 1]), 2, 3)
    before = graph.snapshot()
    graph.add_edge(1, 2)
    graph.remove_edge(0, 0)
    assert (before.inputs(0).tolist(), before.inputs(1).tolist()) == ([0, 1], [1])
    assert (graph.snapshot().inputs(0).tolist(), graph.snapshot().inputs(1).tolist()) == ([1], [1, 2])


def test_an_edge_named_twice_is_one_edge() -> None:
    graph = MaintenanceGraph(Window(WindowSpec(range=4, step=1), ring=4))
    graph.lay(np.array([0, 0]), np.array([1, 1]), 1, 2)
    assert graph.edges == 1


def test_rows_keep_their_memory_in_proportion_to_their_edges() -> None:
    rows = Rows()
    rows.extend(10)
    for _ in range(300):
        for row in range(10):
            for n in range(8):
                rows.append(row, n)
        for row in range(10):
            for n in range(8):
                rows.discard(row, n)
    assert rows.neighbours.size < 1000


def test_horizons_beyond_four_columns_come_out_right() -> None:
    window = Window(WindowSpec(range=11, step=1), ring=11)
    graph = MaintenanceGraph(window)
    graph.lay(np.array([0, 1, 1]), np.array([0, 0, 1]), 2, 2)
    window.insert(np.array([1, 4, 9]), np.array([0, 1, 1]))
    graph.apply(window.advance(9))
    assert graph.demand(11)[0].tolist() == [3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1]
