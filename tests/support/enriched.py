"""One stream and one source for all tests of enrichment; runs as a program of its own to be killed.

    python enriched.py plain|spark PLACE STEP N

STEP is the step after which the process kills itself when it is reached for the Nth time; "" is none.
"""

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions
from pyspark.sql.types import StructType
from quick_java import QUICK

from freshkeeper.maintenance.analysis.spark_session import SETTINGS as USUAL
from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule
from freshkeeper.maintenance.fetching.endpoint import (
    PENDING,
    Copy,
    Delivery,
    Expanded,
    Fetched,
    Key,
    Late,
    Order,
    Price,
)
from freshkeeper.maintenance.spark.enrich import Files, Warm, enrich_windows
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import COUNT, EARLIEST, FIRST, LAST, LATEST
from freshkeeper.maintenance.spark.enrichment.micro_batches import Batches
from freshkeeper.maintenance.spark.enrichment.on_driver import Settings, Shape, Step, on_the_driver
from freshkeeper.maintenance.spark.enrichment.once import RecordingFetcher
from freshkeeper.policies.base import Policy
from freshkeeper.policies.registry import make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WINDOW = WindowSpec(4000, 1000)
GAMMA = 3
Event: TypeAlias = tuple[int, str]
Reached: TypeAlias = Callable[[str], None]
FILES, SECONDS = 12, 36
TOPICS, USERS = 8, 20
SETTINGS = {
    "spark.driver.extraJavaOptions": f"{USUAL['spark.driver.extraJavaOptions']} {QUICK}",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
"""For processes that live for seconds."""


class Counted:
    """A source whose values are the number of changes so far; every request is a line in a file that outlives us."""

    price = Price()

    def __init__(self, requests: Path) -> None:
        self.requests = requests

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        with self.requests.open("a") as file:
            file.write(json.dumps({"now": now, "keys": list(keys)}) + "\n")
        return Fetched([Copy(value_of(key, now)) for key in keys], len(keys), len(keys))

    def expand(self, sn: Key, now: int) -> Expanded:
        self.fetch([f"?{sn}"], now)
        return Expanded({key: Copy(value_of(key, now)) for key in users_of(sn)}, 1.0, 1)


class Strange(Counted):
    """The same, with entries of their own for topics of which nobody knew."""

    def expand(self, sn: Key, now: int) -> Expanded:
        self.fetch([f"?{sn}"], now)
        return Expanded({key: Copy(value_of(key, now)) for key in (f"u{number_of(sn)}1", f"u{number_of(sn)}2")}, 1.0, 1)


class Numbers(Counted):
    """The same, and a value is a number."""

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        found = super().fetch(keys, now)
        copies = [replace(copy, value=int(str(copy.value))) for copy in found.copies]
        return replace(found, copies=copies)


class Free(Counted):
    """The same, and costs nothing."""

    price = Price(per_request=0)

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        return replace(super().fetch(keys, now), spent=0.0)


class Slow(Counted):
    """The same over a network: of every order the last key in the order of names comes with the next one's answer."""

    def __init__(self, requests: Path) -> None:
        super().__init__(requests)
        self.late: list[Late] = []

    def room(self, now: int) -> float:
        return math.inf

    def deliver(self, order: Order) -> Delivery:
        copies, late = dict(zip(order.keys, self.fetch(order.keys, order.now).copies, strict=True)), self.late
        self.late = [Late(key, copies[key], order.now) for key in sorted(order.keys, key=str)[-1:]]
        copies |= {one.key: Copy(error=PENDING) for one in self.late}
        return Delivery(list(copies.values()), [], float(len(copies)), len(copies), late)


def value_of(key: Key, now: int) -> str:
    interval, phase = changes_of(key)
    return str((now - phase) // interval)


def number_of(key: Key) -> int:
    return int(str(key).removeprefix("?")[1:])


def users_of(topic: Key) -> list[str]:
    rng = np.random.default_rng(number_of(topic))
    return [f"u{n}" for n in sorted(rng.choice(USERS, 4, replace=False).tolist())]


def events() -> list[Event]:
    """(ms, topic), in order of time, with the last one far enough ahead to make all others' evaluations due."""
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(1, SECONDS * 1000, 400)).tolist()
    return [*zip(times, (f"t{n}" for n in rng.integers(0, TOPICS, 400)), strict=True), (SECONDS * 1000 + 1, "t0")]


def parts(number: int = FILES) -> list[list[Event]]:
    """The events as they come, in so many parts."""
    rows = events()
    size = -(-len(rows) // number)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def warm() -> Warm:
    """All edges in the order of their users, so that users have the same order everywhere and ties are broken alike."""
    edges = sorted((user, topic) for topic in (f"t{n}" for n in range(TOPICS)) for user in users_of(topic))
    users = sorted({user for user, _ in edges})
    interval, phase = zip(*map(changes_of, users), strict=True)
    columns = {"value": [value_of(user, 0) for user in users], "interval_ms": interval, "phase_ms": phase}
    return Warm(
        pa.table({"topic": [t for _, t in edges], "sr": [u for u, _ in edges]}), pa.table({"sr": users, **columns}), 0
    )


def changes_of(key: Key) -> tuple[int, int]:
    """The change interval and a time of change."""
    return 700 + 311 * number_of(key), -137 * number_of(key)


def schedule() -> FixedSchedule:
    """Exact knowledge."""
    users = [f"u{n}" for n in range(USERS)]
    interval, phase = zip(*map(changes_of, users), strict=True)
    return FixedSchedule(np.array(interval), np.array(phase), {user: n for n, user in enumerate(users)})


def settings(policy: Policy | str = "gain", model: ChangeModel | None = None, cold: bool = False) -> Settings:
    return Settings(
        make(policy) if isinstance(policy, str) else policy, BudgetRule.of(GAMMA), WINDOW, model=model or Learned(),
        seed=5, warm=None if cold else warm(),
    )  # fmt: skip


def single_process(
    requests: Path,
    policy: Policy | str = "gain",
    model: ChangeModel | None = None,
    cold: bool = False,
    kind: type[Counted] = Counted,
    more: Sequence[Event] = (),
) -> tuple[list[tuple[Any, ...]], list[Evaluation]]:
    """The same with a Manager alone: what it answered, as rows, and its evaluations."""
    known = settings(policy, model)
    manager = Manager(WINDOW, kind(requests), known.policy, known.budget, known.model, seed=known.seed)
    if not cold:
        warm().fill(manager.view, ["topic"])
    rows: list[tuple[object, ...]] = []
    done, waiting = [], sorted([*events(), *more])
    for k in range(1, SECONDS + 1):
        now = k * 1000
        due = [event for event in waiting if event[0] <= now]
        waiting = waiting[len(due) :]
        evaluation = manager.evaluate(now, due)
        done.append(evaluation)
        rows += [
            (k, now, a.key, a.entry, a.value, a.weight, a.refreshed, round(a.freshness, 9)) for a in evaluation.answers
        ]
    return sorted(rows), done


def counts_of(part: Sequence[Event], window: WindowSpec = WINDOW) -> pa.Table:
    """What Spark counts of a micro-batch, counted here."""
    at = np.array([time for time, _ in part])
    one = np.ones(at.size, np.int64)
    names = [FIRST, LAST, EARLIEST, LATEST, COUNT]
    columns = dict(zip(names, [window.first(at), window.last(at), at, at, one], strict=True))
    return pa.table({"topic": [topic for _, topic in part], **columns})


def kill_at(step: str, number: int) -> Reached:
    """Ends this process for good when `step` is reached for the Nth time."""
    left = [number]

    def reached(name: str) -> None:
        left[0] -= name == step
        if name == step and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def batches(place: Path, reached: Reached = lambda _: None, policy: Policy | str = "gain") -> Batches:
    """The query without Spark: answers go to one Parquet file per micro-batch."""

    def write(steps: Sequence[Step], batch: int) -> None:
        parquet.write_table(
            pa.concat_tables([step.answers for step in steps if step.answers is not None]),
            place / "answers" / f"{batch}.parquet",
        )

    (place / "answers").mkdir(parents=True, exist_ok=True)
    shape = Shape.of(StructType().add("topic", "string"), ["topic"], "string")
    known, source = settings(policy), RecordingFetcher(Counted(place / "requests"), reached)
    return Batches.of(known, source, place / "state", partial(on_the_driver, known, source, shape), write)


def run(place: Path, reached: Reached = lambda _: None) -> None:
    """All micro-batches from the first one that was not committed."""
    query = batches(place, reached)
    done, _ = query.committed()
    for number, part in enumerate(parts()):
        if number >= done:  # Spark, too, may ask again for one that was committed
            query.process(number, counts_of(part))


def asked(place: Path) -> dict[int, list[str]]:
    """What the source was asked, per instant."""
    lines = [json.loads(line) for line in (place / "requests").read_text().splitlines()]
    found: dict[int, list[str]] = {}
    for line in lines:
        found.setdefault(line["now"], []).extend(line["keys"])
    return found


def drop(place: Path, files: int = 5) -> None:
    """The events as files in a directory, one per micro-batch."""
    (place / "events").mkdir(parents=True)
    for number, part in enumerate(parts(files)):
        columns = {"event_time": [datetime.fromtimestamp(at / 1000, UTC) for at, _ in part]}
        path = place / "events" / f"{number:03}.parquet"
        parquet.write_table(pa.table({**columns, "topic": [topic for _, topic in part]}), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their times


def stream(spark: "SparkSession", place: Path) -> "DataFrame":
    schema = "event_time timestamp, topic string"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(place / "events"))


def query(spark: "SparkSession", place: Path, nullable: bool = True, **changes: Any) -> "DataStreamWriter":
    """The query on Spark, ready to start; as Spark sees it, keys may be missing or may not."""
    events = stream(spark, place)
    if not nullable:
        events = events.withColumn("topic", functions.coalesce("topic", functions.lit("none")))
    known: dict[str, Any] = {
        "on": "topic", "source": Counted(place / "requests"), "policy": "gain", "budget": GAMMA, "window": "4s",
        "step": "1s", "state": place / "state", "sink": place / "answers", "seed": 5, "warm": warm(),
    }  # fmt: skip
    return enrich_windows(events, **{**known, **changes})


def finish(writer: "DataStreamWriter") -> None:
    """All that is there, then the end."""
    writer.trigger(availableNow=True).start().awaitTermination()


def run_on_spark(place: Path, reached: Reached) -> None:
    """The query until it has read all files, or is killed."""
    spark = spark_session("local[2]", SETTINGS)
    finish(query(spark, place, reached=reached, sink=Files(str(place / "answers"), "json")))
    spark.stop()


def live(kind: str, place: Path, step: str = "", number: int = 0) -> None:
    """In a process of its own, until all is done or it is killed."""
    {"plain": run, "spark": run_on_spark}[kind](place, kill_at(step, number))


if __name__ == "__main__":
    live(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
