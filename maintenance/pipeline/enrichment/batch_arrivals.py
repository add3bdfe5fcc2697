"""What a micro-batch brings, counted by Spark: elements per key, first and last evaluation, with integer columns alone.

What reaches the driver is one row per key and pair of evaluations, however many elements there are.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.settings.closure import Closure
from freshkeeper.policies.arrays import Bools, Ints
from freshkeeper.policies.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST, LAST, COUNT, EARLIEST, LATEST = "_first", "_last", "_count", "_earliest", "_latest"
HASH = "_hash"
"""The column of a key's hash, as Spark's xxhash64 has it."""
SUMS = [FIRST, LAST, EARLIEST, LATEST, COUNT]
"""The columns of counts of all keys together."""

OURS = {"k", "t_ms", "sr", "value", "weight", "refreshed_ms", "fresh", "batch_id"}
"""The columns of answers beside the keys."""

Tabular: TypeAlias = "DataFrame | pa.Table"


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Elements of one key each, in the order of their evaluations and then of time: the same whenever it is read."""

    names: Sequence[Hashable]
    """each key once"""
    codes: Ints
    """by row: the number of its key"""
    first: Ints
    """the first and the last evaluation whose window holds them"""
    last: Ints
    earliest: Ints
    latest: Ints
    count: Ints

    @property
    def size(self) -> int:
        """How many elements."""
        return int(self.count.sum())

    def part(self, which: slice | Bools) -> "Arrivals":
        """Some rows."""
        columns = (self.codes, self.first, self.last, self.earliest, self.latest, self.count)
        return Arrivals(self.names, *(each[which] for each in columns))

    def by_evaluation(self) -> Iterator[tuple[int, "Arrivals"]]:
        """Split by first evaluation."""
        cuts = [0, *(np.flatnonzero(np.diff(self.first)) + 1).tolist(), self.first.size]
        for start, stop in pairwise(cuts):
            if start < stop:
                yield int(self.first[start]), self.part(slice(start, stop))


def counted(events: "DataFrame", on: Sequence[str], at: str, window: WindowSpec) -> "DataFrame":
    """Elements per key, first and last evaluation; elements without a time or a key join with nothing and are left."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = dict(events.dtypes)[at]
    millis = F.unix_millis(F.col(at).cast("timestamp")) if kind.startswith("timestamp") else F.col(at).cast("bigint")
    timed = events.select(*on, millis.alias("_ms")).dropna()
    if timed.rdd.getNumPartitions() == 1:
        timed = timed.coalesce(1)  # says so, and nothing is shuffled
    last = F.expr(first(window, f"_ms + {window.range}")) - 1  # before the first evaluation that leaves them out
    placed = timed.withColumns({FIRST: F.expr(first(window, "_ms")), LAST: last})
    return placed.groupBy(*on, FIRST, LAST).agg(
        F.count("*").alias(COUNT), F.min("_ms").alias(EARLIEST), F.max("_ms").alias(LATEST)
    )


def here(table: Tabular) -> pa.Table:
    """A table on the driver."""
    return table if isinstance(table, pa.Table) else table.toArrow()


def collected(counts: Tabular, on: Sequence[str]) -> Arrivals:
    """The counts on the driver."""
    table = here(counts).sort_by([(name, "ascending") for name in (FIRST, EARLIEST, *on)]).combine_chunks()
    numbers = (np.asarray(table[name].to_numpy(), np.int64) for name in (FIRST, LAST, EARLIEST, LATEST, COUNT))
    return Arrivals(*_coded(table, on), *numbers)


def summed(counts: pa.Table) -> pa.Table:
    """Of all keys together."""
    how = [(EARLIEST, "min"), (LATEST, "max"), (COUNT, "sum")]
    names = [FIRST, LAST, *("_".join(each) for each in how)]
    return counts.group_by([FIRST, LAST]).aggregate(how).select(names).rename_columns(SUMS)


def _coded(table: pa.Table, on: Sequence[str]) -> tuple[list[Hashable], Ints]:
    """The keys of some rows, each once, and which of them each row has."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in on:
        column = table[name].combine_chunks().dictionary_encode()
        numbers = pc.fill_null(column.indices, -1).to_numpy() + 1
        codes = codes * (len(column.dictionary) + 1) + numbers
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return keys_of(table.take(first), on), codes


def keys_of(table: pa.Table, on: Sequence[str]) -> list[Hashable]:
    """The SN key of each row."""
    parts = [table[name].to_pylist() for name in on]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def key_columns(keys: Sequence[Hashable], on: Sequence[str]) -> dict[str, list[object]]:
    """SN keys as the columns that they came from."""
    if len(on) == 1:
        return {on[0]: list(keys)}
    rows = [key if isinstance(key, tuple) else (None,) * len(on) for key in keys]  # None in a slot that is free
    return {name: [row[n] for row in rows] for n, name in enumerate(on)}


def first(window: WindowSpec, at: str) -> str:
    """`WindowSpec.first` in SQL, whose `div` cuts towards zero."""
    value = f"({at} + {window.step - (window.closure is Closure.LEFT_OPEN) - window.start})"
    return f"(({value} - pmod({value}, {window.step})) div {window.step})"


def check_columns(events: "DataFrame", on: Sequence[str], at: str) -> None:
    """Refuse columns that are not there or have our names, and times that are none."""
    kinds = dict(events.dtypes)
    for name in on:
        if name in OURS:
            raise InputError(f"answers have a column {name!r} of their own: give the key column another name")
    check_there("events", events.columns, [*on, at])
    if not (kinds[at].startswith("timestamp") or kinds[at] in ("bigint", "int")):
        raise InputError(f"the event time {at!r} is of type {kinds[at]}; it must be a timestamp, or milliseconds")


def check_there(what: str, columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table that lacks a column."""
    for name in wanted:
        if name not in columns:
            raise InputError(f"the {what} have no column {name!r}; they have {', '.join(columns)}")
