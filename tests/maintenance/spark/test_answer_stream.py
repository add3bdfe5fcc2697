"""A Spark stream over what a service answers: all of it, once, and on where it stopped."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serving import REACH, Client, configured, posts, served

from freshkeeper.maintenance.serve.security import Guard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("default")
Seen = list[list[tuple[int, str]]]


def read(spark: "SparkSession", client: Client, place: Path, token: str = "") -> Seen:
    """What each micro-batch brought, until all that is there is read."""
    from freshkeeper.maintenance.spark.answer_stream import answers_of

    seen: Seen = []

    def keep(batch: "DataFrame", number: int) -> None:
        del number
        rows = batch.selectExpr(
            "t_ms", "event_time", "get_json_object(answer, '$.bindings.topic.value') topic"
        ).collect()
        assert all(row.event_time.timestamp() * 1000 == row.t_ms for row in rows)
        seen.append(sorted((row.t_ms, row.topic.rpartition("/")[2]) for row in rows))

    answers = answers_of(spark, str(client.base_url), "reach", token)
    writer = answers.writeStream.foreachBatch(keep).option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return [rows for rows in seen if rows]


def evaluated(client: Client, until: int, topic: str = "jazz") -> None:
    """An element in every second up to one, each a second before the evaluation that it makes due."""
    last = client.answered("reach") or 0
    client.push(posts(*range(last + 500, until + 1000, 1000), topic=topic)).raise_for_status()
    with client.stream("GET", "/queries/reach/answers", params={"after": last}) as answers:
        for line in answers.iter_lines():
            if line and json.loads(line)["t"] >= until:
                break


def test_all_that_is_answered_is_read_once_and_on_from_there(spark: "SparkSession", tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        client.register("reach", REACH).raise_for_status()
        assert read(spark, client, tmp_path) == []
        evaluated(client, 2000)
        assert read(spark, client, tmp_path) == [[(1000, "jazz"), (2000, "jazz"), (2000, "jazz")]]
        evaluated(client, 3000, topic="rock")
        (rows,) = read(spark, client, tmp_path)
        assert {at for at, _ in rows} == {3000}
        assert read(spark, client, tmp_path) == []
        (tmp_path / "state" / "answers" / "reach.ndjson").write_text("")
        evaluated(client, 4000)
        with pytest.raises(Exception, match="the answers of reach after 3000 ms are gone: next is 4000"):
            read(spark, client, tmp_path)


def test_a_service_that_refuses_is_said(spark: "SparkSession", tmp_path: Path) -> None:
    with served(configured(tmp_path), Guard(b"a word that is long enough", None)) as client:
        client.headers["Authorization"] = "Bearer a word that is long enough"
        client.register("reach", REACH).raise_for_status()
        evaluated(client, 1000)
        with pytest.raises(Exception, match="answered 401"):
            read(spark, client, tmp_path)
        assert read(spark, client, tmp_path, "a word that is long enough") == [[(1000, "jazz")]]
