"""Events per second of enrichment by key on two cores: python benchmarks/enrich_by_key.py [--events N] [--redis URL]

Events are read from Parquet and go to a sink that drops them; keys are drawn from a Zipf distribution. A run without a
lookup, which copies the events through Arrow, is the ceiling that the others are compared with.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.spark.by_key import enrich, metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = 100_000


def make_lookup() -> Callable[[list[int]], dict[int, tuple[str, float]]]:
    """Return a lookup that answers at once."""
    return lambda keys: {key: (f"product {key}", key / 4) for key in keys}


def make_slow_lookup() -> Callable[[list[int]], dict[int, tuple[str, float]]]:
    """Return a lookup that takes 20 ms."""

    def look_up(keys: list[int]) -> dict[int, tuple[str, float]]:
        time.sleep(0.02)
        return {key: (f"product {key}", key / 4) for key in keys}

    return look_up


def copied(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield every batch as it is."""
    yield from batches


def written(place: Path, events: int, files: int = 8) -> None:
    """Write events with Zipf keys."""
    rng = np.random.default_rng(7)
    weights = 1 / np.arange(1, KEYS + 1)
    keys = rng.choice(KEYS, events, p=weights / weights.sum()).astype(np.int64)
    for n, part in enumerate(np.array_split(keys, files)):
        ids = np.arange(part.size, dtype=np.int64)
        columns = {"id": ids, "product_id": part, "payload": np.char.add("event ", ids.astype(str))}
        parquet.write_table(pa.table(columns), place / f"{n}.parquet")


def rate(frame: "DataFrame", events: int) -> float:
    """Return the events per second of a job that drops what it makes."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return events / (time.perf_counter() - began)


def main() -> None:
    """Print the rates of three rounds each, and their ratio to copying."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--redis", help="also with a store, as redis://localhost:6379/0")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    spark = spark_session("local[2]", settings)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        written(place, given.events)
        events = spark.read.parquet(str(place))
        plain: dict[str, Any] = {"on": "product_id", "into": "product", "schema": "name STRING, price DOUBLE"}
        cases = {
            "copied": events.repartition("product_id").mapInArrow(copied, events.schema),
            "in process": events.transform(enrich(**plain, lookup=make_lookup, budget="200/s", batch=1000)),
            "20 ms, 100 keys a request, 200/s": events.transform(
                enrich(**plain, lookup=make_slow_lookup, budget="200/s", batch=100, on_stale="serve")
            ),
        }
        if given.redis:
            cases["with Redis"] = events.transform(
                enrich(**plain, lookup=make_lookup, budget="200/s", batch=1000, store=given.redis)
            )
        for case, frame in cases.items():
            rates = [rate(frame, given.events) for _ in range(given.rounds)]
            if case == "copied":
                ceiling = max(rates)
            told = ", ".join(f"{one:,.0f}" for one in rates)
            print(f"{case}: {told} events/s; {max(rates) / ceiling:.2f} of copying", flush=True)
        print("in process:", cases["in process"].agg(*metrics("product")).collect()[0].asDict())


if __name__ == "__main__":
    main()
