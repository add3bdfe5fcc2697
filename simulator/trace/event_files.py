"""Logs as people have them: when and which key, from CSV, JSON lines or Parquet, with the standard library alone.

Encoding, delimiter, header, columns and the unit of times are detected, and a note says what was detected. A row that
cannot be read is an error that names the row. Parquet needs pyarrow.
"""

import csv
import gzip
import io
import json
import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from freshkeeper.maintenance.base.errors import InputError, naming_extra, nearest

MS_BY_UNIT = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
ISO = "iso"
UNITS = (*MS_BY_UNIT, ISO)
FIRST_EPOCH_S, EPOCH_RANGE = 1e8, 1000.0
"""Numbers from 10^8 on count from 1970: seconds up to 10^11 (the year 5138), then milliseconds, and so on."""
LATEST_MS = 253_402_300_800_000.0
"""The year 10000."""
DELIMITERS = "\t;|,"
"""Comma last: it may be the decimal sign of times in a file with semicolons."""
SAMPLE_CHARACTERS, SAMPLE_ROWS = 262_144, 200
PROGRESS_ROWS = 50_000
PARQUET = "parquet"
FOREIGN_PACKERS = {b"PK\x03\x04": "ZIP", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
"""By the first bytes of a file."""
MISSING = frozenset(("", "nan", "null", "none", "na", "n/a", "nat", "\\n"))
"""Cells that say that there is no value, in lower case."""
TIME_NAMES = ("t_ms", "time", "timestamp", "ts", "at", "when", "datetime", "date", "t")
KEY_NAMES = ("sn", "sr", "key", "entry", "id")
NO_CHANGES = (
    "nothing tells when the source changes, and without that there is no freshness: name a history of the source, a "
    "table of when and which entry (--changes FILE), or a journal whose refreshes saw it (--changes DIRECTORY)"
)
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})([ T].*)?", re.ASCII)
_YEAR_FIRST = re.compile(r"\d{4}[-/]\d|\d{8}T", re.ASCII)
_FLOAT_ID = re.compile(r"-?\d+\.0", re.ASCII)

Progress: TypeAlias = Callable[[float], None]
"""Is called with the share that is done."""


@dataclass(frozen=True)
class NamedFile:
    """A file, and the columns that were named with it, in the order of their meanings."""

    path: Path
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, written: str) -> "NamedFile":
        """Parse `events.csv:at,product`; a file whose name has a colon is taken as it is."""
        path, colon, columns = written.rpartition(":")
        if not colon or Path(written).exists():
            return cls(Path(written))
        return cls(Path(path), tuple(column.strip() for column in columns.split(",")))


@dataclass(frozen=True, eq=False)
class Events:
    """The rows of a file in the order of their times: when, which key, and a value where one was named."""

    path: Path
    times: "array[float]"
    """milliseconds since the epoch"""
    keys: list[str]
    values: list[str] | None
    note: str
    """what was detected"""
    left_out: int = 0
    """rows without a time or a key"""


def read_events(
    file: NamedFile,
    meanings: Sequence[str],
    unit: str = "",
    also: Collection[str] = (),
    skip_bad_rows: bool = False,
    progress: Progress | None = None,
) -> Events:
    """Read when and which key from a file; `meanings` name the columns in messages, a third one is optional.

    `also` are columns of another file with the same keys: a key is looked for among them first.
    """
    for encoding in _encodings(file.path):
        try:
            with _opened(file, encoding, progress) as table:
                return _Reading(table, table.layout(meanings, unit, also), meanings, skip_bad_rows).events()
        except UnicodeDecodeError:
            continue
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{file.path} is cut off or no gzip file; write it again") from None
        except OSError as error:
            raise _unreadable(file.path, error) from None
    raise InputError(f"{file.path} is no text: it is neither UTF-8 nor Latin-1")


def columns_of(path: Path) -> list[str]:
    """Return the names of a file's columns, none where it has no header."""
    for encoding in _encodings(path):
        try:
            with _opened(NamedFile(path), encoding, None) as table:
                pass
            has_header = table.names_known or not any(time_kind(cell) for cell in table.sample[0][1])
            return [str(cell) for cell in table.sample[0][1]] if has_header and not table.names_known else table.names
        except (UnicodeDecodeError, IndexError):
            continue
    return []


