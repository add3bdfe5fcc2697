"""The analysis in this process, on DuckDB: no Java, no start-up time, and tables that do not fit memory go to disk."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from freshkeeper.maintenance.journal.journal import files
from freshkeeper.maintenance.pipeline.analysis.engine import Row, UnreadableError

NULLS = "nulls_first_on_asc_last_on_desc"
"""As Spark has them."""


class DuckDB:
    """A database of its own, in memory and in a temporary directory."""

    name = "duckdb"
    failures: tuple[type[Exception], ...] = (duckdb.Error,)

    def __init__(self) -> None:
        """Nothing is in it yet."""
        self._directory = tempfile.TemporaryDirectory(prefix="freshkeeper-")
        self._connection = duckdb.connect(config={"temp_directory": self._directory.name, "default_null_order": NULLS})

    def parquet(self, name: str, path: str) -> list[str]:
        """Read by itself, part by part, columns as they are wanted."""
        parts = [str(part) for part in files(Path(path))]
        if not parts:
            return []
        try:
            table = self._connection.read_parquet(parts, union_by_name=True)
        except self.failures as error:
            raise UnreadableError(path) from error
        table.create_view(name)
        return list(table.columns)

    def given(self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> None:
        """A temporary table."""
        typed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        self._connection.execute(f"CREATE TEMP TABLE {name} ({typed})")
        if rows:
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

    def view(self, name: str, query: str) -> None:
        """A temporary view."""
        self._connection.execute(f"CREATE TEMP VIEW {name} AS {query}")

    def keep(self, name: str, query: str, order: str = "", large: bool = False) -> None:
        """A temporary table: what is too large for memory goes to disk by itself."""
        del large
        ordered = f"SELECT * FROM ({query}) AS unordered ORDER BY {order}" if order else query
        self._connection.execute(f"CREATE TEMP TABLE {name} AS {ordered}")

    def rows(self, query: str) -> list[Row]:
        """As dictionaries."""
        found = self._connection.execute(query)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def write(self, name: str, path: str) -> None:
        """One part, named as Spark and journals name theirs."""
        Path(path).mkdir(parents=True)
        part = str(Path(path) / "part-0.parquet").replace("'", "''")
        self._connection.execute(f"COPY {name} TO '{part}' (FORMAT parquet, COMPRESSION zstd)")

    def read_text(self, path: str) -> str | None:
        """From this machine."""
        file = Path(path)
        return file.read_text("utf-8") if file.is_file() else None

    def write_text(self, path: str, text: str) -> None:
        """Onto this machine."""
        Path(path).write_text(text, "utf-8")

    def close(self) -> None:
        """Close the database and remove what it put on disk."""
        self._connection.close()
        self._directory.cleanup()
