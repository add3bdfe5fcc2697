"""`get_many`: one decision, as few requests as can be and one answer for a batch of keys."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from lookup_tables import Table

from freshkeeper import AsyncEnricher, Enricher
from freshkeeper.maintenance.base.errors import InputError

Make = Callable[..., Enricher[Any, Any]]


def test_a_batch_shares_requests_and_answers_in_order(make: Make, table: Table) -> None:
    enricher = make(batch=3)
    rows = enricher.get_many(["b", "a", "b", "c", "d", "nothing"])
    assert [row.value for row in rows] == [table.rows.get(key) for key in ["b", "a", "b", "c", "d", "nothing"]]
    assert [row.hit for row in rows] == [False, False, True, False, False, False]
    assert [len(keys) for keys in table.asked] == [3, 2]
    stats = enricher.stats()
    assert (stats.hits, stats.misses, stats.requests) == (1, 5, 2)


@pytest.mark.parametrize(
    "column",
    [
        np.array,
        pa.array,
        lambda keys: pa.chunked_array([keys]),
        lambda keys: pa.table({"key": keys}).to_pandas()["key"],
        pl.Series,
        tuple,
        iter,
    ],
)
def test_keys_may_be_a_column(column: Any) -> None:
    asked: list[Any] = []

    def lookup(keys: list[Any]) -> dict[Any, int]:
        asked.extend(keys)
        return {key: key * 10 for key in keys}

    with Enricher(lookup, "50/s", batch=5) as enricher:
        assert [row.value for row in enricher.get_many(column([3, 1, 3]))] == [30, 10, 30]
    assert [type(key) for key in asked] == [int, int]


def test_a_batch_without_a_key_somewhere_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="None is not a key"):
        make().get_many(["a", None])


def test_a_short_budget_goes_where_most_reads_become_right(make: Make, table: Table, clock: Any) -> None:
    """Of ten stale rows, three can be fetched: those that are read ten times as often."""
    enricher = make(budget="10/s", bank=2)
    often = ["c", "f", "i"]
    enricher.get_many("abcdefghij")
    for _ in range(40):
        clock.forward(2)
        table.rows = dict.fromkeys("abcdefghij", clock.ms)
        enricher.get_many([*"abcdefghij", *often * 9])
    enricher.set_budget("1/h", bank=3 * 3600)  # what is in the bucket now: three requests
    clock.forward(20)
    table.asked.clear()
    enricher.get_many("abcdefghij")
    assert sorted(key for keys in table.asked for key in map(str, keys)) == often


def test_a_batch_waits_for_all_of_its_keys_together() -> None:
    def lookup(keys: list[int]) -> dict[int, int]:
        time.sleep(0.05)
        return dict.fromkeys(keys, 1)

    with Enricher(lookup, "5/h", parallel=1) as enricher:
        began = time.monotonic()
        rows = enricher.get_many(range(50), max_wait=0.2)
        assert time.monotonic() - began < 1
    assert 1 <= sum(row.value == 1 for row in rows) <= 3
    assert "no answer within 0" in str(rows[-1].error)


def test_coroutines_read_batches_too() -> None:
    async def lookup(keys: list[int]) -> dict[int, int]:
        return {key: key * 10 for key in keys}

    async def main() -> list[Any]:
        async with AsyncEnricher(lookup, "50/s", batch=10) as enricher:
            rows = await enricher.get_many(np.array([3, 1, 3]))
            assert enricher.stats().requests == 1
            return [(row.value, row.hit) for row in rows]

    assert asyncio.run(main()) == [(30, False), (10, False), (30, True)]


def test_hits_cost_less_than_ten_microseconds_a_key() -> None:
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "5/h", capacity=20_000) as enricher:
        for key in range(20_000):
            enricher.put(key, 1)
        keys = np.random.default_rng(1).integers(0, 20_000, 50_000)
        took = []
        for _ in range(5):
            began = time.process_time()
            enricher.get_many(keys)
            took.append(time.process_time() - began)
    assert min(took) / len(keys) < 10e-6
