"""The tables of an analysis but for the answers: SQL on DuckDB in this process; what memory cannot hold is on disk."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

Row = dict[str, Any]
MEMORY = "1500MB"
"""Of one database; an analysis has two, one for what slices gave and one for the slice that is judged."""
NULLS = "nulls_first_on_asc_last_on_desc"


class UnreadableError(Exception):
    """A file that is there and is no Parquet."""


class Database:
    """A database of its own, in memory and in a temporary directory."""

    def __init__(self, threads: int | None = None) -> None:
        """Nothing is in it yet; as many threads as there are cores, unless it is said."""
        self._directory = tempfile.TemporaryDirectory(prefix="freshkeeper-")
        config: dict[str, Any] = {"temp_directory": self._directory.name, "default_null_order": NULLS}
        config["memory_limit"] = MEMORY
        self._connection = duckdb.connect(config=config | ({} if threads is None else {"threads": threads}))

    def parquet(self, name: str, parts: Sequence[Path]) -> list[str]:
        """Name the parts of a table, and give its columns; none where there are no parts."""
        if not parts:
            return []
        try:
            table = self._connection.read_parquet([str(part) for part in parts], union_by_name=True)
        except duckdb.Error as error:
            raise UnreadableError(str(parts[0])) from error
        table.create_view(name)
        return list(table.columns)

    def take(self, name: str, rows: pa.Table) -> None:
        """Make a table of rows from elsewhere."""
        self._connection.from_arrow(rows).create(name)

    def add(self, name: str, rows: pa.Table) -> None:
        """More rows of such a table."""
        self._connection.from_arrow(rows).insert_into(name)

    def set(self, **variables: object) -> None:
        """What `getvariable` gives."""
        for name, value in variables.items():
            self._connection.execute(f"SET VARIABLE {name} = $1", [value])

    def drop(self, name: str) -> None:
        """Let go of a table."""
        self._connection.execute(f"DROP TABLE {name}")

    def view(self, name: str, query: str) -> None:
        """Name a query."""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def keep(self, name: str, query: str) -> None:
        """The same, computed once however often it is used."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

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