def time_kind(cell: object) -> str:
    """Return "number" or "iso" for a cell that may be a time, else nothing."""
    if isinstance(cell, bool):
        return ""
    if isinstance(cell, int | float):
        return "number"
    text = str(cell)
    if _NUMBER.fullmatch(text):
        return "number"
    try:
        _instant(text)
    except ValueError:
        return ""
    return ISO


def _instant(text: str) -> float:
    """Return a date and time in ms since the epoch, UTC where no zone is given; raise ValueError for anything else."""
    if found := _DAY_FIRST.fullmatch(text):
        text = f"{found[3]}-{int(found[2]):02}-{int(found[1]):02}{found[4] or ''}"
    elif not _YEAR_FIRST.match(text):
        raise ValueError(text)
    if text[4] == "/":
        text = text.replace("/", "-", 2)
    if text.endswith((" UTC", " GMT")):
        text = text[:-4] + "Z"
    if len(text) > 7 and text[-6] in "+-" and text[-7] == " " and text[-3] == ":":
        text = text[:-7] + text[-6:]
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() * 1000


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path} cannot be read: {error.strerror or error}; give the path of a CSV, JSONL or Parquet file"
    )


def _encodings(path: Path) -> list[str]:
    """Return the encodings to try, by the first bytes of a file."""
    if not path.is_file():
        why = "does not exist"
        if path.exists():
            why = "is a directory" if path.is_dir() else "can be read only once: write it to a file"
        raise InputError(f"{path} {why}; give the path of a CSV, CSV.gz, JSONL or Parquet file")
    try:
        with _bytes_of(path) as (unpacked, _):
            head = unpacked.read(4096)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path} is cut off or no gzip file; write it again") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    for magic, kind in FOREIGN_PACKERS.items():
        if head.startswith(magic):
            raise InputError(f"{path} is a {kind} file; unpack it, or pack it with gzip")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ["utf-16"]
    if head.startswith(b"\xef\xbb\xbf"):
        return ["utf-8-sig"]
    zeros = [head[part::2].count(0) for part in (0, 1)]
    if max(zeros) > len(head) / 5 and min(zeros) == 0:
        return ["utf-16-be" if zeros[0] else "utf-16-le"]
    if head.startswith(b"PAR1"):
        return [PARQUET]
    if b"\0" in head:
        raise InputError(f"{path} is no text file; give a CSV, JSONL or Parquet file")
    return ["utf-8", "cp1252", "latin-1"]


