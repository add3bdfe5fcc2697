"""An experiment about following: every way to annotate, every number of clients, and its files."""

from collections.abc import Callable
from pathlib import Path

from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.simulator.following.annotation_ways import EvaluationCost, measured, ways
from freshkeeper.simulator.following.following_config import FollowingExperiment
from freshkeeper.simulator.following.following_report import write_report
from freshkeeper.simulator.following.many_clients import Load, Sample, loads


def measure(experiment: FollowingExperiment, out: Path, command: str, tell: Callable[[str], None]) -> Path:
    """Measure all of it into a run directory; gives the page."""
    found, asked, samples = list[EvaluationCost](), list[Load](), list[Sample]()
    every = list(ways(experiment))
    for number, way in enumerate(every, 1):
        tell(f"ways to annotate: {number} of {len(every)}")
        found += measured(experiment, way)
    for cached in experiment.cache:
        for clients in experiment.clients:
            tell(f"clients: {clients}, {'with' if cached else 'without'} a cache")
            load, over_time = loads(experiment, clients, cached)
            asked.append(load)
            samples += over_time
    out.mkdir(parents=True, exist_ok=True)
    About(command=command, config=experiment.model_dump(mode="json")).write(out)
    return write_report(
        out=out, title=experiment.title or "Following", command=command, ways=found, loads=asked, samples=samples
    )
