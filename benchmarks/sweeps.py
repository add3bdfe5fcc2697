"""A sweep of 10,000 small runs: on Spark with one and with two workers, and beside it on processes of this machine.

A run is one setting with one seed: ten evaluations of `gain` over 40 edges. Told apart are the runs, until the last of
them has come, and the tables and the page that are made of them. Beside each stands what as many plain loops over the
same runs would have taken. (A page that is made anew while it goes on takes a twentieth of the time at most.)

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

from freshkeeper.simulator.experiment.experiment import Performed, simulate
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
        {"workload": workload, "policies": "gain", "evaluations": 10, "sweep": {"budget": budgets}}
        | {"seeds": max(1, runs // len(budgets)), "bound": "never", "baselines": False}
    )


def alone(place: Path) -> float:
    """Seconds of one run in a plain loop."""
    chosen = experiment(ALONE)
    settings, policies = settings_of(chosen), tuple(chosen.policies)
    jobs = [Job(one, seed, policies, place / f"{one.digest}-{seed}") for one in settings for seed in range(4)]
    for job in jobs[:SETTINGS]:  # until everything is imported and compiled
        perform(job)
    began = time.perf_counter()
    for job in jobs[SETTINGS:]:
        perform(job)
    return (time.perf_counter() - began) / len(jobs[SETTINGS:])


def swept(way: str, runs: int, place: Path) -> tuple[float, float]:
    """Seconds of a sweep, after a small one that starts whatever has to be started: of the runs, and of all."""
    if way == "local":
        return _timed(experiment(runs), place / "run", jobs=2)
    from freshkeeper.maintenance.analysis.spark_session import spark_session
    from freshkeeper.simulator.experiment.spark_tasks import SparkRuns

    spark = spark_session(f"local-cluster[{way},1,640]", WORKER)
    try:
        simulate(experiment(50 * int(way)), place / "first", performed=SparkRuns(spark))
        return _timed(experiment(runs), place / "run", performed=SparkRuns(spark))
    finally:
        work = Path(sys.prefix).glob(f"lib/python*/site-packages/pyspark/work/{spark.sparkContext.applicationId}")
        spark.stop()
        for each in work:
            shutil.rmtree(each, ignore_errors=True)


def _timed(chosen: Experiment, out: Path, jobs: int = 1, performed: Performed | None = None) -> tuple[float, float]:
    began = last = time.perf_counter()

    def come(*_: object) -> None:
        nonlocal last
        last = time.perf_counter()

    rows = simulate(chosen, out, jobs=jobs, performed=performed, progress=come)
    write_report(out)
    assert sum(row.seeds for row in rows) == len(chosen.seed_list) * len(rows)
    return last - began, time.perf_counter() - began


def in_a_process(way: str, runs: int) -> tuple[float, float]:
    """One way in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--runs", str(runs), "--way", way], check=True, stdout=subprocess.PIPE, text=True
    )
    runs_s, all_s = done.stdout.split()[-2:]
    return float(runs_s), float(all_s)


def report(runs: int) -> None:
    """All of it, as a table and a line of ratios."""
    with tempfile.TemporaryDirectory() as place:
        one = alone(Path(place))
    ways = {"two processes": ("local", 2), "Spark, one worker": ("1", 1), "Spark, two workers": ("2", 2)}
    found = {name: in_a_process(way, runs) for name, (way, _) in ways.items()}
    beside = {name: found[name][0] * cores / runs / one - 1 for name, (_, cores) in ways.items()}
    show(
        f"A sweep of {runs:,} runs; a run in a plain loop takes {1000 * one:.1f} ms",
        ["", "seconds, runs", "runs a second", "beside a run's own work", "seconds, with tables and page"],
        [
            [name, f"{done:.1f}", f"{runs / done:.0f}", f"{beside[name]:.0%}", f"{whole:.1f}"]
            for name, (done, whole) in found.items()
        ],
    )
    seconds = {name: done for name, (done, _) in found.items()}
    ratios(
        {
            "efficiency_of_two_workers": seconds["Spark, one worker"] / (2 * seconds["Spark, two workers"]),
            "spark_over_processes": seconds["Spark, two workers"] / seconds["two processes"],
            "beside_own_work_one_worker": beside["Spark, one worker"],
            "beside_own_work_two_workers": beside["Spark, two workers"],
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--way", default="", help="only this: 1 or 2 workers, or local; seconds")
    given = parser.parse_args()
    if given.way:
        with tempfile.TemporaryDirectory() as here:
            print(*swept(given.way, given.runs, Path(here)))
    else:
        report(given.runs)
