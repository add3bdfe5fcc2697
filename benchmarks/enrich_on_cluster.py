"""A graph that lies on the cluster in shards: seconds per evaluation at 1 M edges and at ten times as many.

Asked for: 10 M edges, 1 M entries, 100,000 events per second of event time on two cores, an evaluation every second of
event time, 1.5 s each; at most 12 times what a tenth of all that takes; memory of the driver whatever the graph. A
micro-batch is ten seconds of event time; the first one, in which workers come up and read the graph, is not counted.
"""

import argparse
import os
import resource
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession
from stopwatch import ratios, show

from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.fetching.endpoint import Copy, Fetched, Price
from freshkeeper.maintenance.spark.enrich import OnCluster, Warm, enrich_windows, read_journal
from freshkeeper.policies.registry import make

EDGES, GAMMA, DEGREE, SECONDS, BATCHES, WINDOW = 1_000_000, 500, 10, 10, 3, 4
SHARES = {"entries": 10, "keys": 10, "events per second": 100}
"""One for so many edges."""


class Source:
    """Entries change every 5 to 60 s; a value is how often."""

    price = Price()

    def fetch(self, keys: list[int], now: int) -> Fetched:
        """As of now."""
        numbers = np.array(keys, np.int64)
        interval = 5_000 + (numbers * 2_654_435_761) % 55_000
        values = (now + numbers % interval) // interval
        return Fetched([Copy(value) for value in values.tolist()], len(keys), len(keys))


@dataclass
class Stopwatch:
    """When micro-batches were committed, and how often each step took how long."""

    began: float = field(default_factory=time.perf_counter)
    committed: list[float] = field(default_factory=list)

    def __call__(self, step: str) -> None:
        """A step is done."""
        if step == "committed":
            self.committed.append(time.perf_counter() - self.began)


def world(edges: int, place: Path) -> Warm:
    """Every key has ten edges to any entries; events of any keys, in files of ten seconds each."""
    rng, keys, entries = np.random.default_rng(1), edges // DEGREE, edges // SHARES["entries"]
    (place / "events").mkdir(parents=True)
    for number in range(BATCHES):
        size = SECONDS * edges // SHARES["events per second"]
        at = np.sort(rng.integers(number * SECONDS * 1000, (number + 1) * SECONDS * 1000, size))
        table = pa.table({"t_ms": at, "sn": rng.integers(0, keys, size)})
        path = place / "events" / f"{number:03}.parquet"
        parquet.write_table(table, path)
        os.utime(path, (1e9 + number, 1e9 + number))
    pairs = {"sn": np.repeat(np.arange(keys), DEGREE), "sr": rng.integers(0, entries, edges)}
    return Warm(pa.table(pairs), pa.table({"sr": np.arange(entries), "value": np.zeros(entries, np.int64)}), 0)


def measured(
    spark: SparkSession, edges: int, place: Path, policy: str, expect: bool, candidates: int
) -> dict[str, float]:
    """Of one size."""
    warm, watch = world(edges, place), Stopwatch()
    events = spark.readStream.schema("t_ms BIGINT, sn BIGINT").option("maxFilesPerTrigger", 1)
    writer = enrich_windows(
        events.parquet(str(place / "events")), on="sn", at="t_ms", source=Source(), budget=GAMMA,
        policy=make(policy, {} if expect else {"expect": False, "windows": 1}), window=WINDOW * 1000, step=1000,
        warm=warm, state=place / "state", sink=place / "answers", value="bigint",
        graph=OnCluster(str(place / "shared"), candidates=candidates), reached=watch,
    )  # fmt: skip
    del warm
    writer.trigger(availableNow=True).start().awaitTermination()
    done = read_journal(place / "state", "evaluations")
    later = [k for k in done["k"].to_pylist() if k > SECONDS]
    first, last = watch.committed[0], watch.committed[-1]
    rows = sum(parquet.ParquetFile(path).metadata.num_rows for path in (place / "answers").rglob("*.parquet"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds per evaluation": (last - first) / len(later),
        "to lay the graph and begin, seconds": first,
        "answers per evaluation": rows / done.num_rows,
        "until it is decided, seconds": sum(done["decide_us"].to_pylist()[-len(later) :]) / len(later) / 1e6,
        "requests": sum(done["spent"].to_pylist()),
        "the driver's Python at most, MB": memory,
    }


def report(edges: int, policy: str, expect: bool, master: str, candidates: int) -> None:
    """A tenth, and all."""
    place = Path(tempfile.mkdtemp(prefix="enrich-"))
    spark = spark_session(master, {"spark.driver.memory": "6g", "spark.sql.adaptive.enabled": "false"})
    sizes = [edges // 10, edges]
    try:
        found = [measured(spark, size, place / str(size), policy, expect, candidates) for size in sizes]
    finally:
        spark.stop()
        shutil.rmtree(place)
    show(
        f"A graph in shards, {policy}, γ = {GAMMA}, {master}; events per second: a hundredth of the edges",
        ["", *(f"{size:,} edges" for size in sizes)],
        [[name, *(f"{each[name]:,.2f}" for each in found)] for name in found[0]],
    )
    steps = [each["seconds per evaluation"] for each in found]
    ratios({"seconds_per_evaluation": steps[1], "ten_times_the_edges": steps[1] / steps[0]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10 * EDGES)
    parser.add_argument("--policy", default="gain")
    parser.add_argument("--expect", action="store_true", help="three windows ahead, with arrivals to come")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--candidates", type=int, default=100_000, help="64: with one price for all shards")
    asked = parser.parse_args()
    report(asked.edges, asked.policy, asked.expect, asked.master, asked.candidates)
