"""Timestamped RDF read by Spark: as the engine reads it, from files that come, and what is wrong said in words."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.spark.rdf_lines import statements
from freshkeeper.maintenance.streams.timed_lines import TimedLines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("default")
IRIS = st.sampled_from(["urn:a", "http://example.org/x#y", "urn:%20é"]).map(NamedNode)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters='\t\n"\\'), max_size=8)
LITERALS = st.one_of(
    TEXTS.map(Literal),
    st.builds(lambda text: Literal(text, language="en-GB"), TEXTS),
    st.builds(lambda text: Literal(text, datatype=NamedNode("urn:type")), TEXTS),
)
NODES = st.sampled_from(["b", "b1.x", "_0"]).map(BlankNode)
TIMES = st.integers(1_760_000_000_000, 1_760_000_900_000)
ROWS = st.tuples(TIMES, st.one_of(IRIS, NODES), IRIS, st.one_of(IRIS, NODES, LITERALS), st.booleans())


def lines(first: int, last: int) -> str:
    return "".join(f'{n * 100}\t<urn:s{n}> <urn:p> "{n}" .\n' for n in range(first, last))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROWS, min_size=1, max_size=20))
def test_statements_are_those_that_the_engine_reads(
    spark: "SparkSession", tmp_path: Path, rows: list[tuple[int, object, object, object, bool]]
) -> None:
    file = tmp_path / "a.nq"
    text = [
        f"{t}\t{s} {p} {o}{' <urn:g>' if graph else ''} .\n" for t, s, p, o, graph in sorted(rows, key=lambda r: r[0])
    ]
    file.write_text("# readings\n\n" + "".join(text), newline="\n")
    batches = list(TimedLines.file(file, scope="").batches())
    read = [timed for batch in batches for timed in zip(batch.times, batch.quads, strict=True)]
    found = statements(spark.read.text(str(file), lineSep="\n")).orderBy("t_ms").collect()
    assert sorted((row.t_ms, row.subject, row.predicate, row.object) for row in found) == sorted(
        (t, str(quad.subject), str(quad.predicate), str(quad.object)) for t, quad in read
    )
    assert all(row.event_time.timestamp() * 1000 == row.t_ms for row in found)


def test_a_stream_of_files_that_come_is_read_once(spark: "SparkSession", tmp_path: Path) -> None:
    seen: list[list[int]] = []
    (tmp_path / "in").mkdir()
    for name, text in (("a", lines(0, 3)), ("b", lines(3, 5))):
        (tmp_path / "in" / f"{name}.nq").write_text(text)
        read = statements(spark.readStream.text(str(tmp_path / "in")))
        writer = read.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(lambda batch, _: seen.append(sorted(row.t_ms for row in batch.collect())))
        query.trigger(availableNow=True).start().awaitTermination()
    assert seen == [[0, 100, 200], [300, 400]]


def test_what_cannot_be_read_fails_the_query_or_is_skipped(spark: "SparkSession", tmp_path: Path) -> None:
    file = tmp_path / "a.nq"
    file.write_text(lines(0, 2) + "soon\t<urn:s> <urn:p> 1 .\n300 <urn:s> <urn:p> <urn:o> .\n" + lines(4, 5))
    with pytest.raises(Exception, match=r"no milliseconds, tab and statement: soon\t<urn:s> <urn:p> 1 ."):
        statements(spark.read.text(str(file))).count()
    assert [row.t_ms for row in statements(spark.read.text(str(file)), on_error="skip").collect()] == [0, 100, 400]
    with pytest.raises(ConfigError, match="on_error cannot be 'ignore'"):
        statements(spark.read.text(str(file)), on_error="ignore")


def test_any_column_of_text_will_do_as_those_of_kafka_are(spark: "SparkSession") -> None:
    kafka = spark.createDataFrame([(bytearray(b"7\t<urn:s> <urn:p> <urn:o> ."),)], "value BINARY")
    rows = statements(kafka.selectExpr("CAST(value AS STRING) AS line"), "line").collect()
    assert [(row.t_ms, row.object) for row in rows] == [(7, "<urn:o>")]
