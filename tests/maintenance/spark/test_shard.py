"""A shard is a fold over a log: whoever holds it, as of whenever, comes to the same."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.types import StructType

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.spark.enrichment import shard
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import COUNT, EARLIEST, HASH
from freshkeeper.maintenance.spark.enrichment.candidates import Best
from freshkeeper.maintenance.spark.enrichment.on_driver import Shape
from freshkeeper.maintenance.spark.enrichment.shard import EvaluationBeliefs, Shard, ShardModel, ShardPlan, work_on
from freshkeeper.maintenance.spark.enrichment.shard_files import ShardFiles, write_arrow
from freshkeeper.policies.base import Knowledge
from freshkeeper.policies.gain import Gain

Held = dict[tuple[Path, int], Shard]
KEYS = 6


@pytest.fixture
def plan(tmp_path: Path) -> ShardPlan:
    """Six keys with two entries each, which one shard has."""
    entries = pa.table({"sr": [f"u{n}" for n in range(KEYS)], "value": ["0"] * KEYS})
    keys = pa.table({HASH: np.arange(KEYS), "topic": [f"t{n}" for n in range(KEYS)]})
    neighbours = np.array([[n, (n + 1) % KEYS] for n in range(KEYS)], np.int32)
    ShardFiles(entries, keys, 2 * np.arange(KEYS + 1), neighbours.ravel()).write(tmp_path / "graph" / "0")
    shape = Shape.of(StructType().add("topic", "string"), ["topic"], "string")
    policy = Gain(expect=False, windows=1)
    return ShardPlan(tmp_path, 1, "life", WindowSpec(4000, 1000), policy, Knowledge.LEARNED, Price(), 7, 0, shape)


def arrive(plan: ShardPlan, batch: int, at: int) -> None:
    counts = {HASH: np.arange(KEYS), EARLIEST: np.full(KEYS, at), COUNT: np.arange(1, KEYS + 1)}
    write_arrow(pa.table(counts), plan.path("counts", batch) / "0.arrow")


def ask(plan: ShardPlan, k: int, batch: int) -> None:
    asked = EvaluationBeliefs(batch, np.array([0.001]), np.empty(0, np.int64), None)
    plan.path("log", k, "asked").parent.mkdir(exist_ok=True)
    plan.path("log", k, "asked").write_bytes(pickle.dumps(asked))


def come(plan: ShardPlan, k: int, best: Best) -> None:
    keys, rows = best.rows["sr"], best.rows.num_rows
    came = {"sr": keys, "value": [f"of {k}"] * rows, "slot": np.arange(rows, dtype=np.int32)}
    write_arrow(pa.table(came | {"refreshed_ms": np.full(rows, k * 1000)}), plan.path("log", k, "came"))


def test_a_worker_that_slept_through_a_snapshot_goes_on_from_it(
    plan: ShardPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is gone: of the evaluation at which it chose another worker wrote answers and the snapshot."""
    workers: list[Held] = [{}, {}, {}]

    def best(worker: int, k: int, since: int, base: int | None) -> Best:
        monkeypatch.setattr(shard, "_held", workers[worker])
        (found,) = work_on(plan, k, since, base, lambda own: own.best(2, -np.inf), [0])
        return found

    def answer(worker: int, k: int, since: int, base: int | None, save: bool) -> None:
        monkeypatch.setattr(shard, "_held", workers[worker])
        list(work_on(plan, k, since, base, lambda own: own.answer(tmp_path / "answers", save), [0]))

    arrive(plan, 0, 500)
    for k in (1, 2):
        ask(plan, k, 0)
        come(plan, k, best(0, k, 1, None))
        answer(0 if k == 1 else 1, k, 1, None, save=k == 2)
    for name in ("1.asked", "1.came", "2.asked", "2.came"):
        plan.path("log", name).unlink()
    arrive(plan, 1, 2500)
    ask(plan, 3, 1)
    found = [best(worker, 3, 3, 2).rows for worker in (0, 1, 2)]
    assert found[0] == found[1] == found[2]
    come(plan, 3, Best(found[0], np.zeros(2, np.int64)))
    tables = []
    for worker in (0, 1, 2):
        answer(worker, 3, 3, 2, save=False)
        tables.append(parquet.read_table(tmp_path / "answers" / "3-0.parquet"))
    assert tables[0] == tables[1] == tables[2]
    assert "of 3" in tables[0]["value"].to_pylist()


@pytest.mark.parametrize(("interval", "phase"), [(0, 0), (None, 0), (5, None)])
def test_a_schedule_that_is_none_is_refused(interval: int | None, phase: int | None) -> None:
    entries = pa.table({"sr": ["u"], "value": ["0"], "interval_ms": pa.array([interval], pa.int64())})
    with pytest.raises(InputError, match="entry 0 has a change interval of"):
        ShardModel(Knowledge.EXACT, entries.append_column("phase_ms", pa.array([phase], pa.int64())))
