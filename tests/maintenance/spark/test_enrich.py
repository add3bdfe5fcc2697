"""A Spark stream with answers from a view: the same answers and the same spending as one Manager, and clear errors."""

from collections.abc import Iterator
from pathlib import Path

import enriched
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshkeeper.maintenance.analysis.spark_session import LEAST_JAVA, java_version, spark_session
from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.fetching.endpoint import Expanded, Key
from freshkeeper.maintenance.spark.enrich import Warm, enrich_windows, read_journal
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import FIRST, LAST, counted

pytestmark = [
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason=f"no Java {LEAST_JAVA}: make java installs it"),
    pytest.mark.filterwarnings("default"),
]
COLUMNS = ["k", "t_ms", "topic", "sr", "value", "weight", "refreshed_ms", "fresh"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2]", enriched.SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def dropped(tmp_path: Path) -> Path:
    enriched.drop(tmp_path)
    return tmp_path


def rows(spark: SparkSession, place: Path) -> list[tuple[float | str, ...]]:
    found = spark.read.parquet(str(place / "answers")).select(*COLUMNS).collect()
    return sorted((*row[:-1], round(row.fresh, 9)) for row in found)


@pytest.mark.parametrize("cold", [False, True])
def test_answers_and_spending_equal_those_of_one_manager(spark: SparkSession, dropped: Path, cold: bool) -> None:
    enriched.finish(enriched.query(spark, dropped, warm=None if cold else enriched.warm()))
    expected, done = enriched.single_process(dropped / "elsewhere", cold=cold)
    assert rows(spark, dropped) == expected
    journal = read_journal(dropped / "state", "evaluations")
    assert journal["spent"].to_pylist() == [evaluation.record.spent for evaluation in done]
    assert journal["expected_fresh"].to_pylist() == pytest.approx([e.record.expected_fresh for e in done])
    assert (dropped / "requests").read_text() == (dropped / "elsewhere").read_text()


def test_a_query_goes_on_where_it_stopped(spark: SparkSession, dropped: Path) -> None:
    held = sorted((dropped / "events").iterdir())[2:]
    for path in held:
        path.rename(dropped / path.name)
    enriched.finish(enriched.query(spark, dropped))
    for path in held:
        (dropped / path.name).rename(path)
    enriched.finish(enriched.query(spark, dropped))
    assert rows(spark, dropped) == enriched.single_process(dropped / "elsewhere")[0]


def test_any_function_is_a_sink_and_keys_may_be_several_columns(spark: SparkSession, dropped: Path) -> None:
    got = []
    events = enriched.stream(spark, dropped).selectExpr(
        "event_time", "substr(topic, 1, 1) AS kind", "int(substr(topic, 2)) AS n"
    )

    class Source(enriched.Counted):
        def expand(self, sn: Key, now: int) -> Expanded:
            assert isinstance(sn, tuple)
            return super().expand(f"{sn[0]}{sn[1]}", now)

    writer = enrich_windows(
        events, on=["kind", "n"], source=Source(dropped / "requests"), policy="lru", budget=enriched.GAMMA,
        window=4000, step=1000, state=dropped / "state", sink=lambda frame, n: got.append((n, frame.toArrow())),
        value="string", seed=5,
    )  # fmt: skip
    enriched.finish(writer)
    assert [number for number, _ in got] == sorted({number for number, _ in got})
    table = pa.concat_tables([table for _, table in got])
    expected = enriched.single_process(dropped / "elsewhere", "lru", cold=True)[0]
    columns = [table[name].to_pylist() for name in ("k", "kind", "n", "sr", "value", "weight")]
    found = sorted((k, f"{kind}{n}", *rest) for k, kind, n, *rest in zip(*columns, strict=True))
    assert found == sorted((k, sn, sr, value, weight) for k, _, sn, sr, value, weight, _, _ in expected)


