"""What a service is: the keys of a run that make sense for one that goes on, where it listens and who may ask."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from freshkeeper.maintenance.outputs.output_config import OutputConfig, output_of, placed
from freshkeeper.maintenance.run.run_config import (
    Amount,
    Directory,
    Duration,
    QueryConfig,
    RunConfig,
    Words,
    beside,
    by_name,
)
from freshkeeper.maintenance.service.source_config import SourceConfig
from freshkeeper.maintenance.settings.reference import reference
from freshkeeper.maintenance.settings.validation import validated
from freshkeeper.maintenance.settings.yaml_file import read_yaml
from freshkeeper.maintenance.streams.live.addresses import address_of
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_lines import Mistakes
from freshkeeper.maintenance.streams.timed_rows import RowReader

PATHS, TABLES = ("default", "state", "journal", "token", "read_token"), ("graphs", "sources")
"""Keys whose values are files beside the config, and such files by IRI."""


def _as_run(name: str) -> Any:
    """A key that a run has, too."""
    return copy(RunConfig.model_fields[name])


class StreamConfig(BaseModel):
    """A stream that may be pushed: how late its elements may come, and how rows of tables become elements."""

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
        self.reader("", Steps())
        return self

    def reader(self, name: str, steps: Steps) -> RowReader | None:
        """What makes elements of rows; nothing where there is no mapping."""
        if not self.triples:
            return None
        return RowReader.of(Path("triples"), self.model_dump(), name, Mistakes(), steps)


def _stream(written: object) -> object:
    """An address alone is what it reads, something else alone its delay."""
    if isinstance(written, dict | StreamConfig):
        return written
    return {"reads": written} if isinstance(written, str) and "://" in written else {"delay": written}


def _streams(written: object) -> object:
    """A list of streams has none that comes late, and what has one key alone is its delay."""
    if isinstance(written, list):
        return {name: {} for name in written}
    if isinstance(written, dict):
        return {name: _stream(one) for name, one in written.items()}
    return written


class ServeConfig(BaseModel):
    """A service, with what its queries share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: str = Field(default="8642", description="where it answers: a port of this machine, or HOST:PORT")
    token: Path | None = Field(
        default=None,
        description="a file with the word that requests must bring (Authorization: Bearer ...), readable by its owner "
        "alone; needed where other machines may ask",
    )
    read_token: Path | None = Field(default=None, description="the same for those who may only read")
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
    queries: Annotated[dict[str, QueryConfig], BeforeValidator(by_name)] = Field(
        default={},
        description="queries that are there from the beginning: a directory of files, or by name a file or a text; "
        "others are registered while it runs",
    )
    dialect: str = _as_run("dialect")
    graphs: dict[str, str] = _as_run("graphs")
    default: str = _as_run("default")
    sources: dict[str, str | SourceConfig] = _as_run("sources")
    volatile: dict[str, Words] = _as_run("volatile")
    gap: Duration = _as_run("gap")
    policy: str = _as_run("policy")
    budget: Amount = _as_run("budget")
    bank: Amount = _as_run("bank")
    target: Annotated[float, Field(gt=0, lt=1)] | None = _as_run("target")
    audit: Annotated[float, Field(ge=0, lt=1)] = _as_run("audit")
    edges: Literal["kept", "refreshed"] = _as_run("edges")
    capacity: Annotated[int, Field(ge=1)] | None = _as_run("capacity")
    journal: Directory = _as_run("journal")
    seed: Annotated[int, Field(ge=0)] = _as_run("seed")
    fragments: str = _as_run("fragments")
    outputs: dict[str, Annotated[OutputConfig, BeforeValidator(output_of)]] = Field(
        default={},
        description="where answers go by themselves, by a name of one's own: an address, or keys (to, queries, secret, "
        "tries, dead_letters, largest, keep)",
        examples=["hook: {to: 'https://example.org/hook', queries: [reach], secret: HOOK_SECRET}"],
    )
    log: str = _as_run("log")
    largest_body: Annotated[int, Field(ge=1)] = Field(default=1 << 25, description="bytes of one request at most")
    most_queries: Annotated[int, Field(ge=1)] = Field(default=1000, description="how many queries may be registered")
    most_listeners: Annotated[int, Field(ge=1)] = Field(default=1000, description="how many may listen to answers")

    @property
    def graph_files(self) -> dict[str, str]:
        """The files of all graphs; the default one has no name."""
        return self.graphs | ({"": self.default} if self.default else {})


HEAD = """\
Every key of a service with its default and its meaning. Paths are beside this file; options of the command line win.
  freshkeeper serve serve.yaml --listen 8642"""


def serve_reference() -> str:
    """A config with every key, as a file to begin with."""
    return reference(HEAD, ServeConfig())


def read_config(path: Path, changes: Mapping[str, Any]) -> ServeConfig:
    """A service from its YAML file, with the keys that were given beside it."""
    found = beside(path.parent, {"state": "state", **read_yaml(path)}, PATHS, TABLES)
    outputs = found.get("outputs")
    if isinstance(outputs, dict):
        found["outputs"] = {name: placed(path.parent, output_of(one)) for name, one in outputs.items()}
    return validated(ServeConfig, found | dict(changes), f"{path}: ")
