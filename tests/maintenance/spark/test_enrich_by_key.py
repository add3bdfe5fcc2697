"""Enrichment by key: every event once, its columns as they were, and the row of its key beside them."""

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.spark.by_key import enrich, metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRODUCTS = {n: {"name": f"product {n}", "price": Decimal(n) / 4} for n in range(1, 100)}


def make_lookup() -> Callable[[list[int]], dict[int, Any]]:
    return lambda keys: {key: PRODUCTS[key] for key in keys if key in PRODUCTS}


PRODUCT: dict[str, Any] = {
    "on": "product_id",
    "into": "product",
    "lookup": make_lookup,
    "schema": "name STRING, price DECIMAL(10,2)",
    "budget": "1000000/s",
}


@pytest.fixture
def events(spark: "SparkSession") -> "DataFrame":
    rows = [(n, n % 5 or None, [f"tag{n}"], {"shop": n % 2}) for n in range(20)]
    return spark.createDataFrame(rows, "id INT, product_id INT, tags ARRAY<STRING>, place STRUCT<shop: INT>")


def test_every_event_comes_out_once_with_its_row(events: "DataFrame") -> None:
    out = events.transform(enrich(**PRODUCT))
    assert out.schema.simpleString() == (
        "struct<id:int,product_id:int,tags:array<string>,place:struct<shop:int>,"
        "product:struct<name:string,price:decimal(10,2)>,"
        "product_meta:struct<freshness:double,age_ms:bigint,hit:boolean,error:string>>"
    )
    found = sorted(out.collect())
    assert [row.id for row in found] == list(range(20))
    assert found[7].asDict(recursive=True) | {"product_meta": None} == {
        "id": 7, "product_id": 2, "tags": ["tag7"], "place": {"shop": 1},
        "product": {"name": "product 2", "price": Decimal("0.50")}, "product_meta": None,
    }  # fmt: skip
    assert found[7].product_meta.freshness > 0.99
    assert found[7].product_meta.error is None
    assert (found[5].product_id, found[5].product, found[5].product_meta) == (None, None, None)


def test_a_key_without_a_row_keeps_its_event(spark: "SparkSession") -> None:
    out = spark.createDataFrame([(1,), (1000,)], "product_id INT").transform(enrich(**PRODUCT))
    rows = {row.product_id: row for row in out.collect()}
    assert rows[1000].product is None
    assert rows[1000].product_meta.freshness > 0.99
    assert rows[1].product.name == "product 1"


def test_with_on_miss_null_no_event_waits(spark: "SparkSession") -> None:
    out = spark.createDataFrame([(1,)], "product_id INT").transform(enrich(**PRODUCT, on_miss="null"))
    (row,) = out.collect()
    assert row.product is None
    assert (row.product_meta.freshness, row.product_meta.error) == (None, "not in the cache; it is being fetched")


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678000)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("STRING", "ß"),
        ("BINARY", bytearray(b"\x00\xff")),
        ("DECIMAL(20,3)", Decimal("12345678901234567.125")),
        ("DATE", MOMENT.date()),
        ("TIMESTAMP_NTZ", MOMENT),
        ("BOOLEAN", True),
        ("DOUBLE", 0.5),
        ("STRUCT<a: INT, b: STRING>", (1, "x")),
        ("ARRAY<INT>", [1, 2]),
    ],
)
def test_keys_of_every_type(spark: "SparkSession", kind: str, key: Any) -> None:
    def say() -> Callable[[list[Any]], dict[Any, str]]:
        return lambda keys: {one: f"{type(one).__name__} {one!r}" for one in keys}

    frame = spark.createDataFrame([(key,), (None,), (key,)], f"k {kind}")
    rows = frame.transform(enrich("k", "v", say, "text STRING", "1000000/s")).collect()
    texts = [row.v.text for row in rows if row.k is not None]
    wanted = key
    if isinstance(key, bytearray):
        wanted = bytes(key)
    elif isinstance(key, list):
        wanted = tuple(key)
    assert texts == [f"{type(wanted).__name__} {wanted!r}"] * 2
    assert [row.v for row in rows if row.k is None] == [None]


def test_rows_of_every_type(spark: "SparkSession") -> None:
    schema = (
        "b BOOLEAN, i INT, l BIGINT, d DOUBLE, m DECIMAL(10,2), t TIMESTAMP, y DATE, x BINARY, a ARRAY<INT>, "
        "s STRUCT<p: INT, q: MAP<STRING, INT>>, p MAP<STRING, ARRAY<INT>>"
    )
    row = {
        "b": True, "i": 1, "l": 2**40, "d": 0.5, "m": Decimal("1.25"), "t": MOMENT.replace(tzinfo=UTC),
        "y": MOMENT.date(), "x": b"\x00", "a": [1, None], "s": {"p": 1, "q": {"one": 1}}, "p": {"k": [1, 2]},
    }  # fmt: skip

    def say() -> Callable[[list[int]], dict[int, Any]]:
        return lambda keys: dict.fromkeys(keys, row)

    frame = spark.createDataFrame([(1,)], "k INT").transform(enrich("k", "v", say, schema, "1000000/s"))
    (found,) = frame.selectExpr("v.*", "unix_millis(v.t) AS ms").collect()
    told = found.asDict(recursive=True)
    assert told.pop("ms") == int(MOMENT.replace(tzinfo=UTC).timestamp() * 1000)
    assert {**told, "t": row["t"], "x": bytes(told["x"])} == row