def test_a_function_from_keys_to_values_is_a_source_as_it_is_for_a_manager(spark: SparkSession, dropped: Path) -> None:
    asked, got = [], []

    def lengths(keys: list[str]) -> dict[str, int]:
        asked.append(list(keys))
        return {key: len(key) for key in keys}

    writer = enrich_windows(
        enriched.stream(spark, dropped), on="topic", source=lengths, policy="lru", budget=2, window=4000, step=1000,
        state=dropped / "state", sink=lambda frame, n: got.append(frame.toArrow()), value="bigint",
    )  # fmt: skip
    enriched.finish(writer)
    table = pa.concat_tables(got)
    assert table.num_rows
    assert table["value"].to_pylist() == [len(topic) for topic in table["topic"].to_pylist()]
    assert len(asked) == sum(read_journal(dropped / "state", "evaluations")["spent"].to_pylist())


@pytest.mark.parametrize("closure", list(Closure))
def test_spark_places_elements_in_evaluations_as_a_window_does(spark: SparkSession, closure: Closure) -> None:
    window = WindowSpec(2500, 1000, 300, closure)
    times = np.arange(-3000, 5000, 50)
    events = spark.createDataFrame(pa.table({"t": times, "key": times}))
    table = counted(events, ["key"], "t", window).toArrow().sort_by([("key", "ascending")])
    assert table[FIRST].to_pylist() == window.first(times).tolist()
    assert table[LAST].to_pylist() == window.last(times).tolist()


def test_elements_without_a_time_or_a_key_are_left(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "a"), (None, "b"), (2, None)], "t BIGINT, key STRING")
    assert counted(events, ["key"], "t", enriched.WINDOW).toArrow()["key"].to_pylist() == ["a"]


def test_what_is_wrong_is_said_before_the_query_starts(spark: SparkSession, dropped: Path) -> None:
    with pytest.raises(ConfigError, match="streaming DataFrame"):
        enrich_windows(
            spark.range(1), on="id", source=enriched.Counted(dropped), policy="gain", budget=1, window=1, step=1,
            state=dropped, sink=dropped,
        )  # fmt: skip
    with pytest.raises(InputError, match="no column 'subject'; they have event_time, topic"):
        enriched.query(spark, dropped, on="subject")
    with pytest.raises(InputError, match="of type string; it must be a timestamp, or milliseconds"):
        enriched.query(spark, dropped, at="topic")
    with pytest.raises(ConfigError, match="step: 1 parsec is no duration"):
        enriched.query(spark, dropped, step="1 parsec")
    with pytest.raises(ConfigError, match="did you mean 'aggregate'"):
        enriched.query(spark, dropped, case="aggregat")
    with pytest.raises(InputError, match="give the key column another name"):
        enriched.query(spark, dropped, on="value")
    with pytest.raises(ConfigError, match="did you mean 'double'"):
        enriched.query(spark, dropped, value="doubel")
    with pytest.raises(InputError, match="edges of a warm start have no column 'topic'"):
        enriched.query(spark, dropped, warm=Warm(pa.table({"sn": []}), pa.table({}), 0))


def test_a_state_of_another_checkpoint_is_refused(spark: SparkSession, dropped: Path) -> None:
    enriched.finish(enriched.query(spark, dropped))
    checkpoint = dropped / "elsewhere"
    writer = enriched.query(spark, dropped).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    with pytest.raises(Exception, match="state and checkpoint belong together"):
        writer.start().awaitTermination()


def test_the_journal_of_a_query_can_be_analysed(spark: SparkSession, dropped: Path) -> None:
    from freshkeeper.maintenance.analysis.analysis import analyse
    from freshkeeper.maintenance.analysis.spark_engine import Spark

    enriched.finish(enriched.query(spark, dropped))
    found = analyse(Spark(spark), str(dropped / "state" / "journal"))
    (row,) = found["freshness"]
    assert row["basis"] == "expected"
    assert row["evaluations"] == enriched.SECONDS


def test_one_partition_is_counted_without_a_shuffle_and_as_several_are(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    events = spark.createDataFrame([(n, n % 3) for n in range(100)], "t_ms bigint, topic bigint")
    found = []
    for partitions in (1, 2):
        counts = counted(events.repartition(partitions), ["topic"], "t_ms", WindowSpec(40, 10))
        found.append(sorted(counts.collect()))
        counts.explain()
        assert ("hashpartitioning(topic" in capsys.readouterr().out) == (partitions > 1)
    assert found[0] == found[1]
