"""Streaming enrichment on Spark: events per second, beside one Manager over the same trace without Spark.

Asked for: 10,000 keys, an evaluation every second of event time; .1, .3 and .5 of the manager's rate at 50,000,
500,000 and 5 million events per micro-batch; freshness within half a point of the manager's on the same trace, policy
and seed, and the same spending. Freshness is the truth: the answers in the Parquet files, and those of the manager,
against the schedule of changes.
"""

import argparse
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from stopwatch import ratios, show

from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.spark.enrich import Warm, enrich_windows, read_journal
from freshkeeper.policies.base import Graph, Policy
from freshkeeper.policies.registry import make
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.trace.workload import Workload, generate
from freshkeeper.simulator.world.simulated_remote import SimulatedRemote
from freshkeeper.simulator.world.truth import schedule_of

KEYS, EDGES, GAMMA, SEED = 10_000, 20_000, 500, 3
RANGE, STEP, WARM_UP = 4_000, 1_000, 50_000
SIZES = [(50_000, 20), (500_000, 4), (5_000_000, 1)]
"""Events per micro-batch, and how many micro-batches."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A trace, and where its events lie."""

    trace: Trace
    place: Path

    @property
    def window(self) -> WindowSpec:
        """An evaluation every second."""
        return WindowSpec(RANGE, STEP, self.trace.t0)

    @property
    def remote(self) -> SimulatedRemote:
        """The source, as it changes."""
        edges = self.trace.edges
        return SimulatedRemote(
            schedule_of(self.trace), Graph.from_edges(edges.sn, edges.sr, self.trace.sns, self.trace.srs)
        )

    @property
    def warm(self) -> Warm:
        """All edges, and every copy as of t0."""
        trace, t0 = self.trace, self.trace.t0
        values = [copy.value for copy in self.remote.fetch(range(trace.srs), t0).copies]
        edges = pa.table({"sn": trace.edges.sn.astype(np.int64), "sr": trace.edges.sr.astype(np.int64)})
        return Warm(edges, pa.table({"sr": np.arange(trace.srs), "value": values}), t0)

    def drop(self, files: int) -> None:
        """The events as Parquet files."""
        (self.place / "events").mkdir(parents=True)
        arrivals = self.trace.arrivals
        for number, rows in enumerate(np.array_split(np.arange(len(arrivals)), files)):
            columns = {"t_ms": arrivals.t_ms[rows], "sn": arrivals.sn[rows].astype(np.int64)}
            parquet.write_table(pa.table(columns), self.place / "events" / f"{number:05}.parquet")
            time.sleep(0.01)  # Spark reads files in the order of their times


def scene(events: int, keys: int, edges: int, place: Path) -> Scene:
    """Keys arrive every 1 to 2 s, entries change every 5 to 60 s."""
    mean = 1443  # of 1 to 2 s, harmonic
    lasts = events * mean // keys
    workload = Workload(sns=keys, srs=keys, edges=edges, change_interval_ms=(5_000, 60_000), duration_ms=lasts)
    trace = generate(workload, SEED)
    return Scene(trace, place)


def single(scene: Scene, policy: Policy, until: int) -> tuple[float, float, float]:
    """Seconds, spending and freshness of one manager."""
    warm, schedule = scene.warm, schedule_of(scene.trace)
    manager = Manager(scene.window, scene.remote, policy, BudgetRule.of(GAMMA), Learned(), seed=SEED)
    warm.fill(manager.view, ["sn"])
    began, fresh = time.perf_counter(), []
    for now, arrivals in scene.trace.batches(range(scene.trace.t0 + STEP, until + 1, STEP)):
        slots = manager.view.sn_slots(arrivals.sn.tolist())
        answers = manager.evaluate_slots(now, arrivals.t_ms, slots).answers
        assert answers is not None
        sr = np.array(answers.entries, np.int64)
        good = schedule.last_change(now)[sr] <= answers.refreshed
        fresh.append(float(answers.weight[good].sum() / answers.weight.sum()))
    return time.perf_counter() - began, float(manager.ledger.spent), float(np.mean(fresh))


class Clock:
    """Where the time of micro-batches goes: seconds by what they ended with, and what Spark says of its own part."""

    def __init__(self) -> None:
        """It runs from here on."""
        self.last = time.perf_counter()
        self.steps: defaultdict[str, float] = defaultdict(float)
        self.spark: Counter[str] = Counter()
        self.batches = 0

    def __call__(self, step: str) -> None:
        """A step is done."""
        now = time.perf_counter()
        self.steps[step] += now - self.last
        self.last = now

    def progress(self, query: StreamingQuery) -> None:
        """Of micro-batches that had events."""
        for batch in query.recentProgress:
            if batch["numInputRows"]:
                self.batches += 1
                self.spark.update({name: ms / 1000 for name, ms in batch["durationMs"].items()})

    def rows(self) -> list[list[str]]:
        """Seconds per micro-batch and shares of it."""
        own = {name: self.steps[step] for name, step in STEPS.items()}
        own["decided, fetched"] += sum(self.steps[step] for step in ("intended", "fetched", "recorded"))
        plan = sum(self.spark[name] for name in ("latestOffset", "getBatch", "queryPlanning"))
        logs = sum(self.spark[name] for name in ("walCommit", "commitOffsets", "commitBatch"))
        counted = self.spark["addBatch"] - sum(own.values())
        parts = {"files listed, planned (Spark)": plan, "logs (Spark)": logs, "counted, to the driver": counted, **own}
        whole = self.spark["triggerExecution"]
        return [[name, f"{taken / self.batches:.3f} s", f"{taken / whole:.0%}"] for name, taken in parts.items()]


