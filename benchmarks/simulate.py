"""How fast experiments run: at 002's size, on a recorded trace, and with ten million arrivals.

Asked for: one policy and one seed of the paper's defaults in ≤ 60 ms; a year of julia-2023 in ≤ 2 s per policy; ten
million arrivals over 100,000 entities in ≤ 4 GB. Events per second stand beside those of a bare simpy loop, and a
recorded trace beside a plain script of dictionaries and loops, measured in the same run.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import simpy
from stopwatch import ratios, seconds, show

from freshkeeper.simulator.experiment.experiment_config import resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.trace import Trace, read_trace
from freshkeeper.simulator.trace.workload import generate

DATA = Path(os.environ.get("FRESHKEEPER_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
WEEK, QUARTER, BUDGET = 7 * 86_400_000, 6 * 3_600_000, 5


def task_of(changes: dict[str, object], evaluations: int) -> Task:
    """A task of the defaults with some keys changed, its trace drawn."""
    experiment = resolve({"bound": "never", "evaluations": evaluations, **changes})
    workload = experiment.workload.model_copy(update={"duration_ms": evaluations * experiment.step})
    return Task(settings_of(experiment)[0], 0, generate(workload, 0), evaluations)


def timed(task: Task, policy: int = 0, repeats: int = 1) -> float:
    """Seconds of one run of one of the task's policies."""
    return seconds(lambda: task.run(task.setting.experiment.policies[policy]), repeats)


def bare_simpy(events: int = 200_000) -> float:
    """Events per second of a simpy process that does nothing."""
    environment = simpy.Environment()

    def ticks() -> Generator[simpy.Event, None, None]:
        for _ in range(events):
            yield environment.timeout(1)

    environment.process(ticks())
    began = time.perf_counter()
    environment.run()
    return events / (time.perf_counter() - began)


def plain_script(trace: Trace, evaluations: int) -> float:
    """Seconds of lru over the trace with dictionaries and loops, staleness by version, as one would write it once."""
    inputs = defaultdict(list)
    for sn, sr in zip(trace.edges.sn.tolist(), trace.edges.sr.tolist(), strict=True):
        inputs[sn].append(sr)
    arrivals = list(zip(trace.arrivals.t_ms.tolist(), trace.arrivals.sn.tolist(), strict=True))
    changes = list(zip(trace.changes.t_ms.tolist(), trace.changes.sr.tolist(), strict=True))
    began = time.perf_counter()
    refreshed: dict[int, int] = defaultdict(lambda: trace.t0)
    changed: dict[int, int] = {}
    a = c = oldest = 0
    for k in range(1, evaluations + 1):
        now = trace.t0 + k * QUARTER
        while a < len(arrivals) and arrivals[a][0] <= now:
            a += 1
        while c < len(changes) and changes[c][0] <= now:
            changed[changes[c][1]] = changes[c][0]
            c += 1
        while arrivals[oldest][0] <= now - WEEK:
            oldest += 1
        demand: dict[int, int] = defaultdict(int)
        for _, sn in arrivals[oldest:a]:
            for sr in inputs[sn]:
                demand[sr] += 1
        stale = [sr for sr in demand if changed.get(sr, -1) > refreshed[sr]]
        for sr in sorted(stale, key=refreshed.__getitem__)[:BUDGET]:
            refreshed[sr] = now
    return time.perf_counter() - began


def recorded() -> tuple[list[list[str]], dict[str, float]]:
    """The recorded trace, policy by policy, beside the plain script."""
    place = DATA / "julia-2023"
    if not place.exists():
        return [["julia-2023", f"skipped: no {place.name} beside the project", ""]], {}
    trace = read_trace(place)
    evaluations = int(trace.arrivals.t_ms[-1] - trace.t0) // QUARTER
    names = ["lru", "ibm", "gain", "plan"]
    options = {"trace": str(place), "window": WEEK, "step": QUARTER, "budget": BUDGET, "policies": ",".join(names)}
    task = Task(settings_of(resolve({**options, "bound": "never"}))[0], 0, trace, evaluations)
    plain = plain_script(trace, evaluations)
    taken = {name: timed(task, n) for n, name in enumerate(names)}
    rows = [[f"julia-2023, {name}", f"{t:.2f} s", f"{t / plain:.2f} of the plain script"] for name, t in taken.items()]
    rows.append(["julia-2023, plain script of lru", f"{plain:.2f} s", ""])
    named = {f"julia_{name}_over_two_seconds": t / 2 for name, t in taken.items()}
    return rows, named | {"julia_lru_over_plain_script": taken["lru"] / plain}


def ten_million() -> tuple[float, float, int]:
    """Seconds, peak MB and arrivals of the large run, in a process of its own."""
    command = [sys.executable, __file__, "--large"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(told[0]), float(told[1]), int(told[2])


def large() -> None:
    """Ten million arrivals over 100,000 SNs and as many SRs, 150 evaluations, γ = 1,000, ibm."""
    workload = {"sns": 100_000, "srs": 100_000, "edges": 1_000_000, "change_interval_ms": [1000, 30_000]}
    began = time.perf_counter()
    task = task_of({"workload": workload, "policies": "ibm", "budget": 1000}, 150)
    task.run(task.setting.experiment.policies[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - began, peak, len(task.trace.arrivals))


def report() -> None:
    """All of it, as a table and a line of ratios."""
    small = task_of({"policies": "ibm"}, 50)
    paper = timed(small, repeats=5)
    long = task_of({"policies": "ibm"}, 2000)
    events = long.run(long.setting.experiment.policies[0]).events / timed(long)
    bare = bare_simpy()
    taken, peak, arrivals = ten_million()
    rows, named = recorded()
    show(
        "Simulation",
        ["", "measured", "beside"],
        [
            ["one policy, one seed, 002's defaults", f"{paper * 1e3:.1f} ms", "60 ms asked"],
            ["events per second, 2,000 evaluations", f"{events:,.0f}", f"{bare:,.0f} of a bare simpy loop"],
            *rows,
            [f"{arrivals:,} arrivals, drawn and run", f"{taken:.1f} s, {peak:.0f} MB", "4,096 MB asked"],
        ],
    )
    ratios(
        {"paper_run_over_60ms": paper / 0.06, "events_over_bare_simpy": events / bare, **named}
        | {"ten_million_seconds": taken, "ten_million_over_4gb": peak / 4096}
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="only the large run: seconds, peak MB and arrivals")
    large() if parser.parse_args().large else report()
