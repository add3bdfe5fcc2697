"""The benchmarks behind `compare-speed`, run in the checkout that PYTHONPATH names.

`python speed.py CHECKOUT BENCHMARK` prepares a benchmark, prints a line, and then measures once for every line that it
reads: CPU seconds of this process, so that other work on the machine counts as little as possible. What is no public
name of `freshkeeper` is taken from the checkout's own benchmarks/*.py, which name modules as they are there.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

Sample = Callable[[], float]
"""Measures once and returns seconds."""

GAMMA = 1_000
"""The budget of a decision, as in benchmarks/decide.py."""


class Benchmark(NamedTuple):
    """What is measured, and how it is prepared."""

    title: str
    prepare: Callable[[], Sample]


def best(
    run: Callable[[], object],
    repeats: int = 9,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """Return the least time of some runs, warmed up once: whatever disturbs a run makes it slower, never quicker."""
    times = []
    for _ in range(repeats + 1):
        before()
        began = clock()
        run()
        times.append(clock() - began)
    return min(times[1:])


def sampled(run: Callable[[], object], repeats: int = 9) -> Sample:
    """Return a sample of one function."""
    return lambda: best(run, repeats)


# ---------------------------------------------------------------------------------------------- simulations


def _simulate() -> Any:
    return import_module("simulate")  # benchmarks/simulate.py


def _simulated(changes: dict[str, object], evaluations: int) -> Callable[[], object]:
    """Return one run of an experiment whose trace is drawn."""
    task = _simulate().task_of(changes, evaluations)
    policy = task.setting.experiment.policies[0]
    return lambda: task.run(policy)


def arrivals(entities: int) -> Sample:
    """Draw and simulate a hundred arrivals for each entity: 150 evaluations, ibm."""
    workload = {"sns": entities, "srs": entities, "edges": 10 * entities, "change_interval_ms": [1000, 30_000]}
    changes = {"workload": workload, "policies": "ibm", "budget": entities // 100}
    _simulated({"policies": "ibm"}, 5)()  # compiles

    def sample() -> float:
        gc.collect()
        began = time.process_time()
        _simulated(changes, 150)()
        return time.process_time() - began

    return sample


def evaluation() -> Sample:
    """Evaluate once, decision and bookkeeping, with the paper's workload."""
    run = _simulated({"policies": "ibm"}, 400)
    return lambda: best(run, 3) / 400


def learned(policy: str) -> Sample:
    """Run where changes are learned, all kernels compiled."""
    return sampled(_simulated({"policies": policy, "knowledge": "learned"}, 100), 3)


# ---------------------------------------------------------------------------------------------- decisions


class Decisions:
    """The scene of benchmarks/decide.py: 100,000 keys, as many entries and a million edges."""

    def __init__(self) -> None:
        import numpy as np

        from freshkeeper import Budget

        self.module: Any = import_module("decide")
        vars(self.module)["seconds"] = best  # in place of its own timer, which took wall time in early versions
        self.scene = self.module.Scene(1_000_000)
        self.rng = np.random.default_rng(2)
        self.budget = Budget(GAMMA, GAMMA)

    def select(self, name: str, prepared: Any) -> Sample:
        """Choose on a demand that is there; a round that was used once is not used again."""
        from freshkeeper import policy

        chooser = policy(name)
        return sampled(lambda: chooser.select(replace(prepared), self.budget, self.rng))

    def select_from_scratch(self, name: str, columns: int) -> Sample:
        """Compute the demand first, with the kernel of the newer benchmarks/decide.py or the graph's own."""
        from freshkeeper import policy

        chooser, prepared, graph = policy(name), self.scene.round(), self.scene.graph
        profile = prepared.profile[:, :columns]

        def demand() -> Any:
            if hasattr(graph, "demand_from_scratch"):
                return graph.demand_from_scratch(profile)
            edges = graph.by_sr
            return self.module.product(edges.start, edges.stop, edges.neighbours, profile)

        return sampled(lambda: chooser.select(replace(prepared, demand=demand()), self.budget, self.rng))

    def product(self) -> Sample:
        """Multiply with scipy: no code of this project, so its ratio says how far ratios of this machine are off."""
        prepared = self.scene.round()
        adjacency, count = prepared.graph.transposed, prepared.profile[:, 0].copy()
        return sampled(lambda: adjacency @ count, 25)


