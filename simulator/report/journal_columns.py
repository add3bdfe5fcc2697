"""Columns of the journal as numpy arrays: NaN where there is no number, an empty word where there is no word."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.journal.journal import files

BROKEN = (OSError, ValueError, NotImplementedError, KeyError)
"""What pyarrow raises for a file that is no Parquet and for a column that cannot be cast."""

Batch = Mapping[str, "pa.Array | pa.ChunkedArray"]


def floats(table: "pa.Table | Batch", name: str) -> Floats:
    """A column of numbers or truth values; all NaN where the table has none."""
    if isinstance(table, pa.Table) and name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    column = table[name].cast(pa.float64())
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), np.float64)


def integers(table: "pa.Table | Batch", name: str, missing: int) -> Ints:
    """A column of whole numbers, exactly."""
    column = table[name].cast(pa.int64())
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(pc.fill_null(whole, missing).to_numpy(zero_copy_only=False), np.int64)


def words(table: "pa.Table | Batch", name: str) -> tuple[list[str], Ints]:
    """The distinct words of a column, and for each row which one it has."""
    if isinstance(table, pa.Table) and name not in table.column_names:
        return [""], np.zeros(table.num_rows, np.int64)
    column = table[name].cast(pa.string())
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = pc.fill_null(whole, "").dictionary_encode()
    return [str(word) for word in coded.dictionary.to_pylist()], coded.indices.to_numpy().astype(np.int64)


def batches(file: Path, names: Sequence[str]) -> Iterator[Batch]:
    """A large table piece by piece, with the columns asked for and nothing else."""
    for part in files(file):
        for batch in parquet.ParquetFile(part).iter_batches(columns=list(names)):
            yield {name: batch.column(name) for name in names}


def has(file: Path, names: Sequence[str]) -> bool:
    """Whether a table is there with all of these columns."""
    parts = files(file)
    return bool(parts) and all(set(names) <= set(parquet.ParquetFile(part).schema_arrow.names) for part in parts)


def sums(of: NDArray[np.integer], values: Floats, groups: int) -> Floats:
    """The sum of the values of each group."""
    total: Floats = np.bincount(of, values, groups).astype(np.float64)
    return total
