"""Timestamped RDF for Spark: `<ms>` TAB `<statement in N-Quads>` per line, from a file or a directory of files.

    spark.dataSource.register(TimedRdf)
    spark.readStream.format("timed-rdf").option("maxBytesPerTrigger", "16m").load("readings/")

A stream goes on where files grow and where new ones appear, at whole lines; files are read in the order of their names.
Options: `maxBytesPerTrigger`, and `onError`: fail, or skip. Needs Spark 4.2, and this package on the executors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from freshkeeper.maintenance.rdf.terms import text_of
from freshkeeper.maintenance.settings.durations import LONGEST_MS
from freshkeeper.maintenance.streams.batch import Batch
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_lines import Mistakes, OnError, TimedLines
from freshkeeper.policies.errors import ConfigError, InputError, nearest

SCHEMA = "t_ms BIGINT, event_time TIMESTAMP, subject STRING, predicate STRING, object STRING"
"""Terms are written as in N-Triples; what graph a statement names does not matter, as everywhere in streams."""
SPLIT = 32 << 20
"""Bytes of one task."""
LOOK = 1 << 16
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
OPTIONS = ["path", "maxBytesPerTrigger", "onError"]

Offset = dict[str, int]
"""bytes read of each file"""


class TimedRdf(DataSource):
    """The data source `timed-rdf`, for batches and for streams."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "timed-rdf"

    def schema(self) -> str:
        """One row per statement."""
        return SCHEMA

    def reader(self, schema: StructType) -> "Reader":
        """All that is there."""
        del schema
        return Reader(_settings(self.options))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """What is there, and what comes."""
        del schema
        return StreamReader(_settings(self.options))


@dataclass(frozen=True)
class Settings:
    """The options, understood."""

    path: str
    most: int | None
    on_error: OnError


@dataclass(frozen=True)
class Lines(InputPartition):
    """Whole lines of a file, from one byte to another."""

    path: str
    start: int
    stop: int


class PartReader:
    """Reads parts of files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The statements of a part."""
        assert isinstance(partition, Lines)
        return _read(partition, self._settings.on_error)


class Reader(PartReader, DataSourceReader):
    """Reads files from end to end, a last line without a line feed included."""

    def partitions(self) -> Sequence[InputPartition]:
        """Parts of files."""
        return [part for path in _files(self._settings.path) for part in _parts(path, 0, Path(path).stat().st_size)]


class StreamReader(PartReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on where it stopped, up to the last whole line."""

    _until: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Nothing is read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxBytesPerTrigger`."""
        most = self._settings.most
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is for another time."""
        self._until = self._available()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """As far as there are whole lines, and no further than the limit; a line longer than that is read whole."""
        until = self._until or self._available()
        left = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        reached = dict(start)
        for path, size in until.items():
            begin = reached.get(path, 0)
            stop = size if left is None else _limited(path, begin, size, left)
            if stop > begin:
                reached[path] = stop
                left = None if left is None else left - (stop - begin)
        return reached

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Parts of what is new in each file."""
        return [part for path, stop in end.items() for part in _parts(path, start.get(path, 0), stop)]

    def _available(self) -> Offset:
        return {path: _line_end(path, 0, Path(path).stat().st_size) for path in _files(self._settings.path)}


def _settings(options: Mapping[str, str]) -> Settings:
    known = {name.lower(): name for name in OPTIONS}
    for name in options:
        if name.lower() not in known:
            raise ConfigError(f"timed-rdf has no option {name!r}: {nearest(name, OPTIONS)}")
    given = {known[name.lower()]: value for name, value in options.items()}
    if "path" not in given:
        raise ConfigError("timed-rdf needs a path: load('file.nq'), or a directory")
    most = given.get("maxBytesPerTrigger")
    on_error = given.get("onError", OnError.FAIL.value)
    if on_error not in list(OnError):
        raise ConfigError(f"onError cannot be {on_error!r}: {nearest(on_error, [each.value for each in OnError])}")
    return Settings(given["path"], None if most is None else _bytes(most), OnError(on_error))


def _bytes(written: str) -> int:
    unit = UNITS.get(written[-1:].lower(), 1)
    number = written[:-1] if unit > 1 else written
    if not number.isdigit() or int(number) == 0:
        raise ConfigError(f"maxBytesPerTrigger is {written!r}; write a number of bytes, or 512k, 16m, 1g")
    return int(number) * unit


def _files(path: str) -> list[str]:
    """The files of a path; hidden ones are those that somebody is still writing."""
    place = Path(path.removeprefix("file:"))
    if not place.exists():
        raise InputError(f"there is no file or directory {path} to read timestamped RDF from")
    if place.is_file():
        return [str(place)]
    return sorted(str(file) for file in place.iterdir() if file.is_file() and file.name[0] not in "._")


def _parts(path: str, start: int, stop: int) -> list[Lines]:
    parts = []
    while start < stop:
        end = _limited(path, start, stop, SPLIT)
        parts.append(Lines(path, start, end))
        start = end
    return parts


def _limited(path: str, start: int, stop: int, most: int) -> int:
    """The end of the last line that fits into so many bytes; of the first line, where none fits."""
    if most <= 0 or stop - start <= most:
        return start if most <= 0 else stop
    if (end := _line_end(path, start, start + most)) > start:
        return end
    with Path(path).open("rb") as file:
        file.seek(start)
        return min(stop, start + len(file.readline()))


def _line_end(path: str, start: int, stop: int) -> int:
    """Behind the last line feed in a range of bytes; `start` where there is none."""
    with Path(path).open("rb") as file:
        while stop > start:
            begin = max(start, stop - LOOK)
            file.seek(begin)
            found = file.read(stop - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            stop = begin
    return start


def _read(part: Lines, on_error: OnError) -> Iterator[pa.RecordBatch]:
    at, mistakes = part.start, Mistakes(on_error)
    with Path(part.path).open("rb") as file:
        while at < part.stop:
            end = _limited(part.path, at, part.stop, LOOK * 16)
            file.seek(at)
            lines = TimedLines(f"{part.path} from byte {at} on", lambda: file, mistakes, Steps(LONGEST_MS))
            yield _rows(lines.read(file.read(end - at).removesuffix(b"\n")))
            at = end


def _rows(batch: Batch) -> pa.RecordBatch:
    times = pa.array(batch.times, pa.int64())
    event_time = times.cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
    parts = ("subject", "predicate", "object")
    terms = [pa.array([text_of(getattr(quad, part)) for quad in batch.quads], pa.string()) for part in parts]
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    return pa.RecordBatch.from_arrays([times, event_time, *terms], names)