@contextmanager
def _bytes_of(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file; yield its bytes unpacked, and as they are."""
    with path.open("rb") as raw:
        if raw.peek(2)[:2] != b"\x1f\x8b":
            yield raw, raw
            return
        with gzip.open(raw) as unpacked:
            yield cast("IO[bytes]", unpacked), raw


@contextmanager
def _opened(file: NamedFile, encoding: str, progress: Progress | None) -> "Iterator[_Table]":
    """Open a file of whatever format as a table."""
    if encoding == PARQUET:
        yield _Table.of_parquet(file)
        return
    with _bytes_of(file.path) as (unpacked, raw), io.TextIOWrapper(unpacked, encoding, newline="") as text:
        yield _Table.of_text(file, text, raw, progress)


Row: TypeAlias = tuple[int, Sequence[Any]]
"""The line in the file, and the cells."""


@dataclass(eq=False)
class _Table:
    """The rows of a file before their meaning is known."""

    path: Path
    column_words: tuple[str, ...]
    """the columns that were named, by name or number"""
    how: list[str]
    """what was detected, in words"""
    names: list[str]
    names_known: bool
    """whether the format itself names columns, as JSON does"""
    rows: Iterator[Row]
    sample: list[Row]
    unit: str = ""
    """of times, where the format itself says it"""
    decimal_comma: bool = False

    @classmethod
    def of_text(cls, file: NamedFile, text: io.TextIOWrapper, raw: IO[bytes], progress: Progress | None) -> "_Table":
        """Read the beginning of CSV or JSON."""
        encoding = text.encoding
        head = text.read(SAMPLE_CHARACTERS)
        whole = len(head) < SAMPLE_CHARACTERS
        text.seek(0)
        lines = _with_progress(text, raw, file.path.stat().st_size, progress)
        how = [] if encoding.startswith("utf-8") else [encoding.upper() if encoding != "cp1252" else "Latin-1"]
        if not head.strip():
            raise InputError(f"{file.path} is empty; it must have a row for every event")
        if head.lstrip()[0] in "{[":
            return cls._of_json(file, lines, how, is_list=head.lstrip()[0] == "[")
        return cls._of_csv(file, lines, head if whole else head.rpartition("\n")[0], how)

    @classmethod
    def _of_csv(cls, file: NamedFile, lines: Iterator[str], head: str, how: list[str]) -> "_Table":
        told = re.match(r"sep=(.)\r?\n", head)
        delimiter = told[1] if told else _delimiter(head, max(2, len(file.columns)))
        if told:
            next(lines)
        if delimiter != ",":
            how.append(f"separated by {'tabs' if delimiter == chr(9) else repr(delimiter)}")
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)
        rows = _csv_rows(file.path, reader)
        sample = list(islice(rows, SAMPLE_ROWS))
        return cls(
            path=file.path,
            column_words=file.columns,
            how=how,
            names=[str(number + 1) for number in range(len(sample[0][1]))] if sample else [],
            names_known=False,
            rows=chain(sample, rows),
            sample=sample,
            decimal_comma=delimiter != ",",
        )

    @classmethod
    def _of_json(cls, file: NamedFile, lines: Iterator[str], how: list[str], is_list: bool) -> "_Table":
        objects = _json_array(file.path, lines) if is_list else _json_lines(file.path, lines)
        first = list(islice(objects, SAMPLE_ROWS))
        names = list(dict.fromkeys(name for _, one in first for name in one))

        def row(numbered: tuple[int, dict[str, Any]]) -> Row:
            return numbered[0], [numbered[1].get(name) for name in names]

        return cls(
            path=file.path,
            column_words=file.columns,
            how=[*how, "JSON"],
            names=names,
            names_known=True,
            rows=map(row, chain(first, objects)),
            sample=list(map(row, first)),
        )

    @classmethod
    def of_parquet(cls, file: NamedFile) -> "_Table":
        """Read a file of Parquet."""
        with naming_extra(f"reading {file.path}"):
            import pyarrow as pa
            from pyarrow import parquet
            from pyarrow.types import is_timestamp
        try:
            table = parquet.read_table(file.path)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{file.path} is no Parquet file: {str(error).splitlines()[0]}; write it again") from None
        columns, unit = [], ""
        for name in table.column_names:
            column = table[name]
            if is_timestamp(column.type):
                column, unit = column.cast(pa.timestamp("us")).cast(pa.int64()), "us"
            columns.append(column.to_pylist())
        rows: Iterator[Row] = enumerate(zip(*columns, strict=True), 1)
        sample = list(islice(rows, SAMPLE_ROWS))
        return cls(
            path=file.path,
            column_words=file.columns,
            how=["Parquet"],
            names=table.column_names,
            names_known=True,
            rows=chain(sample, rows),
            sample=sample,
            unit=unit,
        )

    def layout(self, meanings: Sequence[str], unit: str, also: Collection[str]) -> "_Layout":
        """Find out which columns hold the time and the key, and whether the first row is a header."""
        if not self.sample:
            raise InputError(f"{self.path} has no rows; it must have at least one")
        first = [str(cell).strip() for cell in self.sample[0][1]]
        names = self.names if self.names_known else [name.removeprefix("#").strip() for name in first]
        body = self.sample if self.names_known else self.sample[1:] or self.sample
        if self.column_words and len(self.column_words) < 2:
            how = f"{self.path}:{','.join(meanings[:2])}"
            raise InputError(f"{self.path}: 2 columns must be named, not {len(self.column_words)}: {how}")
        if len(names) < 2:
            raise InputError(f"{self.path} has 1 column; it must have 2: {', '.join(meanings[:2])}")
        cells = [row for _, row in body]
        kinds = [_kind_of_column(cells, place) for place in range(len(names))]
        if self.column_words and set(self.column_words) <= set(names):
            places = [self._place(name, names) for name in self.column_words]
            header = not self.names_known
        elif self.column_words and all(name.isdecimal() and 0 < int(name) <= len(names) for name in self.column_words):
            places = [int(name) - 1 for name in self.column_words]
            header = not self.names_known and not time_kind(first[places[0]])
        elif self.column_words:
            raise self._unknown_column(names, kinds)
        else:
            time = self._time_column(names, kinds)
            header = not self.names_known and not time_kind(first[time])
            places = [time, _key_column(names if header or self.names_known else [], len(names), time, also)]
        shown = names if header or self.names_known else [f"column {place + 1}" for place in range(len(names))]
        if not self.names_known and not header:
            self.how.append("without a header")
        return _Layout(places, [shown[place] for place in places], header, len(names), unit or self.unit)

    def _place(self, name: str, names: Sequence[str]) -> int:
        if names.count(name) > 1:
            raise InputError(f"{self.path}: the column {name!r} must be there once, not {names.count(name)} times")
        return names.index(name)

    def _unknown_column(self, names: Sequence[str], kinds: Sequence[str]) -> InputError:
        name = next(name for name in self.column_words if name not in names)
        if not self.names_known and any(time_kind(cell) for cell in names):
            numbers = ",".join(str(place + 1) for place in range(len(self.column_words)))
            return InputError(f"{self.path} has no header; name columns by their numbers: {self.path}:{numbers}")
        hint = nearest(name, [*names])
        return InputError(f"{self.path}: the column {name!r} must be there once; {hint}")

    def _time_column(self, names: Sequence[str], kinds: Sequence[str]) -> int:
        lower = [name.lower() for name in names]
        for name in TIME_NAMES:
            if name in lower and kinds[lower.index(name)]:
                return lower.index(name)
        for place, name in enumerate(lower):
            if kinds[place] and re.search(r"(time|date|_at|_ms|_ts|stamp)", name):
                return place
        for kind in (ISO, "epoch", "number"):
            if kind in kinds:
                return kinds.index(kind)
        # No column has times throughout: the one that most probably should, so that the error names its first bad row.
        for place, name in enumerate(lower):
            if name in TIME_NAMES:
                return place
        return 0


@dataclass(frozen=True)
class _Layout:
    """The columns of a file with their meanings."""

    places: Sequence[int]
    names: Sequence[str]
    has_header: bool
    width: int
    unit: str


def _kind_of_column(rows: Sequence[Sequence[Any]], place: int) -> str:
    """Return "iso", "epoch" or "number" where nearly all cells of a column are such times."""
    cells = [_stripped(row[place]) for row in rows if place < len(row)]
    there = [cell for cell in cells if not _is_missing(cell)]
    if not there:
        return ""
    kinds = Counter(map(time_kind, there))
    kind, count = kinds.most_common(1)[0]
    if not kind or count < 0.9 * len(there):
        return ""
    if kind == "number":
        numbers = [_number(cell) for cell in there if time_kind(cell) == "number"]
        return "epoch" if sorted(numbers)[len(numbers) // 2] >= FIRST_EPOCH_S else "number"
    return kind


def _key_column(names: Sequence[str], width: int, time: int, also: Collection[str]) -> int:
    """Return the column of the key: it has a usual name, is in the other file too, or is the first but the time."""
    lower = [name.lower() for name in names]
    for name in KEY_NAMES:
        if name in lower and lower.index(name) != time:
            return lower.index(name)
    others = [place for place in range(width) if place != time]
    shared = [place for place in others if place < len(names) and names[place] in also]
    if len(shared) == 1:
        return shared[0]
    endings = [place for place in others if place < len(lower) and lower[place].endswith(("_id", "_key"))]
    return endings[0] if endings else others[0]


def _delimiter(head: str, columns: int) -> str:
    """Return the delimiter by which most lines have as many columns, one of which holds times."""
    best, best_rating = ",", 0.0
    for delimiter in DELIMITERS:
        try:
            reader = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter, skipinitialspace=delimiter != "\t")
            rows = [row for row in islice(reader, SAMPLE_ROWS) if row]
        except csv.Error:
            continue
        widths = Counter(map(len, rows))
        width, count = widths.most_common(1)[0] if widths else (0, 0)
        if width < columns:
            continue
        rating = count / len(rows)
        if any(_kind_of_column(rows[1:] or rows, place) for place in range(width)):
            rating += 1
        if rating > best_rating:
            best, best_rating = delimiter, rating
    return best


def _with_progress(text: io.TextIOWrapper, raw: IO[bytes], size: int, progress: Progress | None) -> Iterator[str]:
    for number, line in enumerate(text, 1):
        if progress is not None and not number % PROGRESS_ROWS:
            progress(min(raw.tell() / size, 1.0))
        yield line


def _csv_rows(path: Path, reader: Any) -> Iterator[Row]:
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why = "a quote is opened and not closed" if "unexpected end" in str(error) else str(error)
            if "field larger" in str(error):
                why = "a quote is opened and not closed, or a field is longer than 131,072 characters"
            raise InputError(f"{path}: row at line {line}: {why}") from None
        if not cells or not any(cell.strip() for cell in cells):
            continue
        yield line, cells


def _json_lines(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}: row {number}: no JSON: {error}; every line must be one object") from None
        if not isinstance(found, dict):
            raise InputError(f"{path}: row {number}: {line.strip()[:40]!r} is no object; every line must be one object")
        yield number, found


def _json_array(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        found = json.loads("".join(lines))
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict):
            raise InputError(f"{path}: row {number}: {str(one)[:40]!r} is no object; a list of objects is wanted")
        yield number, one


def _is_missing(cell: object) -> bool:
    # NaN is the only number that is not equal to itself.
    return cell is None or cell != cell or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def _number(cell: object) -> float:
    return float(cell.strip().replace(",", ".")) if isinstance(cell, str) else float(cell)  # type: ignore[arg-type]


@dataclass(eq=False)
class _Reading:
    """Reads all rows of a table whose columns are known."""

    table: _Table
    layout: _Layout
    meanings: Sequence[str]
    skip_bad_rows: bool
    times: "array[float]" = field(default_factory=lambda: array("d"))
    where: "array[int]" = field(default_factory=lambda: array("q"))
    """the number and the line of every row, one after the other"""

    def events(self) -> Events:
        """Return the rows, sorted by time."""
        table, layout = self.table, self.layout
        time, key, *rest = layout.places
        is_iso = self._is_iso(time)
        labels: dict[Any, str] = {}
        keys: list[str] = []
        values: list[str] | None = [] if rest else None
        width, needed, left_out = layout.width, max(layout.places), 0
        times, where = self.times, self.where
        rows = islice(table.rows, 1 if layout.has_header else 0, None)
        for number, (line, cells) in enumerate(rows, 1):
            try:
                if len(cells) != width and (len(cells) <= needed or len(cells) > width):
                    self._check_width(cells)
                at = self._time(cells[time], is_iso)
                found = cells[key]
                label = labels.get(found) if found.__hash__ else None
                if label is None:
                    label = labels[found] = self._key(found)
            except ValueError as error:
                if not self.skip_bad_rows:
                    raise self._fault(number, line, str(error)) from None
                left_out += 1
                continue
            if values is not None:
                values.append(str(cells[rest[0]]).strip())
            times.append(at)
            keys.append(label)
            where.append(number)
            where.append(line)
        if not times:
            more = " that can be read" if left_out else ""
            raise InputError(f"{table.path} has no rows{more}; it must have at least one")
        unit = ISO if is_iso else self._unit()
        good = self._in_ms(unit)
        if not good:
            raise InputError(f"{table.path} has no rows that can be read; it must have at least one")
        left_out += len(times) - len(good)
        order = good
        if any(times[one] > times[after] for one, after in zip(good, islice(good, 1, None), strict=False)):
            order = sorted(good, key=times.__getitem__)
        if order != range(len(times)):
            keys = [keys[place] for place in order]
            values = None if values is None else [values[place] for place in order]
            self.times = array("d", (times[place] for place in order))
        return Events(
            path=table.path, times=self.times, keys=keys, values=values, note=self._note(unit), left_out=left_out
        )

    def _is_iso(self, time: int) -> bool:
        if self.layout.unit:
            return self.layout.unit == ISO
        sample = self.table.sample[1 if self.layout.has_header else 0 :]
        kinds = Counter(time_kind(_stripped(row[time])) for _, row in sample if time < len(row))
        return kinds[ISO] > kinds["number"]

    def _time(self, cell: Any, is_iso: bool) -> float:
        """Return a time as it counts, or in ms for ISO 8601; raise ValueError that says what is wrong."""
        try:
            at = _instant(cell) if is_iso else float(cell)
            if at == at:  # no NaN
                return at
        except (ValueError, TypeError, OverflowError):
            pass
        if _is_missing(cell):
            raise ValueError(f"{self.layout.names[0]} is {_quoted(cell)}; every row needs a time")
        try:
            if is_iso:
                return _instant(str(cell).strip())
            if self.table.decimal_comma and isinstance(cell, str):
                return float(cell.replace(",", "."))
        except (ValueError, OverflowError):
            pass
        unit = f" of {self.layout.unit}" if self.layout.unit else ""
        right = "an ISO 8601 time such as 2026-05-01T12:00:00Z" if is_iso else f"a number{unit}"
        raise ValueError(f"{self.layout.names[0]} is {_quoted(cell)}; it must be {right}")

    def _key(self, cell: Any) -> str:
        if _is_missing(cell):
            raise ValueError(f"{self.layout.names[1]} is {_quoted(cell)}; every row needs a key")
        if isinstance(cell, dict | list):
            raise ValueError(f"{self.layout.names[1]} is {_quoted(cell)}; a key is text or a number")
        text = str(cell).strip()
        # Libraries write whole numbers so where a column lacks some.
        return text[:-2] if _FLOAT_ID.fullmatch(text) else text

    def _check_width(self, cells: Sequence[Any]) -> None:
        width = self.layout.width
        if len(cells) > width and not any(str(cell).strip() for cell in cells[width:]):
            return
        named = "the header names" if self.layout.has_header else "the first row has"
        plural = "" if len(cells) == 1 else "s"
        raise ValueError(f"it has {len(cells)} column{plural}; {named} {width}")

    def _unit(self) -> str:
        """Return the unit of times that are numbers: as was said, as the column is called, or by their size."""
        name = self.layout.names[0].lower()
        told = self.layout.unit or next((unit for unit in ("ms", "us", "ns") if name.endswith(f"_{unit}")), "")
        if told:
            return told
        median = self._median()
        # By the size of numbers that count from 1970; smaller ones count seconds from any beginning.
        place = max(0, int(math.log(max(median, 1.0) / FIRST_EPOCH_S, EPOCH_RANGE)))
        return [*MS_BY_UNIT][min(place, len(MS_BY_UNIT) - 1)]

    def _median(self) -> float:
        sample = sorted(islice(self.times, 0, None, max(1, len(self.times) // 1001)))
        return sample[len(sample) // 2]

    def _in_ms(self, unit: str) -> Sequence[int]:
        """Turn times into milliseconds, in place, and return the rows whose times are possible."""
        times, name = self.times, self.layout.names[0]
        factor, low, high, why = MS_BY_UNIT.get(unit, 1.0), 0.0, math.inf, ""
        if unit != ISO and not self.layout.unit and self._median() * factor >= FIRST_EPOCH_S * 1000:
            low = FIRST_EPOCH_S * 1000 / factor
            high = low * EPOCH_RANGE
            why = f"the others count {unit} since 1970; give --unit if they do not"
        high = min(high, LATEST_MS / factor)
        bad = []
        for place, at in enumerate(times):
            if not low <= at < high:
                bad.append(place)
                if not self.skip_bad_rows:
                    shown = "before 1970" if at < 0 else f"{at:.15g}"
                    right = why if why and at >= 0 else "it must be from 1970 on, and before the year 10000"
                    raise self._fault(self.where[2 * place], self.where[2 * place + 1], f"{name} is {shown}; {right}")
            times[place] = at * factor
        if not bad:
            return range(len(times))
        left_out = set(bad)
        return [place for place in range(len(times)) if place not in left_out]

    def _note(self, unit: str) -> str:
        ends = (self.times[0], self.times[-1])
        first, last = (datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in ends)
        how = f" ({', '.join(self.table.how)})" if self.table.how else ""
        names = f"{self.layout.names[0]} is the time ({unit}), {self.layout.names[1]} the {self.meanings[1]}"
        return f"{self.table.path}{how}: {names}; {len(self.times):,} rows from {first} to {last} UTC."

    def _fault(self, number: int, line: int, words: str) -> InputError:
        where = f"row {number}" if line == number else f"row {number} (line {line})"
        return InputError(f"{self.table.path}: {where}: {words}")


def _stripped(cell: object) -> object:
    return cell.strip() if isinstance(cell, str) else cell


def _quoted(cell: object) -> str:
    if cell is None or cell == "":
        return "missing"
    text = str(cell)
    return repr(text if len(text) <= 60 else text[:57] + "...") if isinstance(cell, str) else text
