"""Conversion of foreign data into a trace: files, columns and units of time.

Rows may come in any order and edges more than once. Changes are either recorded as such, or derived from observations:
an SR changed when its value differs from the previous observation's; the first one of an SR says nothing.
Files are CSV (also .gz), JSONL or Parquet, by the ends of their names.
"""

import csv
import gzip
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json
from pyarrow.types import is_integer, is_timestamp
from pydantic import BaseModel, ConfigDict, Field

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.simulator.trace.file_tables import Labels, TraceTable, read_csv, read_parquet
from freshkeeper.simulator.trace.recorded_trace import changes_seen
from freshkeeper.simulator.trace.trace import Changes, Trace, TraceArrivals, distinct_edges, number

Unit = Annotated[
    Literal["ms", "s", "iso"],
    Field(description="what times count, fractions allowed, or iso: ISO 8601, UTC where no zone is given"),
]
MS = {"ms": 1, "s": 1000}


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path = Field(
        description="CSV, CSV.gz, JSONL or Parquet; a relative path is below the base directory; of changes also a "
        "journal, which tells those that its refreshes saw"
    )


class ArrivalSource(_Source):
    """A row per arrival."""

    time: str = Field(default="t_ms", description="column of the time")
    unit: Unit = "ms"
    sn: str = Field(default="sn", description="column of the lookup key's id")


class EdgeSource(_Source):
    """A row per edge."""

    sn: str = Field(default="sn", description="column of the lookup key's id")
    sr: str = Field(default="sr", description="column of the cached entry's id")


class ChangeSource(_Source):
    """A row per change, or per observation."""

    time: str = Field(default="t_ms", description="column of the time")
    unit: Unit = "ms"
    sr: str = Field(default="sr", description="column of the cached entry's id")
    value: str | None = Field(default=None, description="column of the value")
    observations: bool = Field(default=False, description="rows are observations, changed or not; needs a value")


class Conversion(BaseModel):
    """The files and columns from which the three tables of a trace come."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arrivals: ArrivalSource
    edges: EdgeSource | None = Field(default=None, description="without edges every key is its own cached entry")
    changes: ChangeSource


def convert(conversion: Conversion, base: Path) -> Trace:
    """Read the sources, relative paths being below `base`, as a trace."""
    arrivals = _open(conversion.arrivals, base, conversion.arrivals.time)
    _must_have(arrivals, conversion.arrivals.time, conversion.arrivals.sn)
    keys = arrivals.words(conversion.arrivals.sn)
    owners, needed = keys, keys
    if conversion.edges is not None:
        edges = _open(conversion.edges, base, None)
        _must_have(edges, conversion.edges.sn, conversion.edges.sr)
        owners, needed = edges.words(conversion.edges.sn), edges.words(conversion.edges.sr)
    changes = _changed(conversion.changes, base)
    sn_labels, (arrived, sn) = number(keys, owners)
    sr_labels, (sr, changed) = number(needed, changes.words(conversion.changes.sr))
    if changed.size and not np.isin(changed, sr).any():
        raise InputError(
            f"{changes.path}: nothing that changes is needed by anybody: it has {sr_labels[changed[0]]}, and what is "
            f"needed is like {sr_labels[sr[0]]}; the same entry must have the same id in both"
        )
    t_ms = times(arrivals, conversion.arrivals.time, conversion.arrivals.unit)
    order = np.argsort(t_ms, kind="stable")
    return Trace(
        TraceArrivals(t_ms[order], arrived[order]),
        distinct_edges(sn, sr),
        _changes(changes, conversion.changes, changed),
        sn_labels,
        sr_labels,
    )


def times(table: TraceTable, column: str, unit: Unit) -> Ints:
    """Return a column of times in milliseconds, rounded down."""
    data = table.data[column]
    if data.null_count:
        raise table.fault(int(pc.index(pc.is_null(data), True).as_py()), f"{column} is missing; every row needs one")
    if is_timestamp(data.type):
        t_ms = data.to_numpy().astype("datetime64[ms]").astype(np.int64)
    elif unit == "iso":
        t_ms = _iso(table, column)
    else:
        t_ms = _counted(table, column, unit)
    negative = np.flatnonzero(t_ms < 0)
    if negative.size:
        raise _fault(table, column, int(negative[0]), "at least 0, which is 1970")
    return t_ms


def derived(t_ms: Ints, sr: Ids, value: Labels) -> Changes:
    """Return the observations whose value differs from the previous observation of the same SR."""
    order = np.lexsort((t_ms, sr))
    sorted_sr, sorted_value = sr[order], value[order]
    differs = (sorted_sr[1:] == sorted_sr[:-1]) & (sorted_value[1:] != sorted_value[:-1])
    kept = order[1:][differs]
    return Changes.in_order(t_ms[kept], sr[kept], value[kept])


def _changes(table: TraceTable, source: ChangeSource, sr: Ids) -> Changes:
    t_ms = times(table, source.time, source.unit)
    if source.value is None and source.observations:
        raise InputError(f"{table.path}: observations without a value tell no change; name the column of the value")
    if source.value is None:
        return Changes.in_order(t_ms, sr)
    _must_have(table, source.value)
    value = table.values(source.value)
    assert value is not None
    if source.observations:
        return derived(t_ms, sr, value)
    return Changes.in_order(t_ms, sr, value)


def _changed(source: ChangeSource, base: Path) -> TraceTable:
    """Return the table of changes, from a file or from a journal."""
    if (base / source.file).is_dir():
        return changes_seen(base / source.file)
    changes = _open(source, base, source.time)
    _must_have(changes, source.time, source.sr)
    return changes


def columns_of(path: Path) -> list[str]:
    """Return the names of a file's columns, in their order."""
    if path.suffix in (".parquet", ".jsonl", ".ndjson") or not path.is_file():
        return list(_open(_Source(file=path), Path(), None).data.column_names)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return next(csv.reader(file), [])


