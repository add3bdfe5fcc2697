"""The arrivals of a micro-batch, counted by Spark: elements per key, first and last evaluation, as integer columns.

What reaches the driver is one row per key and pair of evaluations, however many elements there are.

The watermark is the latest event time minus the allowed delay, over all micro-batches, the present one included. An
evaluation is due when the watermark has passed its instant: at the instant itself one more element may have that time.
Spark's own watermark is not used: it moves one micro-batch later, and `foreachBatch` is not told of it.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.cache.demand.window import WindowSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST, LAST, COUNT, EARLIEST, LATEST = "_first", "_last", "_count", "_earliest", "_latest"
HASH = "_hash"
"""The column of a key's hash, as Spark's xxhash64 has it."""
SUMS = [FIRST, LAST, EARLIEST, LATEST, COUNT]
"""The columns of counts of all keys together."""

RESERVED_COLUMNS = {"k", "t_ms", "sr", "value", "weight", "refreshed_ms", "fresh", "batch_id"}
"""The columns of answers beside the keys."""

MOST_DUE = 1_000_000
"""Evaluations that one micro-batch may make due; more is a mistake in the unit of time."""

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

    def part(self, which: slice | Bools) -> "Arrivals":
        """Return the arrivals at these positions."""
        columns = (self.codes, self.first, self.last, self.earliest, self.latest, self.count)
        return Arrivals(self.names, *(each[which] for each in columns))

    def by_evaluation(self) -> Iterator[tuple[int, "Arrivals"]]:
        """Split by first evaluation."""
        cuts = [0, *(np.flatnonzero(np.diff(self.first)) + 1).tolist(), self.first.size]
        for start, stop in pairwise(cuts):
            if start < stop:
                yield int(self.first[start]), self.part(slice(start, stop))


@dataclass(eq=False)
class Due:
    """Hands out evaluations in order, each with the elements that first take part in it."""

    window: WindowSpec
    delay: int
    latest: int | None = None
    k: int | None = None
    """the last evaluation that was handed out"""
    elements: int = 0
    late: int = 0
    """elements that came when the first evaluation of theirs was over; they take part in what is still to come"""
    _waiting: dict[int, list[Arrivals]] = field(default_factory=dict)

    @property
    def watermark(self) -> int | None:
        """No evaluation up to this instant waits for elements any more."""
        return None if self.latest is None else self.latest - self.delay

    def progress(self) -> dict[str, int | None]:
        """Return the progress in numbers, for progress.json."""
        return {"evaluation": self.k, "watermark_ms": self.watermark, "elements": self.elements, "late": self.late}

    def take(self, arrivals: Arrivals) -> None:
        """Take in the elements of one micro-batch."""
        if not arrivals.first.size:
            return
        self.elements += int(arrivals.count.sum())
        latest = int(arrivals.latest.max())
        self.latest = latest if self.latest is None else max(self.latest, latest)
        for first, part in arrivals.by_evaluation():
            if self.k is not None and first <= self.k:
                self.late += int(part.count.sum())
            self._waiting.setdefault(max(first, 1 if self.k is None else self.k + 1), []).append(part)

    def evaluations(self) -> Iterator[tuple[int, list[Arrivals]]]:
        """Yield the evaluations that are due now."""
        if self.watermark is None:
            return
        after = min(self._waiting) if self.k is None else self.k + 1
        until = -(-(self.watermark - self.window.start) // self.window.step)  # the first t_k at or behind the watermark
        if until - after > MOST_DUE:
            raise InputError(
                f"{until - after:,} evaluations are due at once, at {self.window.step} ms from one to the next up to "
                f"{self.watermark}: are the event times milliseconds?"
            )
        for k in range(after, until):
            self.k = k
            yield k, self._waiting.pop(k, [])


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
    """Collect a table on the driver."""
    return table if isinstance(table, pa.Table) else table.toArrow()


def collected(counts: Tabular, on: Sequence[str]) -> Arrivals:
    """Collect the counts on the driver."""
    table = here(counts).sort_by([(name, "ascending") for name in (FIRST, EARLIEST, *on)]).combine_chunks()
    numbers = (np.asarray(table[name].to_numpy(), np.int64) for name in (FIRST, LAST, EARLIEST, LATEST, COUNT))
    return Arrivals(*_coded(table, on), *numbers)


def summed(counts: pa.Table) -> pa.Table:
    """Sum the counts of all keys."""
    how = [(EARLIEST, "min"), (LATEST, "max"), (COUNT, "sum")]
    names = [FIRST, LAST, *("_".join(each) for each in how)]
    return counts.group_by([FIRST, LAST]).aggregate(how).select(names).rename_columns(SUMS)


def _coded(table: pa.Table, on: Sequence[str]) -> tuple[list[Hashable], Ints]:
    """Return the distinct keys of some rows, and the number of each row's key among them."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in on:
        column = table[name].combine_chunks().dictionary_encode()
        numbers = pc.fill_null(column.indices, -1).to_numpy() + 1
        codes = codes * (len(column.dictionary) + 1) + numbers
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return keys_of(table.take(first), on), codes


def keys_of(table: pa.Table, on: Sequence[str]) -> list[Hashable]:
    """Return the lookup key of each row."""
    parts = [table[name].to_pylist() for name in on]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def first(window: WindowSpec, at: str) -> str:
    """`WindowSpec.first` in SQL, whose `div` cuts towards zero."""
    value = f"({at} + {window.step - (window.closure is Closure.LEFT_OPEN) - window.start})"
    return f"(({value} - pmod({value}, {window.step})) div {window.step})"


def check_columns(events: "DataFrame", on: Sequence[str], at: str) -> None:
    """Refuse columns that are not there or have our names, and times that are none."""
    kinds = dict(events.dtypes)
    if ours := RESERVED_COLUMNS & {*on}:
        raise InputError(f"answers have a column {min(ours)!r} of their own: give the key column another name")
    check_there("events", events.columns, [*on, at])
    if not (kinds[at].startswith("timestamp") or kinds[at] in ("bigint", "int")):
        raise InputError(f"the event time {at!r} is of type {kinds[at]}; it must be a timestamp, or milliseconds")


def check_there(what: str, columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table that lacks a column."""
    for name in wanted:
        if name not in columns:
            raise InputError(f"the {what} have no column {name!r}; they have {', '.join(columns)}")
