"""A real Spark session, and what is said where there can be none."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshkeeper.maintenance.analysis.spark_session import java_version, spark_session
from freshkeeper.maintenance.base.errors import ConfigError


@pytest.mark.filterwarnings("default")
def test_a_session_counts_and_is_shared(spark: SparkSession) -> None:
    rows = spark.range(1000).selectExpr("id % 7 AS sr").groupBy("sr").count().collect()
    assert sorted(row["sr"] for row in rows) == list(range(7))
    assert sum(row["count"] for row in rows) == 1000
    assert spark_session().sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.parametrize(
    ("said", "major"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_202"', 8), ('openjdk version "21" 2023', 21)],
)
def test_every_way_of_writing_a_java_version_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, major: int
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == major


def test_without_java_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="Spark needs Java 17 or newer: install it"):
        spark_session()
