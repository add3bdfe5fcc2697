"""What an analysis runs on: something that reads Parquet and understands SQL, be it in this process or on a cluster.

The analysis is SQL text that all engines understand alike. Names that are reserved words stand in double quotes, whole
numbers are summed with `total`, and nothing is used that one of the engines lacks or takes otherwise.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Row = dict[str, Any]


class UnreadableError(Exception):
    """A file that is there and is no Parquet."""


class Engine(Protocol):
    """Tables by name, made of files and of queries over earlier ones."""

    @property
    def name(self) -> str:
        """As people call it."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What it raises."""
        ...

    def parquet(self, name: str, path: str) -> list[str]:
        """Make a table of a file or of a directory of parts, and give its columns; none where nothing is there."""
        ...

    def given(self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> None:
        """Make a small table of rows; columns have their types."""
        ...

    def view(self, name: str, query: str) -> None:
        """Name a query."""
        ...

    def keep(self, name: str, query: str, order: str = "", large: bool = False) -> None:
        """The same, computed once however often it is used; what is ordered is small, and rows come in its order.

        A large one is kept where there is more room.
        """
        ...

    def rows(self, query: str) -> list[Row]:
        """What a query gives."""
        ...

    def write(self, name: str, path: str) -> None:
        """Write a table as Parquet, a directory of parts."""
        ...

    def read_text(self, path: str) -> str | None:
        """A small file, None where it cannot be had."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Write one."""
        ...

    def close(self) -> None:
        """Let go of what was kept."""
        ...


def located(path: str) -> str:
    """A path that an engine understands wherever its processes were started; what names a file system stays."""
    return path if "://" in path else str(Path(path).resolve())


def total(what: str) -> str:
    """The sum of whole numbers as one, though an engine may add them up in a wider type."""
    return f"cast(sum({what}) AS bigint)"


def number(when: str) -> str:
    """How many rows there are of which it is so."""
    return f"count(*) FILTER (WHERE {when})"
