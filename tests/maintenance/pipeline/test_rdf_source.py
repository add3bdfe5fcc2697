"""Timestamped RDF read by Spark: all of it, as a stream that grows, and what is wrong said in words."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from freshkeeper.maintenance.pipeline.spark_session import LEAST_JAVA, java_version, spark_session

pytestmark = [
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason=f"no Java {LEAST_JAVA}: make java installs it"),
    pytest.mark.filterwarnings("default"),
]
SETTINGS = {"spark.sql.shuffle.partitions": "1"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from freshkeeper.maintenance.pipeline.rdf_source import TimedRdf

    session = spark_session("local[2]", SETTINGS)
    session.dataSource.register(TimedRdf)
    yield session
    session.stop()


def lines(first: int, last: int) -> str:
    return "".join(f'{n * 100}\t<urn:s{n}> <urn:p> "{n}" .\n' for n in range(first, last))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def numbers(frame: DataFrame) -> list[int]:
    return [row.t_ms // 100 for row in frame.orderBy("t_ms").collect()]


def test_a_file_is_read_with_its_last_unfinished_line(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "a.nq", "# readings\n\n" + lines(0, 5).removesuffix("\n"))
    rows = spark.read.format("timed-rdf").load(str(tmp_path / "a.nq")).orderBy("t_ms").collect()
    assert [row.t_ms for row in rows] == [0, 100, 200, 300, 400]
    assert (rows[1].subject, rows[1].predicate, rows[1].object) == ("<urn:s1>", "<urn:p>", '"1"')
    assert rows[1].event_time.timestamp() == 0.1


def stream(spark: SparkSession, place: Path, **options: str) -> list[list[int]]:
    """What each micro-batch brought, until all that is there is read."""
    seen = []
    frame = spark.readStream.format("timed-rdf").options(**options).load(str(place / "in"))
    writer = frame.writeStream.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.foreachBatch(lambda batch, _: seen.append(numbers(batch))).trigger(availableNow=True).start()
    query.awaitTermination()
    return [batch for batch in seen if batch]


def test_a_stream_goes_on_at_whole_lines_where_files_grow_and_new_ones_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    append(tmp_path / "in" / "a.nq", lines(0, 6) + "600\t<urn:s6>")
    assert list(chain.from_iterable(stream(spark, tmp_path))) == list(range(6))
    append(tmp_path / "in" / "a.nq", ' <urn:p> "6" .\n')
    append(tmp_path / "in" / "b.nq", lines(7, 9))
    append(tmp_path / "in" / ".c.nq", lines(20, 21))
    assert list(chain.from_iterable(stream(spark, tmp_path))) == [6, 7, 8]


def test_a_micro_batch_is_no_larger_than_asked_for_but_for_one_long_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    append(tmp_path / "in" / "a.nq", lines(0, 4) + f'400\t<urn:s4> <urn:p> "{"x" * 200}" .\n' + lines(5, 7))
    length = len(lines(0, 1))
    assert stream(spark, tmp_path, maxBytesPerTrigger=str(2 * length + 5)) == [[0, 1], [2, 3], [4], [5, 6]]


def test_a_running_query_can_be_stopped(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    append(tmp_path / "in" / "a.nq", lines(0, 3))
    seen = []
    frame = spark.readStream.format("timed-rdf").load(str(tmp_path / "in"))
    writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(numbers(batch)))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    append(tmp_path / "in" / "a.nq", lines(3, 5))
    query.processAllAvailable()
    query.stop()
    assert seen == list(range(5))
    assert query.exception() is None


def test_what_cannot_be_read_fails_the_query_or_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "a.nq", lines(0, 2) + "soon\t<urn:s> <urn:p> 1 .\n" + lines(3, 4))
    with pytest.raises(Exception, match="'soon' is no time"):
        spark.read.format("timed-rdf").load(str(tmp_path / "a.nq")).count()
    assert numbers(spark.read.format("timed-rdf").option("onError", "skip").load(str(tmp_path / "a.nq"))) == [0, 1, 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no file or directory"),
        ({"onerror": "ignore"}, "onError cannot be 'ignore'"),
        ({"maxBytesPerTrigger": "16 MB"}, "write a number of bytes"),
        ({"maxBytes": "16"}, "no option 'maxbytes': there are: maxBytesPerTrigger"),
    ],
)
def test_a_wrong_option_is_named(spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        spark.read.format("timed-rdf").options(**options).load(str(tmp_path / "none.nq")).count()
