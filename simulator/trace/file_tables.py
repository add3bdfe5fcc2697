"""Tables from files: CSV and Parquet read as columns, with errors that name the file, the row and the value."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet
from pyarrow.types import is_dictionary, is_floating, is_integer, is_nested

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import InputError, TimeError, nearest

Labels: TypeAlias = NDArray[Any]
"""int64, or str as objects."""


def integers_or_words(words: pa.Array) -> Labels:
    """Return integers if every word is exactly how an integer prints, else the words."""
    if _all_match(words, r"^(0|-?[1-9]\d{0,17})$"):
        return words.cast(pa.int64()).to_numpy()
    return words.to_numpy(zero_copy_only=False)


def numbers_or_words(words: pa.Array) -> Labels:
    """Return numbers if every word is exactly how a number prints, else the words: 1.10 stays a word."""
    if _all_match(words, r"^-?\d+(\.\d+)?(e[+-]?\d+)?$"):
        floats = words.cast(pa.float64())
        if pc.all(pc.equal(floats.cast(pa.string()), words)).as_py():
            return floats.to_numpy()
    return integers_or_words(words)


@dataclass(frozen=True, eq=False)
class TraceTable:
    """A table read from a file, with checks that name the row."""

    path: Path
    data: pa.Table

    def fault(self, row: int, words: str, kind: type[InputError] = InputError) -> InputError:
        """Return an error that names the row with this index."""
        return kind(f"{self.path}: row {row + 1}: {words}")

    def must_have(self, *columns: str) -> None:
        """Raise InputError unless every column is there exactly once."""
        for column in columns:
            if self.data.column_names.count(column) != 1:
                hint = nearest(column, self.data.column_names)
                raise InputError(f"{self.path}: the column {column!r} must be there once; {hint}")

    def must_have_rows(self) -> None:
        """Raise InputError if the table has no rows."""
        if not self.data.num_rows:
            raise InputError(f"{self.path} has no rows; it must have at least one")

    def times(self, column: str = "t_ms") -> Ints:
        """Return a column of times; raise if they are negative or out of order."""
        t_ms = self.integers(column)
        back = np.flatnonzero(t_ms[1:] < t_ms[:-1])
        if back.size:
            row = int(back[0]) + 1
            words = f"{column} is {t_ms[row]} after {t_ms[row - 1]} in row {row}; sort the rows by {column}"
            raise self.fault(row, words, TimeError)
        return t_ms

    def integers(self, column: str, least: int = 0) -> Ints:
        """Return a column of integers; raise if one is below `least`."""
        data = self.data[column]
        if not is_integer(data.type):
            raise InputError(f"{self.path}: {column} is of type {data.type}; it must hold integers, in milliseconds")
        self._all_there(column)
        numbers: Ints = data.to_numpy().astype(np.int64)
        low = np.flatnonzero(numbers < least)
        if low.size:
            raise self.fault(int(low[0]), f"{column} is {numbers[low[0]]}; it must be at least {least}")
        return numbers

    def words(self, column: str, blank: bool = False) -> pa.DictionaryArray:
        """Return a column of strings, dictionary-encoded."""
        data = self.data[column]
        if is_floating(data.type) or is_nested(data.type):
            raise InputError(f"{self.path}: {column} is of type {data.type}; it must hold strings or integers")
        self._all_there(column)
        words = _dictionary(data)
        if not blank and len(words):
            self._no_blanks(column, words)
        return words

    def values(self, column: str) -> Labels | None:
        """Return the values of an optional column, of any type."""
        if column not in self.data.column_names:
            return None
        data = self.data[column]
        if not is_floating(data.type):
            words = self.words(column, blank=True)
            return _integral(numbers_or_words(words.dictionary)[words.indices.to_numpy()])
        self._all_there(column)
        numbers = data.to_numpy().astype(np.float64)
        if not np.isfinite(numbers).all():
            raise self.fault(int(np.argmin(np.isfinite(numbers))), f"{column} is not finite; it must be a number")
        return _integral(numbers)

    def _all_there(self, column: str) -> None:
        if self.data[column].null_count:
            row = int(pc.index(pc.is_null(self.data[column]), True).as_py())
            raise self.fault(row, f"{column} is missing; every row needs one")

    def _no_blanks(self, column: str, words: pa.DictionaryArray) -> None:
        blank = pc.equal(pc.utf8_trim_whitespace(words.dictionary), "")
        rows = np.flatnonzero(blank.to_numpy(zero_copy_only=False)[words.indices.to_numpy()])
        if rows.size:
            raise self.fault(int(rows[0]), f"{column} is empty; every row needs an id")


def read_csv(path: Path, types: dict[str, pa.DataType]) -> TraceTable:
    """Read a CSV file, unpacked if its name ends in .gz; Arrow infers the types that are not given."""
    options = csv.ConvertOptions(column_types=types, null_values=[""])
    try:
        data = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=options)
    except pa.ArrowInvalid as error:
        raise _csv_fault(path, str(error), [name for name, kind in types.items() if is_integer(kind)]) from None
    except OSError as error:
        hint = "it is cut off or no gzip, write it again" if path.suffix == ".gz" else "it must be a readable file"
        raise InputError(f"{path} cannot be read: {_first_line(str(error))}; {hint}") from None
    return TraceTable(path, data)


def read_parquet(path: Path) -> TraceTable:
    """Read a Parquet file, or a directory of them as Spark writes it."""
    try:
        return TraceTable(path, parquet.read_table(path, partitioning=None))
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is no Parquet file: {_first_line(str(error))}; write it again") from None


def _csv_fault(path: Path, error: str, whole: list[str]) -> InputError:
    """Find what is wrong with a CSV file by reading it again as strings, row by row."""
    if "Empty CSV" in error:
        return InputError(f"{path} is empty; it must begin with a header that names its columns")
    ragged: list[csv.InvalidRow] = []

    def skip(row: csv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    parsing = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    words = csv.ConvertOptions(column_types=dict.fromkeys(whole, pa.string()))
    try:
        table = TraceTable(path, csv.read_csv(path, csv.ReadOptions(use_threads=False), parsing, words))
    except (pa.ArrowInvalid, OSError):
        return InputError(f"{path}: {_first_line(error)}")
    if ragged:
        bad = ragged[0]
        seen = f"{bad.text!r} has {bad.actual_columns} columns"
        return table.fault((bad.number or 2) - 2, f"{seen}; the header names {bad.expected_columns}")
    for column in whole:
        if column in table.data.column_names:
            good = pc.match_substring_regex(table.data[column], r"^\s*(-?\d{1,19})?\s*$")
            if not pc.all(good).as_py():
                row = int(pc.index(good, False).as_py())
                seen = f"{column} is {table.data[column][row].as_py()!r}"
                return table.fault(row, f"{seen}; it must be an integer, in milliseconds")
    return InputError(f"{path}: {_first_line(error)}")


def _first_line(error: str) -> str:
    return error.splitlines()[0].rstrip(".")


def _all_match(words: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(words, pattern)).as_py())


def _dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    coded = column if is_dictionary(column.type) else column.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    assert isinstance(whole, pa.DictionaryArray)
    return pa.DictionaryArray.from_arrays(whole.indices.cast(pa.int32()), whole.dictionary.cast(pa.string()))


def _integral(values: Labels) -> Labels:
    """Floats as integers where nothing is lost, as they would come back from a CSV."""
    if values.dtype != np.float64 or not np.all((values == np.floor(values)) & (np.abs(values) < 1e15)):
        return values
    return values.astype(np.int64)
