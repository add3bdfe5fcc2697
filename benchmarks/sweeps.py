"""A sweep of 10,000 small runs: on Spark with one and with two workers, and beside it on processes of this machine.

A run is one setting with one seed: ten evaluations of `gain` over 40 edges. Each way has the page anew while it goes
on, as `freshkeeper simulate` has. Beside each stands what as many plain loops over the same runs would have done.

    python benchmarks/sweeps.py --runs 2000
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stopwatch import ratios, show

from freshkeeper.simulator.experiment.experiment import SoFar, simulate
from freshkeeper.simulator.experiment.experiment_config import Experiment, resolve, settings_of
from freshkeeper.simulator.experiment.run_parts import Job, perform
from freshkeeper.simulator.report.page import write_report

WORKER = {
    "spark.executor.memory": "480m",
    "spark.driver.memory": "768m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
SETTINGS, ALONE = 100, 300


def experiment(runs: int) -> Experiment:
    """A grid of a hundred settings, or of one, and as many seeds as make so many runs."""
    budgets = list(range(1, SETTINGS + 1)) if runs >= SETTINGS else [1]
    workload = {"sns": 10, "srs": 10, "edges": 40}
    return resolve(
        {"workload": workload, "policies": "gain", "evaluations": 10, "budget": budgets}
        | {"seeds": max(1, runs // len(budgets)), "bound": "never", "baselines": False}
    )


def alone(place: Path) -> float:
    """Seconds of one run in a plain loop."""
    chosen = experiment(ALONE)
    jobs = [Job(s, n, seed, place / f"{n}-{seed}") for n, s in enumerate(settings_of(chosen)) for seed in range(4)]
    for job in jobs[:SETTINGS]:  # until everything is imported and compiled
        perform(job)
    began = time.perf_counter()
    for job in jobs[SETTINGS:]:
        perform(job)
    return (time.perf_counter() - began) / len(jobs[SETTINGS:])


def swept(way: str, runs: int, place: Path) -> float:
    """Seconds of a sweep, after a small one that starts whatever has to be started."""
    if way == "local":
        return _timed(experiment(runs), place / "run", jobs=2)
    from freshkeeper.maintenance.pipeline.spark_session import spark_session
    from freshkeeper.simulator.experiment.spark_tasks import OnSpark

    spark = spark_session(f"local-cluster[{way},1,640]", WORKER)
    try:
        simulate(experiment(50 * int(way)), place / "first", performed=OnSpark(spark))
        return _timed(experiment(runs), place / "run", performed=OnSpark(spark))
    finally:
        work = Path(sys.prefix).glob(f"lib/python*/site-packages/pyspark/work/{spark.sparkContext.applicationId}")
        spark.stop()
        for each in work:
            shutil.rmtree(each, ignore_errors=True)


def _timed(chosen: Experiment, out: Path, **how: object) -> float:
    began = time.perf_counter()
    rows = simulate(chosen, out, so_far=SoFar(write_report), **how)  # type: ignore[arg-type]
    write_report(out)
    assert sum(row.seeds for row in rows) == len(chosen.seed_list) * len(rows)
    return time.perf_counter() - began


def in_a_process(way: str, runs: int) -> float:
    """One way in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--runs", str(runs), "--way", way], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout.split()[-1])


def report(runs: int) -> None:
    """All of it, as a table and a line of ratios."""
    with tempfile.TemporaryDirectory() as place:
        one = alone(Path(place))
    few = max(1, runs // 4)
    ways = {"Spark, two workers": ("2", runs), "Spark, one worker": ("1", few), "two processes": ("local", runs)}
    found = {name: (many, in_a_process(way, many)) for name, (way, many) in ways.items()}
    share = {name: one * many / s / (1 if way == "1" else 2) for (name, (many, s)), (way, _) in
             zip(found.items(), ways.values(), strict=True)}  # fmt: skip
    show(
        "A sweep, with its report",
        ["", "runs", "seconds", "runs a second", "of as many plain loops"],
        [
            ["plain loop, no report", f"{ALONE}", "", f"{1 / one:.0f}", "1.00"],
            *(
                [name, f"{many:,}", f"{s:.1f}", f"{many / s:.0f}", f"{share[name]:.2f}"]
                for name, (many, s) in found.items()
            ),
        ],
    )
    rate = {name: many / seconds for name, (many, seconds) in found.items()}
    ratios(
        {
            "two_workers_over_twice_one": rate["Spark, two workers"] / (2 * rate["Spark, one worker"]),
            "spark_runs_a_second_over_processes": rate["Spark, two workers"] / rate["two processes"],
            "two_workers_over_two_plain_loops": share["Spark, two workers"],
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--way", default="", help="only this: 1 or 2 workers, or local; seconds")
    given = parser.parse_args()
    if given.way:
        with tempfile.TemporaryDirectory() as here:
            print(swept(given.way, given.runs, Path(here)))
    else:
        report(given.runs)
