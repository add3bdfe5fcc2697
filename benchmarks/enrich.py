"""Streaming enrichment on Spark: events per second, beside one Manager over the same trace without Spark.

Asked for: 1 M events at 10,000 distinct keys, an evaluation every second of event time; freshness within half a point
of the single-process manager's on the same trace, policy and seed, and the same spending. Freshness is the truth: the
answers in the Parquet files, and those of the manager, against the schedule of changes.
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

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.pipeline.enrich import OnCluster, enrich
from freshkeeper.maintenance.pipeline.enrichment.batch_journal import read_journal
from freshkeeper.maintenance.pipeline.enrichment.warm import Warm
from freshkeeper.maintenance.pipeline.spark_session import spark_session
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.policies.base import Graph, Policy
from freshkeeper.policies.gain import Gain
from freshkeeper.policies.registry import make
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.trace.workload import Workload, generate
from freshkeeper.simulator.world.simulated_remote import Remote
from freshkeeper.simulator.world.truth import schedule_of

EVENTS, KEYS, EDGES, WIDE, GAMMA, SEED = 1_000_000, 10_000, 20_000, 1_000_000, 500, 3
RANGE, STEP, FILES, WARM_UP = 4_000, 1_000, 20, 50_000


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
    def remote(self) -> Remote:
        """The source, as it changes."""
        edges = self.trace.edges
        return Remote(schedule_of(self.trace), Graph.from_edges(edges.sn, edges.sr, self.trace.sns, self.trace.srs))

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
    """Freshness, spending and seconds of one manager."""
    warm, schedule = scene.warm, schedule_of(scene.trace)
    manager = Manager(scene.window, scene.remote, policy, BudgetRule.of(GAMMA), Learned(), seed=SEED)
    manager.view.fill(warm.pairs(["sn"]), warm.values(), warm.at)
    began, fresh = time.perf_counter(), []
    for now, arrivals in scene.trace.batches(range(scene.trace.t0 + STEP, until + 1, STEP)):
        slots = manager.view.sn_slots(arrivals.sn.tolist())
        answers = manager.evaluate_slots(now, arrivals.t_ms, slots).answers
        assert answers is not None
        sr = np.array(answers.entries, np.int64)
        good = schedule.last_change(now)[sr] <= answers.refreshed
        fresh.append(float(answers.weight[good].sum() / answers.weight.sum()))
    return float(np.mean(fresh)), float(manager.ledger.spent), time.perf_counter() - began


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


def streamed(
    spark: SparkSession, scene: Scene, policy: Policy, graph: OnCluster | None, clock: Clock | None = None
) -> tuple[float, float, int]:
    """Seconds, spending and the last instant of the query."""
    for name in ("state", "answers"):
        shutil.rmtree(scene.place / name, ignore_errors=True)
    schema = "t_ms BIGINT, sn BIGINT"
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(scene.place / "events"))
    writer = enrich(
        events, on="sn", at="t_ms", source=scene.remote, policy=policy, budget=GAMMA, window=RANGE, step=STEP,
        start=scene.trace.t0, warm=scene.warm, state=scene.place / "state", sink=scene.place / "answers",
        value="bigint", seed=SEED, graph=graph, reached=clock or (lambda _: None),
    )  # fmt: skip
    began = time.perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    taken = time.perf_counter() - began
    if clock is not None:
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


def planned(spark: SparkSession, scene: Scene) -> tuple[float, float]:
    """Seconds per evaluation, and answers per second, of the plan that leaves the graph on the cluster."""
    policy, graph = Gain(expect=False, windows=1), OnCluster(str(scene.place / "window"))
    taken, _, last = streamed(spark, scene, policy, graph)
    _, answers = freshness(spark, scene)
    return taken * STEP / (last - scene.trace.t0), answers / taken


def report(events: int, files: int) -> None:
    """Both ways, and the plan that leaves the graph on the cluster, on a part of it and with 50 times the edges."""
    place = Path(tempfile.mkdtemp(prefix="enrich-"))
    whole = scene(events, KEYS, EDGES, place / "whole")
    small, wide = (scene(WARM_UP, KEYS, edges, place / str(edges)) for edges in (EDGES, WIDE))
    for each, number in ((whole, files), (small, 1), (wide, 1)):
        each.drop(number)
    # Plans of a few jobs are not worth planning twice: without adaptive execution an evaluation takes half the time.
    spark = spark_session("local[2]", {"spark.driver.memory": "4g", "spark.sql.adaptive.enabled": "false"})
    streamed(spark, small, make("gain"), None)  # Spark and the kernels are warm from here on
    clock = Clock()
    taken, spent, until = streamed(spark, whole, make("gain"), None, clock)
    fresh, answers = freshness(spark, whole)
    alone_fresh, alone_spent, alone = single(whole, make("gain"), until)
    (small_step, small_rate), (wide_step, wide_rate) = planned(spark, small), planned(spark, wide)
    spark.stop()
    shutil.rmtree(place)
    count = len(whole.trace.arrivals)
    show(
        f"Enrichment of {count:,} events at {KEYS:,} keys, {EDGES:,} edges, γ = {GAMMA}, gain, learned, local[2]",
        ["", "Spark", "one Manager"],
        [
            ["seconds", f"{taken:.1f}", f"{alone:.1f}"],
            ["events per second", f"{count / taken:,.0f}", f"{count / alone:,.0f}"],
            ["answers per second", f"{answers / taken:,.0f}", f"{answers / alone:,.0f}"],
            ["freshness (truth)", f"{fresh:.4f}", f"{alone_fresh:.4f}"],
            ["spent", f"{spent:,.0f}", f"{alone_spent:,.0f}"],
            [f"graph on the cluster, {EDGES:,} edges: seconds per evaluation", f"{small_step:.2f}", ""],
            ["  answers per second", f"{small_rate:,.0f}", ""],
            [f"graph on the cluster, {WIDE:,} edges: seconds per evaluation", f"{wide_step:.2f}", ""],
            ["  answers per second", f"{wide_rate:,.0f}", ""],
        ],
    )
    show(
        f"A micro-batch of {count // files:,} events, the mean of {clock.batches}",
        ["", "seconds", "share"],
        clock.rows(),
    )
    ratios(
        {
            "events_per_second": count / taken,
            "manager_over_spark_seconds": alone / taken,
            "freshness_points_apart": 100 * abs(fresh - alone_fresh),
            "spent_over_spent": spent / alone_spent,
            "wide_plan_over_small_plan": wide_step / small_step,
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--files", type=int, default=FILES, help="micro-batches")
    asked = parser.parse_args()
    report(asked.events, asked.files)
