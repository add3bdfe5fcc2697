"""The config of a service: what its queries share with those of a run, where it listens and who has access."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.durations import as_ms
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.field_types import Directory, Duration
from freshkeeper.maintenance.base.reference import reference
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.base.yaml_file import read_yaml
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition
from freshkeeper.maintenance.outputs.output_config import OutputConfig, output_of, placed
from freshkeeper.maintenance.runtime.run_config import by_name, resolve_paths
from freshkeeper.maintenance.runtime.runtime_config import RuntimeConfig
from freshkeeper.maintenance.serve.row_caches import RowsConfig
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.opening import address_of
from freshkeeper.maintenance.streams.read_errors import ReadErrors
from freshkeeper.maintenance.streams.timed_rows import RowReader

PATHS, TABLES = ("default", "state", "journal", "token", "read_token", "certificate", "key"), ("graphs", "sources")
"""Keys whose values are files beside the config, and such files by IRI."""


class StreamConfig(BaseModel):
    """A stream: how late its elements may come, and how rows of tables become elements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delay: Duration = Field(default=0, description="how late its elements may come")
    reads: str = Field(
        default="",
        description="an address that the service reads beside what is pushed, as kafka://broker:9092/TOPIC or ws://...",
    )
    time: str = Field(default="", description="of rows, pushed as CSV or JSON lines: the field with the time")
    unit: Literal["ms", "s"] = Field(default="ms", description="of times that are numbers")
    prefixes: dict[str, str] = Field(default={}, description="prefixes of the triples")
    triples: list[dict[str, str]] = Field(
        default=[], description='what a row says, as {subject: "ex:ride/{id}", predicate: ex:to, object: "{to}"}'
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.reads:
            address_of(self.reads)
        if bool(self.time) != bool(self.triples):
            raise ValueError("a mapping of rows has both time and triples")
        self.reader("", GapLimit())
        return self

    def reader(self, name: str, steps: GapLimit) -> RowReader | None:
        """Return a reader of rows; None if the stream has no mapping."""
        if not self.triples:
            return None
        return RowReader.of(Path("triples"), self.model_dump(), name, ReadErrors(), steps)


def _stream(written: object) -> object:
    """Read a stream that is an address or a delay only."""
    if isinstance(written, dict | StreamConfig):
        return written
    return {"reads": written} if isinstance(written, str) and "://" in written else {"delay": written}


def _streams(written: object) -> object:
    """Read streams that are a list of names, or a table of keys, addresses or delays."""
    if isinstance(written, list):
        return {name: {} for name in written}
    if isinstance(written, dict):
        return {name: _stream(one) for name, one in written.items()}
    return written


class ServeConfig(RuntimeConfig):
    """A service and what its queries share."""

    listen: str = Field(default="8642", description="where the service listens: a port of this machine, or HOST:PORT")
    token: Path | None = Field(
        default=None,
        description="a file with the token that requests must have (Authorization: Bearer ...), readable by its owner "
        "alone; required if other machines can reach the service",
    )
    read_token: Path | None = Field(default=None, description="the same for clients that may only read")
    certificate: Directory = Field(
        default=None, description="a file with the certificate, for https without a proxy; key is its private key"
    )
    key: Directory = Field(default=None, description="the private key of certificate, readable by its owner alone")
    watch: Duration | None = Field(
        default=None,
        description="how often this file and the files that it names are checked for changes, as 5s; a directory of "
        "configs every 2s; SIGHUP reloads at once",
    )
    state: Path = Field(
        default=Path("state"), description="a directory that keeps queries, elements, answers, views and budgets"
    )
    streams: Annotated[dict[str, StreamConfig], BeforeValidator(_streams)] = Field(
        default={},
        description="the streams that may be pushed: a list of IRIs, or by IRI how late elements may come, or more",
        examples=[
            "http://example.org/posts: 500ms",
            "http://example.org/rides:\n  delay: 1s\n  time: pickup\n  prefixes: {ex: 'http://example.org/'}\n"
            '  triples: [{subject: "ex:ride/{id}", predicate: ex:to, iri: "ex:place/{to}"}]',
        ],
    )
    queries: Annotated[dict[str, QueryDefinition], BeforeValidator(by_name)] = Field(
        default={},
        description="queries that are registered from the beginning: a directory of files, or by name a file or a text",
    )
    rows: dict[str, RowsConfig] = Field(
        default={},
        description="tables and addresses whose rows are served by key at /rows/NAME/KEY, kept fresh within a budget",
        examples=[
            'products: {http: "https://api.example.org/products/{key}", budget: 5/s}',
            'users: {sql: "postgresql+psycopg://localhost/shop", budget: 300/min, batch: 100, key: integer,\n'
            '  query: "SELECT id, name FROM users WHERE id IN {keys}"}',
        ],
    )
    period: Annotated[int, BeforeValidator(as_ms), Field(ge=1)] = Field(
        default=1000, description="shared: how often it is paid, in event time"
    )
    journal_age: Duration | None = Field(
        default=None, description="how long parts of the journal are kept, as 30d; default: for ever"
    )
    journal_largest: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="the maximal size of the journal in bytes; the oldest parts are removed"
    )
    outputs: dict[str, Annotated[OutputConfig, BeforeValidator(output_of)]] = Field(
        default={},
        description="outputs that answers are sent to, by any name: an address, or keys (to, queries, secret, "
        "tries, dead_letters, largest, keep)",
        examples=["hook: {to: 'https://example.org/hook', queries: [reach], secret: HOOK_SECRET}"],
    )
    largest_body: Annotated[int, Field(ge=1)] = Field(
        default=1 << 25, description="the maximal size of a request in bytes"
    )
    longest_query: Annotated[int, Field(ge=1)] = Field(
        default=100_000, description="the maximal number of characters of a query"
    )
    most_queries: Annotated[int, Field(ge=1)] = Field(
        default=1000, description="the maximal number of registered queries"
    )
    limit: Annotated[int, BeforeValidator(as_ms), Field(ge=100)] = Field(
        default=10_000, description="how long one evaluation may take before its query is stopped, as 10s"
    )
    most_rows: Annotated[int, Field(ge=1)] = Field(
        default=1_000_000, description="how many rows one evaluation may have before its query is stopped"
    )
    most_memory: Annotated[int, Field(ge=1 << 20)] = Field(
        default=1 << 30,
        description="the memory in bytes that one evaluation outside the native engine may take before its query is "
        "stopped",
    )
    most_listeners: Annotated[int, Field(ge=1)] = Field(
        default=1000, description="the maximal number of clients that read answers or follow the status"
    )
    most_connections: Annotated[int, Field(ge=1)] = Field(
        default=4000, description="the maximal number of open connections; fewer where the process may open fewer files"
    )
    most_connections_per_address: Annotated[int, Field(ge=1)] = Field(
        default=2000, description="the maximal number of open connections of one address"
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for name, definition in self.queries.items():
            if own := sorted(definition.model_fields_set - {"query", "dialect"}):
                raise ValueError(f"queries.{name}: {own[0]} is for the queries of a run; a service has one for all")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key are given together")
        if self.journal is None and (self.journal_age is not None or self.journal_largest is not None):
            raise ValueError("journal_age and journal_largest are of a journal: give its directory as journal")
        return self


HEAD = """\
Every key of a service with its default and its meaning. Paths are beside this file; options of the command line win.
  freshkeeper serve serve.yaml --listen 8642"""


def serve_reference() -> str:
    """Return a config of a service with every key."""
    return reference(HEAD, ServeConfig())


def read_config(path: Path, changes: Mapping[str, Any]) -> ServeConfig:
    """Read the config of a service from its file, or from the files of a directory, with some keys changed."""
    place = path if path.is_dir() else path.parent
    found = {"state": str(place / "state")} | _merged(files_of(path))
    return validated(ServeConfig, found | dict(changes), f"{path}: ")


def files_of(path: Path) -> list[Path]:
    """Return a config file, or the config files of a directory."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in (".yaml", ".yml"))
    if not found:
        raise ConfigError(f"the directory {path} holds no config: its files end in .yaml")
    return found


def _merged(files: Sequence[Path]) -> dict[str, Any]:
    """Merge files: tables are merged by name, any other key may be in one file only."""
    found: dict[str, Any] = {}
    for file in files:
        for key, value in _read(file).items():
            before = found.get(key)
            if key not in found:
                found[key] = value
                continue
            if not (isinstance(value, dict) and isinstance(before, dict)):
                raise ConfigError(f"{file}: {key} stands in another file, too")
            if both := value.keys() & before.keys():
                raise ConfigError(f"{file}: {key}.{min(both)} stands in another file, too")
            found[key] = before | value
    return found


def _read(file: Path) -> dict[str, Any]:
    """Read one file; its paths are relative to it. An empty one is an error: its writing may have broken off."""
    if file.is_file() and not file.stat().st_size:
        raise ConfigError(f"{file} is empty: for a service without any keys write {{}}")
    found = resolve_paths(file.parent, read_yaml(file), PATHS, TABLES)
    outputs = found.get("outputs")
    if isinstance(outputs, dict):
        found["outputs"] = {name: placed(file.parent, output_of(one)) for name, one in outputs.items()}
    return found