def _kept(name: str) -> Callable[[], Sample]:
    def prepare() -> Sample:
        decisions = Decisions()
        return decisions.select(name, decisions.scene.round())

    return prepare


def _unsure() -> Sample:
    decisions = Decisions()
    return decisions.select("plan", decisions.scene.uncertain_round())


def _scratch(name: str, columns: int) -> Callable[[], Sample]:
    return lambda: Decisions().select_from_scratch(name, columns)


def _step(share: float) -> Callable[[], Sample]:
    def prepare() -> Sample:
        scene = Decisions().scene
        return lambda: float(scene.step(share)[0])

    return prepare


def managed() -> Sample:
    """Evaluate with a Manager over a source in this process, knowing nothing but what refreshes reveal."""
    from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy

    keys = [f"key{n}" for n in range(1_000)]
    entries = {f"entry{n}": 0 for n in range(2_000)}
    edges = {key: [f"entry{(n * 7 + m * 311) % 2_000}" for m in range(5)] for n, key in enumerate(keys)}
    rule, window = BudgetRule.of(20), WindowSpec(range=4000, step=1000)
    manager = Manager(window, InMemory(edges, entries), policy("gain"), rule, Learned())
    now = 0

    def run() -> None:
        nonlocal now
        for _ in range(20):
            now += 1000
            manager.evaluate(now, [(now, keys[(now // 7 + n * 13) % 1_000]) for n in range(300)])

    return lambda: best(run, 5) / 20


# ---------------------------------------------------------------------------------------------- streams


def hit() -> Sample:
    """Get rows that are there, in the caller's thread."""
    from freshkeeper import Enricher

    keys = [f"key{n}" for n in range(2_000)]
    enricher = Enricher(lambda wanted: {key: {"id": key} for key in wanted}, budget="100000/s", batch=1000)
    enricher.get_many(keys)
    wanted = [keys[n * n % 2_000] for n in range(100_000)]

    def run() -> None:
        get = enricher.get
        for key in wanted:
            get(key)

    return lambda: best(run, 5, clock=time.thread_time) / len(wanted)


def joined() -> Sample:
    """Join two patterns, from a file of lines to a file of answers: benchmarks/queries.py."""
    queries: Any = import_module("queries")
    place = Path(tempfile.mkdtemp())
    (place / "stream.nq").write_bytes(queries.lines(0, 25_000, 2.0))
    return sampled(lambda: queries.engine(place / "stream.nq", place / "out"), 2)


JOIN = """PREFIX : <http://e/> SELECT ?o ?s ?v FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE { WINDOW :w { ?o :by ?s . ?o :value ?v } }"""
SERVICE = """PREFIX : <http://e/> SELECT ?o ?s ?n FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE { WINDOW :w { ?o :by ?s } SERVICE :source { ?s :count ?n } }"""


def engine() -> Sample:
    """Run a query over elements that are terms already, from Python."""
    from freshkeeper import continuous_query, run

    elements = _elements(10_000)
    return sampled(lambda: list(run(continuous_query(JOIN), {"http://e/s": elements})), 2)


def service() -> Sample:
    """Join elements with a source through a view, from Python."""
    from freshkeeper import Source, continuous_query, run

    data = "\n".join(f"<http://e/sensor{n}> <http://e/count> {n} ." for n in range(1_000))
    elements = [element for n, element in enumerate(_elements(10_000)) if n % 2 == 0]

    def once() -> None:
        source = Source.embedded(data, volatile=["http://e/count"])
        for result in run(continuous_query(SERVICE, {"http://e/source": source}, budget=20), {"http://e/s": elements}):
            len(result.answers)

    return sampled(once, 2)


def _elements(count: int) -> list[tuple[int, Any]]:
    from pyoxigraph import Literal, NamedNode, Triple

    by, value = NamedNode("http://e/by"), NamedNode("http://e/value")
    elements = []
    for n in range(count):
        observation = NamedNode(f"http://e/obs{n}")
        elements.append((2 * n, Triple(observation, by, NamedNode(f"http://e/sensor{n * n % 1_000}"))))
        elements.append((2 * n, Triple(observation, value, Literal(n % 100))))
    return elements


# ---------------------------------------------------------------------------------------------- commands


def _commanded(prepared: list[str], command: list[str]) -> Sample:
    """Measure a command in this process, after another one that prepares for it; it must work once to be measured."""
    from figures import freshkeeper

    os.chdir(tempfile.mkdtemp())

    def run(words: list[str]) -> None:
        done = freshkeeper(*words)
        if done.code:
            raise RuntimeError(done.err.strip()[-300:])

    run(prepared)
    run(command)
    return sampled(lambda: run(command), 1)


def budget() -> Sample:
    """Ask what budget a drawn trace needs."""
    drawn = ["sns=30", "srs=40", "edges=60", "change_law=poisson", "duration_ms=30000"]
    settings = [word for key in drawn for word in ("--set", key)]
    question = ["--window", "2s", "--step", "500ms", "--policy", "gain", "--jobs", "1", "--json"]
    return _commanded(["trace", "generate", "trace", *settings], ["budget", "trace", *question])


def analysis() -> Sample:
    """Analyse a simulation with answers."""
    small = ["--set", "workload.edges=500", "--evaluations", "150", "--policy", "lru,gain", "--seeds", "2"]
    prepared = ["simulate", *small, "--set", "bound=never", "--answers", "--no-report", "--jobs", "1", "--out", "run"]
    return _commanded(prepared, ["analyse", "run", "--engine", "duckdb", "--json"])


def start() -> Sample:
    """Start the command and end it."""

    def run() -> None:
        subprocess.run([sys.executable, "-P", "-m", "freshkeeper", "--version"], check=True, stdout=subprocess.DEVNULL)

    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    return lambda: best(run, 3, clock=children)


BENCHMARKS = {
    "product": Benchmark("scipy CSR·vector (the same code in both)", lambda: Decisions().product()),
    "arrivals-1M": Benchmark("simulate 1 M arrivals", lambda: arrivals(10_000)),
    "arrivals-10M": Benchmark("simulate 10 M arrivals", lambda: arrivals(100_000)),
    "run": Benchmark("one simulated run", lambda: sampled(_simulated({"policies": "ibm"}, 50), 5)),
    "run-gain": Benchmark("one simulated run, learned, gain", lambda: learned("gain")),
    "run-plan": Benchmark("one simulated run, learned, plan", lambda: learned("plan")),
    "evaluation": Benchmark("an evaluation of the paper's size", evaluation),
    "sbm-kept": Benchmark("sbm on a kept demand", _kept("sbm")),
    "ibm-kept": Benchmark("ibm on a kept demand", _kept("ibm")),
    "plan-kept": Benchmark("plan on a kept demand", _kept("plan")),
    "plan-unsure": Benchmark("plan, staleness not known", _unsure),
    "sbm-scratch": Benchmark("sbm from scratch", _scratch("sbm", 1)),
    "ibm-scratch": Benchmark("ibm from scratch", _scratch("ibm", 4)),
    "quarter": Benchmark("a quarter of the window new", _step(0.25)),
    "hundredth": Benchmark("1 % of the window new", _step(0.01)),
    "manager": Benchmark("an evaluation of a Manager, learned", managed),
    "hit": Benchmark("an Enricher hit", hit),
    "join": Benchmark("a native join, from lines to answers", joined),
    "engine": Benchmark("a native join, from Python", engine),
    "service": Benchmark("a SERVICE join, from Python", service),
    "budget": Benchmark("a budget question", budget),
    "analyse": Benchmark("an analysis", analysis),
    "start": Benchmark("the command's start", start),
}


def main() -> None:
    """Prepare a benchmark and measure it as often as asked; what cannot be prepared is told as a reason."""
    checkout, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    package = Path(str(import_module("freshkeeper").__file__)).resolve()
    if not package.is_relative_to(checkout):
        sys.exit(f"freshkeeper comes from {package.parent}, not from {checkout}: set PYTHONPATH to the checkout")
    sys.path.append(str(checkout / "benchmarks"))
    try:
        sample = BENCHMARKS[name].prepare()
    except Exception as error:
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"}), flush=True)
        return
    print(json.dumps({"ready": name}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seconds": sample()}), flush=True)


if __name__ == "__main__":
    main()