STEPS = {"decided, fetched": "answered", "answers written": "written", "snapshot": "committed"}
"""What ends with which step, behind the counts' arrival."""


def streamed(spark: SparkSession, scene: Scene, policy: Policy, clock: Clock) -> tuple[float, float, int]:
    """Seconds, spending and the last instant of the query."""
    for name in ("state", "answers"):
        shutil.rmtree(scene.place / name, ignore_errors=True)
    schema = "t_ms BIGINT, sn BIGINT"
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(scene.place / "events"))
    writer = enrich_windows(
        events, on="sn", at="t_ms", source=scene.remote, policy=policy, budget=GAMMA, window=RANGE, step=STEP,
        start=scene.trace.t0, warm=scene.warm, state=scene.place / "state", sink=scene.place / "answers",
        value="bigint", seed=SEED, reached=clock,
    )  # fmt: skip
    began = time.perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    taken = time.perf_counter() - began
    clock.progress(query)
    evaluations = read_journal(scene.place / "state", "evaluations")
    return taken, sum(evaluations["spent"].to_pylist()), max(evaluations["t_ms"].to_pylist())


def freshness(spark: SparkSession, scene: Scene) -> tuple[float, int]:
    """The mean over evaluations of what is really fresh in the answers on disk, and how many answers there are."""
    known = scene.trace.schedule
    assert known is not None
    assert known.phase_ms is not None
    columns = {"sr": [str(n) for n in range(scene.trace.srs)], "interval": known.interval_ms, "phase": known.phase_ms}
    answers = spark.read.parquet(str(scene.place / "answers")).join(spark.createDataFrame(pa.table(columns)), "sr")
    good = F.expr("t_ms - pmod(t_ms - phase, interval) <= refreshed_ms")
    ratio = F.sum(F.when(good, F.col("weight")).otherwise(0)) / F.sum("weight")
    by_evaluation = answers.groupBy("k").agg(ratio.alias("fresh"), F.count("*").alias("rows"))
    row = by_evaluation.agg(F.avg("fresh").alias("fresh"), F.sum("rows").alias("rows")).first()
    assert row is not None
    return row["fresh"], row["rows"]


@dataclass(frozen=True)
class Found:
    """One trace both ways: seconds, requests and freshness on Spark, and of one manager."""

    events: int
    answers: int
    spark: tuple[float, float, float]
    alone: tuple[float, float, float]
    clock: Clock

    @property
    def share(self) -> float:
        """Spark's rate by that of one manager."""
        return self.alone[0] / self.spark[0]


def both(spark: SparkSession, size: int, files: int, place: Path) -> Found:
    """So many micro-batches of so many events."""
    here, clock = scene(size * files, KEYS, EDGES, place), Clock()
    here.drop(files)
    taken, spent, until = streamed(spark, here, make("gain"), clock)
    fresh, answers = freshness(spark, here)
    alone, alone_spent, alone_fresh = single(here, make("gain"), until)
    shutil.rmtree(place)
    count = len(here.trace.arrivals)
    return Found(count, answers, (taken, spent, fresh), (alone, alone_spent, alone_fresh), clock)


def report(sizes: list[tuple[int, int]]) -> None:
    """Micro-batches of several sizes, each beside one manager over the same trace."""
    place = Path(tempfile.mkdtemp(prefix="enrich-"))
    # Plans of a few jobs are not worth planning twice: without adaptive execution an evaluation takes half the time.
    spark = spark_session("local[2]", {"spark.driver.memory": "4g", "spark.sql.adaptive.enabled": "false"})
    both(spark, WARM_UP, 2, place / "warm")  # Spark and the kernels are warm from here on
    found = {size: both(spark, size, files, place / str(size)) for size, files in sizes}
    spark.stop()
    shutil.rmtree(place)
    show(
        f"Enrichment at {KEYS:,} keys, {EDGES:,} edges, γ = {GAMMA}, gain, learned, local[2]; Spark / one Manager",
        ["events per micro-batch", *(f"{size:,}" for size in found)],
        [
            ["events", *(f"{each.events:,}" for each in found.values())],
            ["events per second", *(_pair(each.events, each) for each in found.values())],
            ["answers per second", *(_pair(each.answers, each) for each in found.values())],
            ["requests", *(f"{each.spark[1]:,.0f} / {each.alone[1]:,.0f}" for each in found.values())],
            ["freshness (truth)", *(f"{each.spark[2]:.4f} / {each.alone[2]:.4f}" for each in found.values())],
            ["Spark's rate by the Manager's", *(f"{each.share:.3f}" for each in found.values())],
        ],
    )
    for size, each in found.items():
        title = f"A micro-batch of {size:,} events, the mean of {each.clock.batches}"
        show(title, ["", "seconds", "share"], each.clock.rows())
    ratios(
        {f"share_at_{size}": each.share for size, each in found.items()}
        | {"freshness_points_apart": max(100 * abs(each.spark[2] - each.alone[2]) for each in found.values())}
        | {"spent_over_spent": max(each.spark[1] / each.alone[1] for each in found.values())}
    )


def _pair(count: int, found: Found) -> str:
    return f"{count / found.spark[0]:,.0f} / {count / found.alone[0]:,.0f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="micro-batches of 50,000 events alone")
    report(SIZES[:1] if parser.parse_args().small else SIZES)
