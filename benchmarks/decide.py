"""What CPU time a decision takes: from scratch and step by step, in units of scipy's CSR·vector on the same graph.

Asked for: from scratch sbm ≤ 2 units and ibm ≤ 4; plan where staleness is not known ≤ 12, three windows ahead; a step
with a quarter of the window new ≤ 1.5 and with 1 % new ≤ 0.3; growth from 1 M to 10 M edges ≤ 12-fold; networkx ≥ 100
times slower; a whole evaluation at 002's size ≤ 0.5 ms; peak memory at 10 M edges ≤ 1 GB.
"""

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import networkx as nx
import numpy as np
from stopwatch import ratios, show
from stopwatch import seconds as measured

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.policies.base import Budget, Knowledge, Round
from freshkeeper.policies.ibm import Ibm
from freshkeeper.policies.plan import Plan
from freshkeeper.policies.sbm import Sbm
from freshkeeper.simulator.experiment.experiment_config import resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.workload import generate

NODES, MAPPINGS, HORIZON, GAMMA = 100_000, 100_000, 4, 1_000
SPEC = WindowSpec(range=HORIZON, step=1)
seconds = partial(measured, clock=time.process_time)
"""Of this process: what others do on a busy machine is no part of a decision."""


@njit(cache=True, nogil=True)
def gather_one(start: Ints, stop: Ints, neighbours: Ids, count: Floats, demand: Floats) -> None:
    """w = Aᵀ·c for a single column: SR j sums the counts of the SNs that need it."""
    for j in range(start.size):
        w = 0.0
        for p in range(start[j], stop[j]):
            w += count[neighbours[p]]
        demand[j, 0] = w


@njit(cache=True, nogil=True)
def gather(start: Ints, stop: Ints, neighbours: Ids, profile: Floats, demand: Floats) -> None:
    """The same for four columns at once."""
    for j in range(start.size):
        w0 = w1 = w2 = w3 = 0.0
        for p in range(start[j], stop[j]):
            i = neighbours[p]
            w0 += profile[i, 0]
            w1 += profile[i, 1]
            w2 += profile[i, 2]
            w3 += profile[i, 3]
        demand[j, 0] = w0
        demand[j, 1] = w1
        demand[j, 2] = w2
        demand[j, 3] = w3


def product(start: Ints, stop: Ints, neighbours: Ids, profile: Floats) -> Floats:
    """W = Aᵀ·C from scratch, four columns at a time: scipy takes 9 times as long for them as for one, this 2."""
    horizon = profile.shape[1]
    if horizon == 1:
        demand = np.empty((start.size, 1))
        gather_one(start, stop, neighbours, np.ascontiguousarray(profile[:, 0]), demand)
        return demand
    blocks = []
    for m in range(0, horizon, 4):
        four = np.ascontiguousarray(profile[:, m : m + 4])
        if four.shape[1] < 4:
            four = np.hstack([four, np.zeros((four.shape[0], 4 - four.shape[1]))])
        block = np.empty((4, start.size))
        gather(start, stop, neighbours, four, block.T)
        blocks.append(block)
    return (np.vstack(blocks) if len(blocks) > 1 else blocks[0])[:horizon].T