def first_times(path: Path, column: str) -> "pa.Array":
    """Return the first hundred times of a column, as strings."""
    table = _open(ArrivalSource(file=path, time=column), Path(), column)
    table.must_have(column)
    table.must_have_rows()
    return pa.array(table.data[column].slice(0, 100).cast(pa.string()).to_pylist())


def _open(source: _Source, base: Path, time: str | None) -> TraceTable:
    path = base / source.file
    if not path.exists():
        raise InputError(f"{path} does not exist; give the path of a CSV, CSV.gz, JSONL or Parquet file")
    if path.suffix == ".parquet":
        return read_parquet(path)
    if path.suffix in (".jsonl", ".ndjson"):
        try:
            return TraceTable(path, json.read_json(path))
        except pa.ArrowInvalid as error:
            said = str(error).splitlines()[0]
            raise InputError(f"{path} is no JSONL: {said}; every line must be one object") from None
    named = source.model_dump(exclude={"file", "unit", "observations"}, exclude_none=True).values()
    word = pa.dictionary(pa.int32(), pa.string())
    types = dict.fromkeys(named, word)
    if time:
        types[time] = pa.string()
    return read_csv(path, types)


def _must_have(table: TraceTable, *columns: str) -> None:
    table.must_have(*columns)
    table.must_have_rows()


def _counted(table: TraceTable, column: str, unit: Unit) -> Ints:
    data = table.data[column]
    if is_integer(data.type):
        whole: Ints = data.to_numpy().astype(np.int64) * MS[unit]
        return whole
    numbers = _cast(table, column, data.cast(pa.string()), pa.float64(), f"a number of {unit}")
    sane = np.abs(numbers) < 1e15
    if not sane.all():
        raise _fault(table, column, int(np.argmin(sane)), f"a number of {unit}")
    # Seconds as floats are off by less than a microsecond; without the rounding 0.129 s could be 128 ms.
    t_ms: Ints = np.floor((numbers * MS[unit]).round(3)).astype(np.int64)
    return t_ms


def _iso(table: TraceTable, column: str) -> Ints:
    words = table.data[column].cast(pa.string())
    dated = pc.match_substring_regex(words, r"^\d+-\d\d-\d\d$")
    zoned = pc.match_substring_regex(words, r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$")
    words = pc.if_else(dated, pc.binary_join_element_wise(words, "00:00", "T"), words)
    words = pc.if_else(zoned, words, pc.binary_join_element_wise(words, "Z", ""))
    instants = _cast(table, column, words, pa.timestamp("ns", "UTC"), "an ISO 8601 time such as 2024-05-01T12:00:00Z")
    t_ms: Ints = instants.astype("datetime64[ms]").astype(np.int64)
    return t_ms


def _cast(table: TraceTable, column: str, words: pa.ChunkedArray, kind: pa.DataType, right: str) -> NDArray[Any]:
    """Cast strings to another type; find the first that cannot be cast by halving, as Arrow does not name it."""
    try:
        return words.cast(kind).to_numpy()
    except pa.ArrowInvalid:
        good, bad = 0, len(words)
        while bad - good > 1:
            middle = (good + bad) // 2
            if _casts(words.slice(good, middle - good), kind):
                good = middle
            else:
                bad = middle
        raise _fault(table, column, good, right) from None


def _casts(words: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        words.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _fault(table: TraceTable, column: str, row: int, right: str) -> InputError:
    return table.fault(row, f"{column} is {table.data[column][row].as_py()!r}; it must be {right}")
