"""What a budget buys beside a TTL cache that makes as many requests, and how long `freshkeeper budget` takes.

Percentage points of answers that `plan` keeps fresh above the TTL cache, paired, with 95 % intervals: three drawn
traces (over six seeds), and a year of releases of Julia's packages (`--julia DIRECTORY`, over stretches of it), whose
cache starts warm or cold. `--arrivals 50000` answers the question of 95 % for a drawn trace of so many arrivals:
processor seconds of all processes, and of how many tries.
"""

import argparse
import resource
from pathlib import Path
from typing import Any

from stopwatch import show

from freshkeeper.simulator.budget.answer import TOLERATED_EXTRA_REQUESTS, answer
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.run_without_journal import run_without_journal
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.point import MeasuredPoint, Point
from freshkeeper.simulator.experiment.run_parts import task_of
from freshkeeper.simulator.experiment.ttl_caches import Caches, Reads

PACE = {"change_interval_ms": [3000, 120_000], "arrival_interval_ms": [2000, 15_000]}
POISSON = {**PACE, "change_law": "poisson"}
DRAWN: dict[str, dict[str, Any]] = {
    "as many edges as keys have use for": {**POISSON, "sns": 60, "srs": 60, "edges": 180},
    "some entries needed by many": {**POISSON, "sns": 40, "srs": 80, "edges": 240, "degree_skew": 0.7},
    "changes by a clock": {**PACE, "sns": 50, "srs": 50, "edges": 150},
}
BUDGET = 5


def ahead(name: str, **keys: Any) -> list[str]:
    """One row: both freshnesses and the difference."""
    chosen = resolve({"policies": "plan", "knowledge": "learned", "budget": BUDGET, "bound": "never", **keys})
    tasks = [task_of(chosen, 0, seed) for seed in chosen.seed_list]
    ours = MeasuredPoint(
        [run_without_journal(task, chosen.policies[0]) for task in tasks], tasks[0].warm_up, chosen.trace is None
    )
    theirs, _ = Caches([Reads.of(task) for task in tasks], tasks[0].warm_up, chosen.trace is None).spending(
        ours.requests
    )
    found = ours.ahead(theirs)
    as_many = f"{ours.requests:.2f}, TTL {theirs.requests:.2f}"
    shares = [f"{100 * each.share:.1f} %" for each in (ours, theirs)]
    if theirs.requests > ours.requests * (1 + TOLERATED_EXTRA_REQUESTS):
        return [name, as_many, *shares, "no TTL cache makes so few"]
    return [name, as_many, *shares, f"{100 * found.mean:+.1f} ± {100 * found.half:.1f}"]


def comparisons(julia: Path | None) -> None:
    """A table of all traces."""
    rows = [ahead(name, workload=drawn, evaluations=120, seeds=6) for name, drawn in DRAWN.items()]
    for start in ("warm", "cold") if julia else ():
        rows.append(ahead(f"julia-2023, {start}", trace=str(julia), window="7d", step="6h", seeds=1, start=start))
    show(f"plan with γ = {BUDGET} and a TTL cache", ["trace", "requests", "plan", "TTL", "points"], rows)


def question_of(arrivals: int) -> Question:
    """What 95 % needs, for 400 keys and 500 entries, of the policies that are asked unless others are named."""
    drawn = {"sns": 400, "srs": 500, "edges": 1000, "change_law": "poisson", "change_interval_ms": [20_000, 900_000],
             "arrival_interval_ms": [2000, 10_000], "duration_ms": arrivals * 12}  # fmt: skip
    world = {"window": 2000, "step": 500, "knowledge": "learned", "start": "cold", "policies": "lru,gain,plan"}
    experiment = resolve({"workload": drawn, **world, "evaluations": arrivals * 12 // 500 - 1, "seeds": 1})
    return Question(experiment, 0.95)


def asked(arrivals: int) -> None:
    """Processor seconds of one answer."""
    tries: list[Point] = []
    found = answer(question_of(arrivals), 2, tries.append)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = sum(each.ru_utime + each.ru_stime for each in (own, children))
    rows = [[f"{found.arrivals:,}", str(len(tries)), f"{seconds:.0f} s", f"{seconds / 2:.0f} s"]]
    show("One answer of freshkeeper budget", ["arrivals", "tries", "processor time", "on each of two cores"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--julia", type=Path, help="the directory of the trace")
    parser.add_argument("--arrivals", type=int, default=10_000, help="of the trace that is asked about; 0: none")
    given = parser.parse_args()
    if given.arrivals:
        asked(given.arrivals)
    comparisons(given.julia)