class Scene:
    """A loaded graph with a full window, ready for the next step."""

    def __init__(self, edges: int) -> None:
        """A window's worth of arrivals."""
        self.rng = np.random.default_rng(1)
        self.window = Window(SPEC, ring=HORIZON)
        self.graph = MaintenanceGraph(self.window)
        sn, sr = (self.rng.integers(0, NODES, edges, dtype=np.int32) for _ in range(2))
        self.graph.lay(sn, sr, NODES, NODES)
        for k in range(1, HORIZON + 1):
            self.arrive(k, MAPPINGS // HORIZON)
            self.graph.apply(self.window.advance(k))

    def arrive(self, k: int, count: int) -> None:
        """Mappings of random SNs at evaluation k."""
        self.window.insert(np.full(count, k), self.rng.integers(0, NODES, count))

    def round(self) -> Round:
        """A round in which half of the copies are stale, each with a life of its own."""
        life = self.rng.integers(1, HORIZON + 1, NODES)[:, None]
        refreshed = (np.arange(HORIZON) < life).astype(np.float64, order="F")
        stale = self.rng.random(NODES)[:, None] < 0.5
        return Round(
            demand=self.graph.demand(HORIZON),
            fresh_if_refreshed=refreshed,
            fresh_if_kept=np.asfortranarray(np.where(stale, 0.0, refreshed)),
            cost=np.ones(NODES),
            last_refresh=np.zeros(NODES, np.int64),
            build=lambda: self.graph.structure(HORIZON, None),
            foresee=lambda: np.zeros((NODES, HORIZON)),
        )

    def uncertain_round(self) -> Round:
        """The same where nothing is known but rates: Poisson changes, ages of copies, arrivals, three windows ahead."""
        ahead = np.arange(3 * HORIZON)
        rates = 1.0 / np.exp(self.rng.uniform(0.0, np.log(60.0), NODES))
        refreshed = np.asfortranarray(np.exp(np.multiply.outer(-rates, ahead)))
        survived = np.exp(-rates * self.rng.exponential(20.0, NODES))[:, None]
        demand = self.graph.demand(3 * HORIZON)
        return Round(
            demand=demand,
            fresh_if_refreshed=refreshed,
            fresh_if_kept=np.asfortranarray(survived * refreshed),
            cost=np.ones(NODES),
            last_refresh=np.zeros(NODES, np.int64),
            build=lambda: self.graph.structure(3 * HORIZON, None),
            foresee=lambda: np.zeros((NODES, 3 * HORIZON)),
            expected_arrivals=demand[:, 0] / HORIZON,
            knowledge=Knowledge.LEARNED,
            span=HORIZON,
        )

    def step(self, share: float) -> tuple[float, float]:
        """Seconds of one step in which `share` of the window is new, and how many mappings that were."""
        count = int(MAPPINGS * share)

        def arrivals() -> None:
            self.new = self.rng.integers(0, NODES, count)

        def run() -> None:
            k = (self.window.k or 0) + 1
            self.window.insert(np.full(count, k), self.new)
            self.graph.apply(self.window.advance(k))
            self.graph.demand(HORIZON)

        return seconds(run, before=arrivals), count


def measure(edges: int) -> dict[str, float]:
    """All times on one graph, in seconds."""
    scene = Scene(edges)
    round = scene.round()
    adjacency, profile = round.graph.transposed, round.profile
    count = profile[:, 0].copy()
    rng, budget, needed = np.random.default_rng(2), Budget(GAMMA, GAMMA), scene.graph.by_sr
    whole = product(needed.start, needed.stop, needed.neighbours, profile)
    assert np.array_equal(whole, scene.graph.demand(HORIZON))

    def scratch(policy: Sbm | Ibm, columns: int) -> None:
        demand = product(needed.start, needed.stop, needed.neighbours, profile[:, :columns])
        policy.select(replace(round, demand=demand), budget, rng)

    unsure = scene.uncertain_round()
    return {
        "unit": seconds(lambda: adjacency @ count, 25),
        "sbm": seconds(lambda: scratch(Sbm(), 1)),
        "ibm": seconds(lambda: scratch(Ibm(), HORIZON)),
        "plan": seconds(lambda: Plan().select(replace(unsure), budget, rng)),
        "quarter": scene.step(0.25)[0],
        "hundredth": scene.step(0.01)[0],
        "kept_sbm": seconds(lambda: Sbm().select(replace(round), budget, rng)),
    }


def plain_networkx(edges: int) -> float:
    """The same sbm decision written with networkx, on a graph that is there already."""
    rng = np.random.default_rng(1)
    graph: nx.Graph[tuple[str, int]] = nx.Graph()
    sn, sr = (rng.integers(0, NODES, edges) for _ in range(2))
    graph.add_edges_from(zip((("sn", n) for n in sn.tolist()), (("sr", n) for n in sr.tolist()), strict=True))
    count = {("sn", n): 0 for n in range(NODES)}
    for n in rng.integers(0, NODES, MAPPINGS).tolist():
        count["sn", n] += 1
    srs = [node for node in graph if node[0] == "sr"]

    def decide() -> list[tuple[str, int]]:
        score = {sr: sum(count[sn] for sn in graph[sr]) for sr in srs}
        return sorted(srs, key=score.__getitem__, reverse=True)[:GAMMA]

    return seconds(decide, 2)


def peak_memory(edges: int) -> float:
    """The peak resident memory, in MB, of a process of its own that loads the graph, steps and decides."""
    command = [sys.executable, __file__, "--peak", str(edges)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peak", type=int, help="only load, step and decide on so many edges, and print the peak in MB"
    )
    asked = parser.parse_args()
    if asked.peak:
        scene = Scene(asked.peak)
        scene.step(0.25)
        Ibm().select(scene.round(), Budget(GAMMA, GAMMA), np.random.default_rng(2))
        Plan().select(scene.uncertain_round(), Budget(GAMMA, GAMMA), np.random.default_rng(2))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    report()


def evaluation_at_paper_size() -> float:
    """Seconds of one whole evaluation, decision and bookkeeping, with 002's default workload and ibm."""
    experiment = resolve({"policies": "ibm", "evaluations": 400, "bound": "never"})
    workload = experiment.workload.model_copy(update={"duration_ms": 400_000})
    task = Task(settings_of(experiment)[0], 0, generate(workload, 0), 400)
    return seconds(lambda: task.run(experiment.policies[0]), 3) / 400


def report() -> None:
    """Both sizes, the comparison with networkx, the memory, and one evaluation at the paper's size."""
    small, large = measure(1_000_000), measure(10_000_000)
    library = plain_networkx(1_000_000)
    memory = peak_memory(10_000_000)
    names = {
        "unit": "scipy CSR·vector, the unit",
        "sbm": "sbm from scratch",
        "ibm": "ibm from scratch",
        "plan": "plan, staleness not known",
        "quarter": "step, a quarter of the window new",
        "hundredth": "step, 1 % of the window new",
        "kept_sbm": "sbm on a demand that was kept",
    }
    rows = [
        [text, *(cell for size in (small, large) for cell in (f"{size[n] * 1e3:.2f}", f"{size[n] / size['unit']:.2f}"))]
        for n, text in names.items()
    ]
    rows.append(["sbm with networkx", f"{library * 1e3:.0f}", f"{library / small['unit']:.0f}", "", ""])
    rows.append(["peak memory, MB", "", "", f"{memory:.0f}", ""])
    whole = evaluation_at_paper_size()
    rows.append(["one whole evaluation at 002's size", f"{whole * 1e3:.3f}", "", "", ""])
    show("One decision, 100,000 SN × 100,000 SR, γ = 1,000", ["", "1 M: ms", "units", "10 M: ms", "units"], rows)
    ratios(
        {f"{name}_units_1m": small[name] / small["unit"] for name in names if name != "unit"}
        | {f"{name}_units_10m": large[name] / large["unit"] for name in names if name != "unit"}
        | {"growth_sbm": large["sbm"] / small["sbm"], "growth_ibm": large["ibm"] / small["ibm"]}
        | {"networkx_over_sbm": library / small["sbm"], "peak_mb_10m": memory}
        | {"evaluation_over_half_a_millisecond": whole / 0.5e-3}
    )


if __name__ == "__main__":
    main()
