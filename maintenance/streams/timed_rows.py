"""CSV and JSON lines as streams, by a small mapping in YAML.

    data: rides.csv                 # or rides.jsonl, beside this file
    time: pickup                    # the field with the time: milliseconds, or a date and time
    unit: ms                        # of a number: ms (default) or s
    prefixes: {ex: "http://example.org/"}
    triples:
      - {subject: "ex:ride/{id}", predicate: ex:distance, object: "{distance}", datatype: xsd:double}
      - {subject: "ex:ride/{id}", predicate: ex:driver, iri: "ex:driver/{driver}"}

A triple whose fields are missing or empty in a row is left out of that row. A row that has more columns than the
header, or a list or an object instead of a single value, cannot be read.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyoxigraph import Quad

from freshkeeper.maintenance.base.durations import to_instant
from freshkeeper.maintenance.base.errors import ConfigError, InputError, nearest
from freshkeeper.maintenance.base.nesting import no_constant
from freshkeeper.maintenance.base.yaml_file import read_yaml
from freshkeeper.maintenance.streams.batch import Batch
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.read_errors import ReadErrors, StreamError
from freshkeeper.maintenance.streams.row_templates import RowTemplate, parse_template, text_of

KEYS = ("data", "time", "unit", "prefixes", "triples")
XSD = {"xsd": "http://www.w3.org/2001/XMLSchema#"}
UNITS = {"ms": 1, "s": 1000}
BATCH_SIZE = 1_000


@dataclass(eq=False)
class RowReader:
    """A reader that turns rows into elements by a mapping."""

    name: str
    """the name of the table"""
    time: str
    """the field with the time"""
    unit: int
    templates: Sequence[RowTemplate]
    read_errors: ReadErrors
    steps: GapLimit = field(default_factory=GapLimit)

    @classmethod
    def of(
        cls, where: Path, config: Mapping[str, Any], name: str, read_errors: ReadErrors, steps: GapLimit
    ) -> "RowReader":
        """Return the reader for the keys of a mapping, which stands in the file `where`."""
        prefixes = XSD | dict(config.get("prefixes") or {})
        return cls(
            name=name,
            time=str(config["time"]),
            unit=UNITS[str(config.get("unit", "ms"))],
            templates=[parse_template(where, triple, prefixes) for triple in config["triples"]],
            read_errors=read_errors,
            steps=steps,
        )

    def batches(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Batch]:
        times: list[int] = []
        quads: list[Quad] = []
        for number, row in rows:
            try:
                at = self._instant(row)
                filled = [template.fill(row) for template in self.templates]
                self.steps.check(at)
            except (ValueError, TypeError) as error:
                self.read_errors.report(StreamError(self.name, number, str(error)))
                continue
            triples = [quad for quad in filled if quad is not None]
            times += [at] * len(triples)
            quads += triples
            if len(times) >= BATCH_SIZE:
                yield Batch(times, quads)
                times = []
                quads = []
        yield Batch(times, quads)

    def records(self, file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the rows of CSV, each with the number of the line on which it ends."""
        rows = csv.DictReader(file)
        for row in rows:
            if None not in row:
                yield rows.line_num, row
                continue
            columns = len(rows.fieldnames or ())
            problem = f"the row has {columns + len(row[None])} columns, and the header has {columns}"
            self.read_errors.report(StreamError(self.name, rows.line_num, problem))

    def objects(self, file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the objects of JSON lines, with numbers as text."""
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, parse_int=str, parse_float=str, parse_constant=no_constant)
            except (ValueError, RecursionError) as error:
                self.read_errors.report(StreamError(self.name, number, f"no JSON: {getattr(error, 'msg', error)}"))
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                self.read_errors.report(StreamError(self.name, number, f"{line.strip()[:40]} is no JSON object"))

    def _instant(self, row: Mapping[str, Any]) -> int:
        text = text_of(self.time, row)
        if text is None:
            raise ValueError(f"the row has no {self.time}")
        if text.isdigit():
            return int(text) * self.unit
        return to_instant(text)


@dataclass(eq=False)
class TimedRows:
    """A table whose rows are elements."""

    path: Path
    read_errors: ReadErrors
    steps: GapLimit = field(default_factory=GapLimit)

    def __post_init__(self) -> None:
        """Read the mapping, so that its mistakes are found before anything runs."""
        config = _config(self.path)
        self.data = self.path.parent / str(config["data"])
        if self.data.suffix not in (".csv", ".jsonl", ".ndjson"):
            raise ConfigError(f"{self.path}: data is {self.data.name}, and a table ends in .csv or .jsonl")
        self._reader = RowReader.of(self.path, config, str(self.data), self.read_errors, self.steps)

    def batches(self) -> Iterator[Batch]:
        return self._reader.batches(self._rows())

    def _rows(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        try:
            file = self.data.open(encoding="utf-8", newline="")
        except OSError as error:
            raise InputError(f"the stream {self.data} cannot be read: {error.strerror}") from None
        with file:
            try:
                if self.data.suffix == ".csv":
                    yield from self._reader.records(file)
                else:
                    yield from self._reader.objects(file)
            except (UnicodeDecodeError, csv.Error) as error:
                raise InputError(f"the stream {self.data} is no table in UTF-8: {error}") from None


def _config(path: Path) -> Mapping[str, Any]:
    config = read_yaml(path)
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"{path}: unknown key {key}; {nearest(str(key), list(KEYS))}")
    for key in ("data", "time", "triples"):
        if not config.get(key):
            raise ConfigError(f"{path}: the key {key} is missing")
    if str(config.get("unit", "ms")) not in UNITS:
        raise ConfigError(f"{path}: unit is {config['unit']}, and times are in ms or s")
    if not isinstance(config.get("prefixes") or {}, dict):
        raise ConfigError(
            f"{path}: prefixes is {config['prefixes']!r}, and prefixes are names with IRIs, as {{ex: 'http://e/'}}"
        )
    return config