def test_several_key_columns_make_tuples_and_names_are_case_insensitive(spark: "SparkSession") -> None:
    def say() -> Callable[[list[tuple[int, str]]], dict[tuple[int, str], str]]:
        return lambda keys: {key: f"{key[0]}{key[1]}" for key in keys}

    frame = spark.createDataFrame([(1, ("x",)), (2, (None,))], "Shop INT, place STRUCT<city: STRING>")
    out = frame.transform(enrich(["shop", "PLACE.City"], "v", say, "text STRING", "1000000/s"))
    assert [(row.Shop, row.v and row.v.text) for row in sorted(out.collect())] == [(1, "1x"), (2, None)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"on": "produkt_id"}, "on='produkt_id': the events have no such column; did you mean 'product_id'?"),
        ({"into": "Tags"}, "the events have a column Tags already"),
        ({"schema": "name STRNG"}, "schema='name STRNG': "),
        ({"budget": "fast"}, "budget='fast' is no rate"),
        ({"lookup": threading.Lock().acquire}, "lookup cannot be sent to the workers"),
        ({"lookup": 1}, "pass a function that makes the lookup"),
        ({"on_miss": "drop"}, "on_miss='drop'"),
        ({"bach": 3}, "bach: enrich has no such setting; did you mean 'batch'?"),
        ({"tasks": 0}, "tasks=0"),
    ],
)
def test_mistakes_are_told_before_the_query_starts(events: "DataFrame", change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        events.transform(enrich(**{**PRODUCT, **change}))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_row_that_does_not_fit_the_schema_names_key_and_field(events: "DataFrame") -> None:
    from pyspark.errors import PythonException

    def wrong() -> Callable[[list[int]], dict[int, Any]]:
        return lambda keys: {key: {"name": "x", "price": "cheap"} for key in keys}

    with pytest.raises(PythonException, match=r"the row of the key \d does not fit the schema: price: "):
        events.transform(enrich(**{**PRODUCT, "lookup": wrong})).collect()


def test_metrics_are_observed(events: "DataFrame", spark: "SparkSession") -> None:
    from pyspark.sql import Observation

    observation = Observation("enrichment")
    events.transform(enrich(**PRODUCT)).observe(observation, *metrics("product")).collect()
    told = observation.get
    assert (told["events"], told["rows"], told["errors"]) == (20, 16, 0)
    assert told["freshness"] > 0.99


@pytest.fixture
def stream(spark: "SparkSession", tmp_path: Path) -> "DataFrame":
    source = tmp_path / "events"
    rows = [(n, n % 7) for n in range(300)]
    spark.createDataFrame(rows, "id INT, product_id INT").repartition(3).write.json(str(source))
    return spark.readStream.schema("id INT, product_id INT").option("maxFilesPerTrigger", 1).json(str(source))


def test_a_stream_goes_to_any_sink_once_each_over_a_restart(
    stream: "DataFrame", spark: "SparkSession", tmp_path: Path
) -> None:
    out = stream.transform(enrich(**PRODUCT))
    writer = out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.option("path", str(tmp_path / "out")).trigger(processingTime="0 seconds").start()
    while not query.lastProgress:
        time.sleep(0.05)
    query.stop()
    again = stream.transform(enrich(**PRODUCT)).writeStream.format("parquet")
    again = again.option("checkpointLocation", str(tmp_path / "checkpoint")).option("path", str(tmp_path / "out"))
    again.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.id for row in found.collect()) == list(range(300))
    assert found.where("product_id > 0 AND product.name != concat('product ', product_id)").count() == 0


def test_workers_with_a_store_never_exceed_its_bucket_as_the_source_counts(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log, per_s = tmp_path / "requests", 200

    def make_counted() -> Callable[[list[int]], dict[int, str]]:
        def look_up(keys: list[int]) -> dict[int, str]:
            with log.open("a") as file:  # one write of a short line: workers do not cut each other off
                file.write(f"{time.monotonic()} {os.getpid()}\n")
            return dict.fromkeys(keys, "x")

        return look_up

    keys = spark.range(600).selectExpr("id % 400 AS k").repartition(2)
    shared = {"store": str(tmp_path / "rows.db"), "bank": 1, "parallel": 2}
    out = keys.transform(enrich("k", "v", make_counted, "text STRING", f"{per_s}/s", **shared))  # type: ignore[arg-type]
    assert out.where("v.text = 'x'").count() == 600
    assert out.where("v.text = 'x'").count() == 600  # from the store
    times = sorted(float(line.split()[0]) for line in log.read_text().splitlines())
    assert 400 <= len(times) < 600
    for first, began in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= per_s + per_s * (times[last] - began) + 2


def test_without_a_store_the_budget_is_divided_among_tasks(events: "DataFrame") -> None:
    from freshkeeper.maintenance.spark.by_key import _part_of_budget

    parts = _part_of_budget(events, 4, {"budget": "20/min"})
    assert parts == {"budget": "0.083333333/s", "bank": 60.0}
    assert _part_of_budget(events, None, {"budget": "20/s"})["budget"] == "10.000000000/s"
