"""What docs/scale.md does with rows of Kafka, done with rows of the same columns: of a counting stream and of files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import enriched
import pytest

from freshkeeper.maintenance.spark.enrich import enrich_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("default")
DOCS = (Path(__file__).parents[3] / "docs" / "scale.md").read_text()
PARSED = "from_json(CAST(value AS STRING), 'event_time TIMESTAMP, topic STRING') AS post"
ROWS, SECONDS = 40, 2


def as_kafka(counted: "DataFrame") -> "DataFrame":
    """Key, value and timestamp as the connector has them: bytes, bytes and a time."""
    post = "to_json(struct(timestamp AS event_time, concat('t', value % 8) AS topic))"
    return counted.selectExpr(
        "CAST(CAST(value AS STRING) AS BINARY) AS key", f"CAST({post} AS BINARY) AS value", "timestamp"
    )


def counting(spark: "SparkSession") -> "DataFrame":
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return source.option("startTimestamp", 0).option("advanceMillisPerBatch", 1000 * SECONDS).load()


def enriched_of(raw: "DataFrame", place: Path, times: int) -> dict[str, int]:
    """What is told of an enrichment that was started so often, and ended each time when it had read what there was."""
    assert PARSED in DOCS
    for _ in range(times):
        writer = enrich_windows(
            raw.selectExpr(PARSED).select("post.*"),
            on="topic", source=enriched.Counted(place / "requests"), policy="gain", budget=3, window="4s", step="1s",
            state=place / "state", sink=place / "answers", warm=enriched.warm(),
        )  # fmt: skip
        writer.trigger(availableNow=True).start().awaitTermination()
    told: dict[str, int] = json.loads((place / "state" / "progress.json").read_text())
    return told


def test_rows_as_those_of_kafka_are_enriched_batch_after_batch(spark: "SparkSession", tmp_path: Path) -> None:
    told = enriched_of(as_kafka(counting(spark)), tmp_path, 3)
    assert (told["elements"], told["late"]) == (3 * ROWS, 0)
    assert told["evaluation"] == (told["watermark_ms"] - 1) // 1000 >= SECONDS
    answers = spark.read.parquet(str(tmp_path / "answers"))
    assert {row.topic for row in answers.select("topic").distinct().collect()} == {f"t{n}" for n in range(8)}


def test_rows_as_those_of_kafka_come_from_files_as_well(spark: "SparkSession", tmp_path: Path) -> None:
    rows = spark.range(0, ROWS, 1, 1).selectExpr("id AS value", "timestamp_millis(id * 100) AS timestamp")
    as_kafka(rows).write.parquet(str(tmp_path / "in"))
    read = spark.readStream.schema("key BINARY, value BINARY, timestamp TIMESTAMP").parquet(str(tmp_path / "in"))
    told = enriched_of(read, tmp_path, 1)
    assert (told["elements"], told["evaluation"], told["late"]) == (ROWS, 3, 0)
