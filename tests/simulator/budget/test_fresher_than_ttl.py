"""With as many requests `plan` keeps more fresh than a TTL cache: on three drawn traces, and on a year of real ones."""

import os
from pathlib import Path

import pytest

from freshkeeper.maintenance.base.stats import Estimate
from freshkeeper.simulator.budget.run_without_journal import run_without_journal
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.point import MeasuredPoint
from freshkeeper.simulator.experiment.run_parts import task_of
from freshkeeper.simulator.experiment.ttl_caches import Caches, Reads

PROJECT = Path(__file__).parents[3]
DATA = Path(os.environ.get("FRESHKEEPER_DATA", PROJECT.parent / "shared" / "data"))
DRAWN: dict[str, dict[str, object]] = {
    "as many edges as keys have use for": {"sns": 60, "srs": 60, "edges": 180, "change_law": "poisson"},
    "some entries needed by many": {"sns": 40, "srs": 80, "edges": 240, "change_law": "poisson", "degree_skew": 0.7,
                                    "change_degree_correlation": -0.3},
    "changes by a clock": {"sns": 50, "srs": 50, "edges": 150},
}  # fmt: skip


def ahead(budget: int, **keys: object) -> Estimate:
    """How much more plan keeps fresh than the TTL cache that makes as many requests."""
    chosen = resolve({"policies": "plan", "knowledge": "learned", "budget": budget, "bound": "never", **keys})
    tasks = [task_of(chosen, 0, seed) for seed in chosen.seed_list]
    ours = MeasuredPoint(
        [run_without_journal(task, chosen.policies[0]) for task in tasks], tasks[0].warm_up, chosen.trace is None
    )
    caches = Caches([Reads.of(task) for task in tasks], tasks[0].warm_up, chosen.trace is None)
    theirs, point = caches.spending(ours.requests)
    assert point.requests == pytest.approx(ours.requests, rel=0.03)
    return ours.ahead(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("drawn", DRAWN)
def test_on_drawn_traces(drawn: str) -> None:
    workload = {"change_interval_ms": [3000, 120_000], "arrival_interval_ms": [2000, 15_000], **DRAWN[drawn]}
    found = ahead(5, workload=workload, evaluations=120, seeds=6)
    assert found.low > 0, found


@pytest.mark.slow
def test_on_a_year_of_julia_packages() -> None:
    trace = DATA / "julia-2023"
    if not trace.is_dir():
        pytest.skip("julia-2023 is not there; FRESHKEEPER_DATA names the directory that has it")
    found = ahead(5, trace=str(trace), window="7d", step="6h", seeds=1)
    assert found.low > 0.05, found
