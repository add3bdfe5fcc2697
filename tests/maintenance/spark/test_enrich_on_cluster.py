"""A graph that stays on the cluster: from Rounds of its parts a policy chooses what it chooses from one."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import enriched
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_policies import ApartGain, ApartLru, ApartPlan, ApartRandom, ApartSbm, Dearest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from freshkeeper.maintenance.analysis.spark_session import LEAST_JAVA, java_version, spark_session
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule
from freshkeeper.maintenance.spark.enrich import OnCluster, Warm
from freshkeeper.maintenance.spark.enrichment import candidates, on_executors
from freshkeeper.maintenance.spark.enrichment.micro_batches import Batches
from freshkeeper.maintenance.spark.enrichment.on_driver import Settings, Shape, Step
from freshkeeper.maintenance.spark.enrichment.once import RecordingFetcher
from freshkeeper.policies.plan import Plan
from freshkeeper.policies.random import Random
from freshkeeper.policies.ranked import NO, Ranked
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


@dataclass
class Lives:
    """A query on the cluster, started anew for every micro-batch, each time with one shard more than before."""

    spark: SparkSession
    place: Path
    settings: Settings
    candidates: int = 100_000
    value: str = "string"
    steps: list[Step] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    query: Batches | None = None
    source: enriched.Counted | None = None

    def start(self, shards: int) -> None:
        graph = OnCluster(str(self.place / "shared"), shards, self.candidates)
        source = RecordingFetcher(self.source or enriched.Counted(self.place / "requests"), lambda _: None)
        shape = Shape.of(StructType().add("topic", "string"), ["topic"], self.value)
        begin = on_executors.on_the_cluster(self.settings, source, shape, self.spark, graph, self.place / "answers")
        self.query = Batches.of(self.settings, source, self.place / "state", begin, self.write)

    def process(self, number: int, events: Sequence[tuple[int, str]]) -> None:
        """One micro-batch."""
        self.start(2 + number)
        assert self.query is not None
        self.query.process(number, self.spark.createDataFrame(enriched.counts_of(events)))

    def write(self, steps: Sequence[Step], batch: int) -> None:
        self.steps += steps
        for row in parquet.read_table(self.place / "answers" / f"_{batch}").to_pylist():
            self.rows.append((*list(row.values())[:-1], round(row["fresh"], 9)))

    @property
    def keeper(self) -> on_executors.OnSpark:
        assert self.query is not None
        evaluator = self.query.committed()[1]
        assert isinstance(evaluator, on_executors.OnSpark)
        return evaluator


def lived(
    spark: SparkSession,
    place: Path,
    policy: Ranked,
    model: FixedSchedule | None,
    candidates: int = 100_000,
    source: enriched.Counted | None = None,
    more: Sequence[enriched.Event] = (),
) -> Lives:
    """The first seconds, in two micro-batches."""
    lives = Lives(spark, place, enriched.settings(policy, model), candidates, source=source)
    early = [event for event in sorted([*enriched.events(), *more]) if event[0] <= UNTIL * 1000 + 500]
    lives.process(0, early[: len(early) // 2])
    lives.process(1, early[len(early) // 2 :])
    return lives


@pytest.mark.parametrize(
    ("policy", "model"),
    [
        (ApartSbm(), enriched.schedule()),
        (Sbm(), None),
        (ApartGain(expect=False, windows=2), enriched.schedule()),
        (Random(), None),
        (ApartRandom(), None),
        (ApartPlan(expect=False), None),
        (Plan(expect=False), None),
        (ApartPlan(), None),
        (ApartGain(), None),
        (ApartGain(), enriched.schedule()),
        (Dearest(), None),
    ],
    ids=lambda each: getattr(each, "name", "learned" if each is None else "exact"),
)
def test_shards_make_the_same_choices_and_give_the_same_answers(
    spark: SparkSession, tmp_path: Path, policy: Ranked, model: FixedSchedule | None
) -> None:
    lives = lived(spark, tmp_path, policy, model)
    expected, evaluations = enriched.single_process(tmp_path / "elsewhere", policy, model)
    assert len(lives.steps) == UNTIL
    for step, evaluation in zip(lives.steps, evaluations, strict=False):
        if set(step.refreshes.keys) != set(evaluation.refreshes.keys):
            assert policy in (Sbm(), Random(), Plan(expect=False))
            assert sorted(step.refreshes.gain) == pytest.approx(sorted(evaluation.refreshes.gain))
            return  # of entries that are alike it drew others, and what follows is another story
        assert set(step.refreshes.keys) == set(evaluation.refreshes.keys)
        for name in ("k", "t_ms", "results", "window_mappings", "candidates", "stale", "budget", "spent", "carried"):
            assert getattr(step.record, name) == getattr(evaluation.record, name), name
        assert step.record.expected_fresh == pytest.approx(evaluation.record.expected_fresh)
    assert sorted(lives.rows) == [row for row in expected if row[0] <= UNTIL]
    assert len(lives.keeper.manager.view.values) < enriched.USERS


def test_what_comes_after_its_evaluation_comes_into_its_shard_and_is_told_of_who_asked(
    spark: SparkSession, tmp_path: Path
) -> None:
    lives = lived(spark, tmp_path, ApartSbm(), enriched.schedule(), source=enriched.Slow(tmp_path / "requests"))
    expected, evaluations = enriched.single_process(
        tmp_path / "elsewhere", ApartSbm(), enriched.schedule(), kind=enriched.Slow
    )
    assert sorted(lives.rows) == [row for row in expected if row[0] <= UNTIL]
    for step, evaluation in zip(lives.steps, evaluations, strict=False):
        found = [
            sorted(zip(told.keys, told.k.tolist(), told.t_ms.tolist(), map(str, told.errors), strict=True))
            for told in (step.refreshes, evaluation.refreshes)
        ]
        assert found[0] == found[1]
    asked = [k for step in lives.steps for k in step.refreshes.k.tolist() if k != step.record.k]
    assert asked == [step.record.k - 1 for step in lives.steps[1:]]


@pytest.mark.parametrize("policy", [ApartGain(), ApartGain(expect=False, windows=1)])
def test_keys_that_no_shard_has_are_misses_of_the_driver_and_what_they_have_stays_there(
    spark: SparkSession, tmp_path: Path, policy: Ranked
) -> None:
    more = [(at, f"t{8 + at // 90 % 5}") for at in range(300, UNTIL * 1000, 90)]
    lives = lived(spark, tmp_path, policy, None, source=enriched.Strange(tmp_path / "requests"), more=more)
    expected, evaluations = enriched.single_process(tmp_path / "elsewhere", policy, kind=enriched.Strange, more=more)
    asked = [key for step in lives.steps for key in step.refreshes.keys]
    assert {"t8", "t9"} < {str(key) for key in asked}
    for step, evaluation in zip(lives.steps, evaluations, strict=False):
        assert set(step.refreshes.keys) == set(evaluation.refreshes.keys)
        for name in ("results", "window_mappings", "candidates", "stale", "spent", "carried", "missed"):
            assert getattr(step.record, name) == pytest.approx(getattr(evaluation.record, name)), name
        assert step.record.expected_fresh == pytest.approx(evaluation.record.expected_fresh)
    assert sorted(lives.rows) == [row for row in expected if row[0] <= UNTIL]


def test_an_entry_of_a_shard_that_a_miss_brings_is_new_in_its_shard(spark: SparkSession, tmp_path: Path) -> None:
    settings = enriched.settings(ApartLru())
    lives = Lives(spark, tmp_path, settings)
    topics = [f"t{n}" for n in range(8, 20)]
    lives.process(0, [(500, "t0"), *((600 + n, topic) for n, topic in enumerate(topics)), (1001, "t0")])
    lives.process(1, [(2001, "t0")])
    (first, *_), rows = lives.steps, {row[1:4]: row for row in lives.rows if row[0] == 1}
    fetched = {user for key in first.refreshes.keys if key in topics for user in enriched.users_of(key)}
    assert fetched
    both = fetched & set(enriched.users_of("t0"))
    assert both
    assert {rows[1000, "t0", user][6] for user in both} == {1000}


def test_after_a_sink_that_failed_the_micro_batch_is_made_again_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """In the same process, where workers hold shards that have seen it all."""
    lives = Lives(spark, tmp_path, enriched.settings(ApartGain()))
    early = [event for event in enriched.events() if event[0] <= UNTIL * 1000 + 500]
    fails = [False, True, False, True]

    def write(steps: Sequence[Step], batch: int) -> None:
        if fails.pop():
            raise OSError("no space left on device")
        lives.write(steps, batch)

    lives.start(2)
    assert lives.query is not None
    lives.query.write = write
    for number, part in enumerate((early[: len(early) // 2], early[len(early) // 2 :])):
        counts = spark.createDataFrame(enriched.counts_of(part))
        with pytest.raises(OSError, match="no space left"):
            lives.query.process(number, counts)
        lives.query.process(number, counts)
    expected, _ = enriched.single_process(tmp_path / "elsewhere", ApartGain())
    assert sorted(lives.rows) == [row for row in expected if row[0] <= UNTIL]


@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_values_that_are_numbers_change_when_they_do_however_answers_write_them(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    start, alone = enriched.warm(), enriched.Numbers(tmp_path / "elsewhere")
    assert isinstance(start.copies, pa.Table)
    numbers = start.copies["value"].cast(pa.int64())
    warm = Warm(start.edges, start.copies.drop_columns(["value"]).append_column("value", numbers.combine_chunks()), 0)
    known = replace(enriched.settings(ApartGain()), warm=warm)
    lives = Lives(spark, tmp_path, known, source=enriched.Numbers(tmp_path / "requests"), value=kind)
    lives.process(0, [event for event in enriched.events() if event[0] <= UNTIL * 1000 + 500])
    manager = Manager(enriched.WINDOW, alone, known.policy, known.budget, known.model, seed=known.seed)
    warm.fill(manager.view, ["topic"])
    for step in lives.steps:
        now = step.record.t_ms
        due = [event for event in enriched.events() if now - 1000 < event[0] <= now]
        evaluation = manager.evaluate(now, due)
        told = [
            sorted(zip(each.keys, each.changed.tolist(), strict=True))
            for each in (step.refreshes, evaluation.refreshes)
        ]
        assert told[0] == told[1]
    assert {type(row[4]) for row in lives.rows} == {str if kind == "string" else int}


def test_those_that_are_alike_are_as_likely_whether_a_shard_has_them_or_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    lives = Lives(spark, tmp_path, enriched.settings(Random()))
    lives.process(0, [(500, "t0"), (1001, "t0")])
    manager, names = lives.keeper.manager, [f"t{n}" for n in range(8, 13)]
    decision = manager.decide(2000, np.full(5, 1500), manager.view.sn_slots(names))
    own, rng = 0, np.random.default_rng(0)
    for _ in range(400):  # 5 misses beside 15 that are the best of 95 in shards
        ties = np.sort(rng.random(95))[:15]
        users, copies = [f"u{n}" for n in range(15)], ["0"] * 15
        rows = pa.table({"sr": users, "value": copies, "refreshed_ms": np.zeros(15, np.int64)})
        rows = rows.append_column("score", pa.array(np.zeros(15))).append_column("tie", pa.array(ties))
        chosen = lives.keeper._chosen(replace(decision, budget=replace(decision.budget, available=15.0)), rows, 15)
        own += int(manager.view.missing(chosen.chosen).sum())
    assert own / 400 == pytest.approx(15 * 5 / 100, rel=0.25)


@pytest.mark.parametrize(("policy", "model"), [(ApartSbm(), enriched.schedule()), (ApartGain(), None)])
def test_with_one_price_for_all_shards_the_choice_is_that_of_all_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Ranked, model: FixedSchedule | None
) -> None:
    left: list[int] = []
    together = candidates.Best.together

    def noted(parts: Sequence[candidates.Best], most: int) -> candidates.Best:
        left.append(sum(part.rows.num_rows for part in parts))
        return together(parts, most)

    monkeypatch.setattr(candidates.Best, "together", noted)
    lives = lived(spark, tmp_path, policy, model, candidates=2 * enriched.GAMMA - 1)
    _, evaluations = enriched.single_process(tmp_path / "elsewhere", policy, model)
    for step, evaluation in zip(lives.steps, evaluations, strict=False):
        assert set(step.refreshes.keys) == set(evaluation.refreshes.keys)
    assert max(left) < 2 * enriched.GAMMA  # where all that is best in its shard were this


@given(
    st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False, allow_infinity=False)), min_size=1),
    st.integers(1, 5), st.integers(1, 20), st.integers(1, 20),
)  # fmt: skip
def test_a_price_leaves_enough_and_hardly_more_but_for_those_that_are_equal(
    scores: list[float], parts: int, most: int, every: int
) -> None:
    split = np.array_split(np.array(scores), parts)
    price = candidates.clearing_price([candidates.offers(part, most, every) for part in split], most, every)
    worth = np.array(scores) >= price
    assert worth.sum() >= min(most, len(scores))
    more = (np.array(scores) > price).sum()
    assert price == NO or more < most + parts * every


@given(st.lists(st.integers(-3, 3).map(float)), st.integers(0, 20), st.floats(-4, 4))
def test_the_highest_are_those_of_a_sorted_list(scores: list[float], most: int, price: float) -> None:
    tie = np.random.default_rng(0).random(len(scores))
    chosen = candidates.highest(np.array(scores), tie, most, price).tolist()
    ranked = sorted((n for n, score in enumerate(scores) if score >= price), key=lambda n: (-scores[n], tie[n]))
    assert chosen == ranked[:most]


def test_of_many_that_are_alike_each_is_as_likely_however_the_graph_is_parted() -> None:
    rng, seen = np.random.default_rng(0), np.zeros(12)
    for _ in range(600):
        parts = []
        for rows in (range(2), range(2, 12)):
            tie = rng.random(len(rows))
            chosen = candidates.highest(np.zeros(len(rows)), tie, 3)
            columns = {"sr": [rows[n] for n in chosen], "score": np.zeros(chosen.size), "tie": tie[chosen]}
            parts.append(candidates.Best(pa.table(columns), np.zeros(2, np.int64)))
        seen[candidates.Best.together(parts, 3).rows["sr"].to_pylist()] += 1
    assert seen.sum() == 1800
    assert seen[:2].mean() == pytest.approx(seen[2:].mean(), rel=0.15)


def test_what_no_restart_needs_is_removed_and_the_next_one_begins_with_the_snapshot(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_executors, "REPLAYED", 3)
    lives = lived(spark, tmp_path, ApartSbm(), None)
    places = {name: tmp_path / "shared" / name for name in ("counts", "log", "snapshots")}
    assert lives.keeper.base == 3
    assert sorted(path.name for path in places["snapshots"].iterdir()) == ["3.0", "3.1"]
    assert sorted(path.name for path in places["log"].iterdir()) == ["4.asked", "4.came"]
    (places["snapshots"] / ".2.0.killed").write_bytes(b"half of a")
    (tmp_path / "answers" / "_0").mkdir()
    shutil.rmtree(places["counts"])  # of what came before the snapshot nothing is read again
    lives.process(2, [((UNTIL + 2) * 1000 + 1, "t0")])
    kept = {name: sorted(path.name for path in place.iterdir()) for name, place in places.items()}
    assert kept == {"counts": [], "log": [], "snapshots": ["6.0", "6.1"]}
    assert not list((tmp_path / "answers").iterdir())
    expected, _ = enriched.single_process(tmp_path / "elsewhere", ApartSbm())
    assert sorted(row for row in lives.rows if cast("int", row[0]) <= UNTIL) == [
        row for row in expected if row[0] <= UNTIL
    ]


def test_micro_batches_between_two_evaluations_do_not_leave_more_and_more_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_executors, "REPLAYED", 3)
    lives = Lives(spark, tmp_path, enriched.settings(ApartSbm()))
    for number in range(4):
        lives.process(number, [(number + 1, "t0")])
    assert len(list((tmp_path / "shared" / "counts").iterdir())) == 4
    lives.process(4, [(1001, "t0")])
    assert not list((tmp_path / "shared" / "counts").iterdir())
    assert [step.record.results for step in lives.steps] == [4 * 4]


def test_what_costs_nothing_is_all_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    source = enriched.Free(tmp_path / "requests")
    lives = Lives(spark, tmp_path, enriched.settings("lru"), source=source)
    lives.process(0, [(500, "t0"), (600, "t1"), (1001, "t0")])
    assert set(lives.steps[0].refreshes.keys) == {*enriched.users_of("t0"), *enriched.users_of("t1")}


def test_keys_of_many_edges_edges_named_twice_and_elements_that_are_late(spark: SparkSession, tmp_path: Path) -> None:
    entries = [f"u{n}" for n in range(300)]
    topics, srs = [*["all"] * 300, "one", "one", "one"], [*entries, "u7", "u7", "nowhere"]
    copies = pa.table({"sr": entries, "value": ["0"] * 300})
    warm = Warm(pa.table({"topic": topics, "sr": srs}), copies, 0)
    lives = Lives(spark, tmp_path, replace(enriched.settings("lru"), warm=warm))
    lives.process(0, [(500, "all"), (600, "one"), (1001, "all")])
    lives.process(1, [(100, "one"), (2001, "one")])
    assert [step.record.window_mappings for step in lives.steps] == [2, 4]
    assert [step.record.results for step in lives.steps] == [301, 602]
    of_one = [(row[0], row[3], row[5]) for row in lives.rows if row[2] == "one"]
    assert of_one == [(1, "u7", 1), (2, "u7", 2)]
    assert sorted(str(row[3]) for row in lives.rows if row[:3] == (2, 2000, "all")) == sorted(entries)


@pytest.mark.parametrize("as_files", [True, False])
def test_a_stream_with_its_graph_on_the_cluster_gives_the_answers_of_one_manager(
    spark: SparkSession, tmp_path: Path, as_files: bool
) -> None:
    enriched.drop(tmp_path, 6)
    for path in sorted((tmp_path / "events").iterdir())[1:]:
        path.unlink()
    tables: list[pa.Table] = []
    sink = tmp_path / "answers" if as_files else lambda frame, _: tables.append(frame.toArrow())
    graph = OnCluster(str(tmp_path / "window"))
    query = enriched.query(spark, tmp_path, policy=ApartLru(), graph=graph, sink=sink, nullable=as_files)
    enriched.finish(query)
    if as_files:
        tables.append(spark.read.parquet(str(tmp_path / "answers")).drop("batch_id").toArrow())
    found = [list(row.values())[:-1] for table in tables for row in table.to_pylist()]
    last = max(row[0] for row in found)
    expected = [
        list(row[:-1]) for row in enriched.single_process(tmp_path / "elsewhere", ApartLru())[0] if row[0] <= last
    ]
    assert last > 4
    assert sorted(found) == expected


def test_a_shared_directory_is_none_by_its_address() -> None:
    with pytest.raises(ConfigError, match="shared is 'hdfs://host/window'; it is a directory that all have mounted"):
        OnCluster("hdfs://host/window")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy": "bundle"}, "'bundle' is no score of each entry by itself under learned knowledge"),
        (
            {"policy": Plan(expect=False), "model": enriched.schedule()},
            "'plan' is no score of each entry by itself under",
        ),
        ({"policy": "sbm", "warm": None}, "needs a warm start"),
        ({"policy": "sbm", "case": "aggregate"}, "case bgp"),
    ],
)
def test_what_shards_cannot_do_is_said_before_the_query_starts(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    enriched.drop(tmp_path, 1)
    with pytest.raises(ConfigError, match=said):
        enriched.query(spark, tmp_path, graph=OnCluster(str(tmp_path / "window")), **changes)
