"""A graph that stays on the cluster: from Rounds of its parts a policy chooses what it chooses from one."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import enriched
import numpy as np
import own_policies
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshkeeper.maintenance.pipeline.enrich import OnCluster
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, Step
from freshkeeper.maintenance.pipeline.spark_session import LEAST_JAVA, java_version, spark_session
from freshkeeper.maintenance.view.schedule import FixedSchedule
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.gain import Gain
from freshkeeper.policies.plan import Plan
from freshkeeper.policies.random import Random
from freshkeeper.policies.ranked import Ranked
from freshkeeper.policies.sbm import Sbm

pytestmark = [
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason=f"no Java {LEAST_JAVA}: make java installs it"),
    pytest.mark.filterwarnings("default"),
]
UNTIL = 4


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2]", enriched.SETTINGS | {"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


def on_the_cluster(
    spark: SparkSession, place: Path, policy: Ranked, model: FixedSchedule | None
) -> tuple[list[Step[Any]], list[tuple[float | str, ...]], Batches[Any]]:
    """The steps of the first seconds, in two micro-batches with a restart between them, and answers as rows."""
    from freshkeeper.maintenance.pipeline.enrichment.on_driver import Shape
    from freshkeeper.maintenance.pipeline.enrichment.on_executors import WindowParts, on_the_cluster

    done: list[Step[Any]] = []
    answers: list[pa.Table] = []

    def write(steps: Sequence[Step[Any]], batch: int) -> None:
        done.extend(steps)
        answers.extend(step.answers.toArrow() for step in steps)

    shape = Shape(["topic"], [pa.string()], pa.string())
    parts, source = WindowParts(spark, str(place / "window")), enriched.Counted(place / "requests")
    settings = enriched.settings(policy, model)
    early = [event for event in enriched.events() if event[0] <= UNTIL * 1000 + 500]
    for number, part in enumerate((early[: len(early) // 2], early[len(early) // 2 :])):
        query = on_the_cluster(settings, source, place / "state", shape, write, lambda _: None, parts)
        query.process(number, spark.createDataFrame(enriched.counts_of(part)))
    rows = pa.concat_tables(answers).to_pylist()
    return done, sorted((*list(row.values())[:-1], round(row["fresh"], 9)) for row in rows), query


@pytest.mark.parametrize(
    ("policy", "model"),
    [
        (Sbm(), enriched.schedule()),
        (Gain(expect=False, windows=2), enriched.schedule()),
        (Random(), None),
        (Plan(expect=False), None),
        (own_policies.Dearest(), None),
    ],
    ids=lambda each: getattr(each, "name", "learned" if each is None else "exact"),
)
def test_a_plan_on_spark_makes_the_same_choices_and_gives_the_same_answers(
    spark: SparkSession, tmp_path: Path, policy: Ranked, model: FixedSchedule | None
) -> None:
    done, rows, query = on_the_cluster(spark, tmp_path, policy, model)
    expected, evaluations = enriched.single_process(tmp_path / "elsewhere", policy, model)
    assert len(done) == UNTIL
    for step, evaluation in zip(done, evaluations, strict=False):
        assert set(step.refreshes.keys) == set(evaluation.refreshes.keys)
        for name in ("k", "t_ms", "results", "window_mappings", "candidates", "stale", "budget", "spent", "carried"):
            assert getattr(step.record, name) == getattr(evaluation.record, name), name
        assert step.record.expected_fresh == pytest.approx(evaluation.record.expected_fresh)
    assert rows == [row for row in expected if row[0] <= UNTIL]
    evaluator: Any = query.state.evaluator
    assert len(evaluator.touched.values) < enriched.USERS or policy.name == "lru"


def test_of_many_that_are_alike_each_is_as_likely_however_the_graph_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    from freshkeeper.maintenance.pipeline.enrichment import scored_parts

    monkeypatch.setattr(scored_parts, "TIES", 0)
    rng, seen = np.random.default_rng(0), np.zeros(12)
    for _ in range(600):
        parts = []
        for rows in (range(2), range(2, 12)):
            tie = rng.random(len(rows))
            chosen, cut = scored_parts.highest(np.zeros(len(rows)), tie, 3)
            columns = {"sr": [rows[n] for n in chosen], "score": np.zeros(chosen.size), "tie": tie[chosen]}
            parts.append(scored_parts.Best(pa.table(columns), cut=cut))
        seen[scored_parts.together(parts, 3, pa.table({})).rows["sr"].to_pylist()] += 1
    assert seen.sum() == 1800
    assert seen[:2].mean() == pytest.approx(seen[2:].mean(), rel=0.15)


def test_counts_that_no_window_needs_any_more_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    _, _, query = on_the_cluster(spark, tmp_path, Sbm(), None)
    assert sorted(path.name for path in (tmp_path / "window").iterdir()) == ["0", "1"]
    query.process(2, spark.createDataFrame(enriched.counts_of([((UNTIL + 2) * 1000 + 1, "t0")])))
    assert sorted(path.name for path in (tmp_path / "window").iterdir()) == ["1", "2"]


def test_a_stream_with_its_graph_on_the_cluster_gives_the_answers_of_one_manager(
    spark: SparkSession, tmp_path: Path
) -> None:
    enriched.drop(tmp_path, 6)
    for path in sorted((tmp_path / "events").iterdir())[1:]:
        path.unlink()
    graph = OnCluster(str(tmp_path / "window"))
    enriched.finish(enriched.query(spark, tmp_path, policy="lru", graph=graph))
    found = spark.read.parquet(str(tmp_path / "answers")).drop("batch_id", "fresh").toArrow().to_pylist()
    last = max(row["k"] for row in found)
    expected = [row[:-1] for row in enriched.single_process(tmp_path / "elsewhere", "lru")[0] if row[0] <= last]
    assert last > 4
    assert sorted(tuple(row.values()) for row in found) == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy": "gain"}, "knows nothing of arrivals to come: gain with expect=False"),
        ({"policy": "bundle"}, "'bundle' is no score of each entry by itself under learned knowledge"),
        (
            {"policy": Plan(expect=False), "model": enriched.schedule()},
            "'plan' is no score of each entry by itself under",
        ),
        ({"policy": "sbm", "warm": None}, "needs a warm start"),
        ({"policy": "sbm", "case": "aggregate"}, "case bgp"),
    ],
)
def test_what_the_plan_cannot_do_is_said_before_the_query_starts(
    spark: SparkSession, tmp_path: Path, changes: Mapping[str, FixedSchedule | Plan | str | None], said: str
) -> None:
    enriched.drop(tmp_path, 1)
    with pytest.raises(ConfigError, match=said):
        enriched.query(spark, tmp_path, graph=OnCluster(str(tmp_path / "window")), **changes)
