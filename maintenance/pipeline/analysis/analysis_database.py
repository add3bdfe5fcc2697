"""The tables of an analysis but for the answers: SQL on DuckDB in this process; what memory cannot hold is on disk."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from freshkeeper.maintenance.journal.journal import files
from freshkeeper.maintenance.pipeline.analysis.analysis_engine import UnreadableError

Row = dict[str, Any]
NULLS = "nulls_first_on_asc_last_on_desc"


class Database:
    """A database of its own, in memory and in a temporary directory."""

    def __init__(self) -> None:
        """Nothing is in it yet."""
        self._directory = tempfile.TemporaryDirectory(prefix="freshkeeper-")
        self._connection = duckdb.connect(config={"temp_directory": self._directory.name, "default_null_order": NULLS})

    def parquet(self, name: str, path: Path) -> list[str]:
        """Name a file or a directory of parts, and give its columns; none where nothing is there."""
        parts = [str(part) for part in files(path)]
        if not parts:
            return []
        try:
            table = self._connection.read_parquet(parts, union_by_name=True)
        except duckdb.Error as error:
            raise UnreadableError(str(path)) from error
        table.create_view(name)
        return list(table.columns)

    def take(self, name: str, rows: pa.Table) -> None:
        """Make a table of rows from elsewhere."""
        self._connection.from_arrow(rows).create(name)

    def given(self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> None:
        """Make a small table of rows; columns have their types."""
        typed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        self._connection.execute(f"CREATE TEMP TABLE {name} ({typed})")
        if rows:
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

    def view(self, name: str, query: str) -> None:
        """Name a query."""
        self._connection.execute(f"CREATE TEMP VIEW {name} AS {query}")

    def keep(self, name: str, query: str, order: str = "") -> None:
        """The same, computed once however often it is used, rows in this order."""
        ordered = f"SELECT * FROM ({query}) AS unordered ORDER BY {order}" if order else query
        self._connection.execute(f"CREATE TEMP TABLE {name} AS {ordered}")

    def rows(self, query: str) -> list[Row]:
        """What a query gives, as dictionaries."""
        found = self._connection.execute(query)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def columns(self, query: str) -> pa.Table:
        """The same, as columns."""
        found: pa.Table = self._connection.sql(query).to_arrow_table()
        return found

    def write(self, name: str, path: Path) -> None:
        """One part, named as Spark and journals name theirs."""
        path.mkdir(parents=True)
        part = str(path / "part-0.parquet").replace("'", "''")
        self._connection.execute(f"COPY {name} TO '{part}' (FORMAT parquet, COMPRESSION zstd)")

    def close(self) -> None:
        """Close the database and remove what it put on disk."""
        self._connection.close()
        self._directory.cleanup()


def total(what: str) -> str:
    """The sum of whole numbers as one, though it is added up in a wider type."""
    return f"cast(sum({what}) AS bigint)"


def number(when: str) -> str:
    """How many rows there are of which it is so."""
    return f"count(*) FILTER (WHERE {when})"
