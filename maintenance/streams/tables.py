"""CSV and JSON lines as streams, by a small mapping in YAML.

    data: rides.csv                 # or rides.jsonl, beside this file
    time: pickup                    # the field with the time: milliseconds, or a date and time
    unit: ms                        # of a number: ms (default) or s
    prefixes: {ex: "http://example.org/"}
    triples:
      - {subject: "ex:ride/{id}", predicate: ex:distance, object: "{distance}", datatype: xsd:double}
      - {subject: "ex:ride/{id}", predicate: ex:driver, iri: "ex:driver/{driver}"}

A triple whose fields are missing or empty in a row is left out of that row.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode, Quad

from maintenance.durations import to_instant
from maintenance.streams.batch import Batch
from maintenance.streams.errors import StreamError
from maintenance.streams.lines import Mistakes
from maintenance.yaml_file import read_yaml
from policies.errors import ConfigError, InputError, nearest

KEYS = ("data", "time", "unit", "prefixes", "triples")
PARTS = ("subject", "predicate", "object", "iri", "datatype", "language")
XSD = {"xsd": "http://www.w3.org/2001/XMLSchema#"}
UNITS = {"ms": 1, "s": 1000}
_FIELD = re.compile(r"\{([^{}]*)\}")
SIZE = 1_000


@dataclass(frozen=True)
class Template:
    """One triple of every row."""

    subject: str
    predicate: str
    object: str | None = None
    iri: str | None = None
    datatype: str | None = None
    language: str | None = None

    def fill(self, row: Mapping[str, Any], prefixes: Mapping[str, str]) -> Quad | None:
        """The triple of a row, or nothing where a field is missing."""
        subject = _filled(self.subject, row, True)
        written = self.iri if self.object is None else self.object
        value = _filled(written or "", row, self.object is None)
        if subject is None or value is None:
            return None
        target = NamedNode(_expand(value, prefixes)) if self.object is None else self._literal(value, prefixes)
        return Quad(NamedNode(_expand(subject, prefixes)), NamedNode(_expand(self.predicate, prefixes)), target)

    def _literal(self, value: str, prefixes: Mapping[str, str]) -> Literal:
        if self.language:
            return Literal(value, language=self.language)
        return Literal(value, datatype=NamedNode(_expand(self.datatype, prefixes))) if self.datatype else Literal(value)


@dataclass(eq=False)
class TimedRows:
    """A table whose rows are elements."""

    path: Path
    mistakes: Mistakes

    def __post_init__(self) -> None:
        """Read the mapping now, so that its mistakes are found before anything runs."""
        config = _config(self.path)
        self.data = self.path.parent / str(config["data"])
        if self.data.suffix not in (".csv", ".jsonl", ".ndjson"):
            raise ConfigError(f"{self.path}: data is {self.data.name}, and a table ends in .csv or .jsonl")
        self.time, self.unit = str(config["time"]), UNITS[str(config.get("unit", "ms"))]
        self.prefixes = XSD | dict(config.get("prefixes") or {})
        self.templates = [_template(self.path, each) for each in config["triples"]]

    def batches(self) -> Iterator[Batch]:
        """So many rows at a time."""
        times: list[int] = []
        quads: list[Quad] = []
        for number, row in self._rows():
            try:
                at = self._instant(row)
                found = [quad for each in self.templates if (quad := each.fill(row, self.prefixes)) is not None]
            except (ValueError, TypeError) as error:
                self.mistakes.found(StreamError(str(self.data), number, str(error)))
                continue
            times += [at] * len(found)
            quads += found
            if len(times) >= SIZE:
                yield Batch(times, quads)
                times, quads = [], []
        yield Batch(times, quads)

    def _rows(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        try:
            file = self.data.open(encoding="utf-8", newline="")
        except OSError as error:
            raise InputError(f"the stream {self.data} cannot be read: {error.strerror}") from None
        with file:
            try:
                yield from enumerate(csv.DictReader(file), 2) if self.data.suffix == ".csv" else self._objects(file)
            except (UnicodeDecodeError, csv.Error) as error:
                raise InputError(f"the stream {self.data} is no table in UTF-8: {error}") from None

    def _objects(self, file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The objects of JSON lines."""
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                self.mistakes.found(StreamError(str(self.data), number, f"no JSON: {error.msg}"))
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                self.mistakes.found(StreamError(str(self.data), number, f"{line.strip()[:40]} is no JSON object"))

    def _instant(self, row: Mapping[str, Any]) -> int:
        written = row.get(self.time)
        if written is None or written == "":
            raise ValueError(f"the row has no {self.time}")
        text = str(written)
        return int(text) * self.unit if text.isdigit() else to_instant(text)


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
    return config


def _template(path: Path, written: Any) -> Template:
    known = isinstance(written, dict) and {"subject", "predicate"} <= written.keys() <= set(PARTS)
    if not known or ("object" in written) == ("iri" in written):
        raise ConfigError(f"{path}: {written} is no triple: it has a subject, a predicate, and an object or an iri")
    return Template(**{key: str(value) for key, value in written.items()})


def _filled(written: str, row: Mapping[str, Any], encode: bool) -> str | None:
    """The text with its fields filled in; in an IRI they are percent-encoded."""
    values = {name: row.get(name) for name in _FIELD.findall(written)}
    if any(value is None or value == "" for value in values.values()):
        return None
    return _FIELD.sub(lambda m: quote(str(values[m[1]]), safe="") if encode else str(values[m[1]]), written)


def _expand(written: str, prefixes: Mapping[str, str]) -> str:
    prefix, colon, rest = written.partition(":")
    return prefixes[prefix] + rest if colon and prefix in prefixes else written
