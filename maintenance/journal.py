"""The journal: what happened, as Parquet tables with one schema for production and for simulations.

A journal is a directory; every table is one file, written whole under another name and then moved into place, so that
a reader never sees half of it. `setting` names what was varied (run.json says what it means); in production it is "".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from policies.arrays import Bools, Floats, Ids, Ints

Column = Sequence[object] | Ints | Ids | Floats | Bools

WHOSE = [("setting", pa.string()), ("policy", pa.string())]
SCHEMAS: dict[str, "pa.Schema"] = {
    "evaluations": pa.schema(
        [
            *WHOSE,
            ("case", pa.string()),
            ("knowledge", pa.string()),
            ("seed", pa.int64()),
            ("k", pa.int64()),
            ("t_ms", pa.int64()),
            ("warmup", pa.bool_()),
            ("results", pa.float64()),
            ("fresh", pa.float64()),
            ("expected_fresh", pa.float64()),
            ("window_mappings", pa.int64()),
            ("candidates", pa.int64()),
            ("stale", pa.int64()),
            ("budget", pa.float64()),
            ("spent", pa.float64()),
            ("carried", pa.float64()),
            ("decide_us", pa.float64()),
            ("fetch_ms", pa.float64()),
            ("errors", pa.int64()),
        ]
    ),
    "refreshes": pa.schema(
        [
            *WHOSE,
            ("seed", pa.int64()),
            ("k", pa.int64()),
            ("t_ms", pa.int64()),
            ("sr", pa.string()),
            ("changed", pa.bool_()),
            ("requests", pa.int64()),
            ("latency_ms", pa.float64()),
            ("error", pa.string()),
            ("gain", pa.float64()),
            ("late", pa.bool_()),
        ]
    ),
    "answers": pa.schema(
        [
            *WHOSE,
            ("case", pa.string()),
            ("seed", pa.int64()),
            ("k", pa.int64()),
            ("t_ms", pa.int64()),
            ("sn", pa.string()),
            ("sr", pa.string()),
            ("weight", pa.int64()),
            ("refreshed_ms", pa.int64()),
        ]
    ),
    "changes": pa.schema([("setting", pa.string()), ("seed", pa.int64()), ("sr", pa.string()), ("t_ms", pa.int64())]),
}


def table(name: str, columns: Mapping[str, Column]) -> "pa.Table":
    """A table of the journal; a column that is left out is null."""
    schema = SCHEMAS[name]
    rows = max((len(column) for column in columns.values()), default=0)
    arrays = [pa.array(columns.get(part.name, [None] * rows), part.type) for part in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def write(directory: Path, name: str, tables: Sequence["pa.Table"]) -> None:
    """Write one table whole; nothing of it is visible before it is complete."""
    directory.mkdir(parents=True, exist_ok=True)
    whole = pa.concat_tables(tables) if tables else SCHEMAS[name].empty_table()
    unfinished = directory / f".{name}.parquet.part"
    parquet.write_table(whole, unfinished, compression="zstd")
    unfinished.replace(directory / f"{name}.parquet")


def read(directory: Path, name: str) -> "pa.Table | None":
    """One table, or None where the journal has none."""
    path = directory / f"{name}.parquet"
    return parquet.read_table(path) if path.exists() else None


@dataclass(eq=False)
class Buffer:
    """Columns that grow row by row, for one table."""

    name: str
    columns: dict[str, list[object]] = field(default_factory=dict)

    def add(self, row: Mapping[str, object]) -> None:
        """One more row."""
        for column, value in row.items():
            self.columns.setdefault(column, []).append(value)

    def table(self) -> "pa.Table":
        """What was added, as a table."""
        return table(self.name, self.columns)
