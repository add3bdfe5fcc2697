"""What a run of a continuous query is: one validated model behind its YAML file and the options of `run`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from freshkeeper.maintenance.query.parser import DIALECTS
from freshkeeper.maintenance.rsp.output import FORMATS
from freshkeeper.maintenance.service.source_config import SourceConfig
from freshkeeper.maintenance.service_join.service_solutions import Fetch
from freshkeeper.maintenance.settings.durations import as_ms, to_delay
from freshkeeper.maintenance.settings.reference import option, reference
from freshkeeper.maintenance.settings.validation import explained
from freshkeeper.maintenance.settings.yaml_file import read_yaml
from freshkeeper.maintenance.streams.steps import LONGEST_GAP
from freshkeeper.maintenance.streams.timed_lines import OnError
from freshkeeper.policies.errors import ConfigError, nearest

PATHS = ("query", "default", "journal", "state")
"""Keys whose values are files beside the config."""
TABLES = ("streams", "graphs", "sources")
"""Keys whose values are such files by IRI, where they are no addresses."""


def _delayed(written: object) -> object:
    return to_delay(written) if isinstance(written, str) else written


def iris(written: str | list[str]) -> list[str]:
    """Several IRIs as the command line has them: with commas, and brackets if one likes."""
    if not isinstance(written, str):
        return written
    return [each.strip().removeprefix("<").removesuffix(">") for each in written.split(",")]


Duration = Annotated[int, BeforeValidator(as_ms), Field(ge=0)]
Delay = Annotated[int, BeforeValidator(_delayed), Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Directory = Annotated[Path | None, BeforeValidator(lambda written: written or None)]
Words = Annotated[list[str], BeforeValidator(iris)]


class RunConfig(BaseModel):
    """A query with all that it needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(description="a file with the query, the query itself, or (on the command line) a file like this")
    dialect: str = Field(default="", description="rspql, cqels, csparql or sparqlstream; empty: as it looks")
    streams: dict[str, str] = Field(
        default={},
        description="what feeds each stream: a file (.nq .nt .trig .jsonld .yaml), a directory, follow:directory, - "
        "for standard input, tcp://host:port or http://...",
        examples=["http://example.org/posts: posts.nt"],
        json_schema_extra=option("stream", "IRI=FILE"),
    )
    graphs: dict[str, str] = Field(
        default={}, description="files of FROM and FROM NAMED", json_schema_extra=option("graph", "IRI=FILE")
    )
    default: str = Field(
        default="", description="a file that is the default graph", json_schema_extra=option("default", "FILE")
    )
    sources: dict[str, str | SourceConfig] = Field(
        default={},
        description="each SERVICE: a file or directory of RDF, the address of a SPARQL endpoint, a YAML file that says "
        "more "
        "(source-reference.yaml has its keys), or those keys themselves",
        examples=[
            "http://example.org/blog: blog.yaml",
            'http://example.org/shop: {sparql: "http://localhost:7878/query", volatile: "http://example.org/price"}',
        ],
        json_schema_extra=option("source", "IRI=FILE"),
    )
    volatile: dict[str, Words] = Field(
        default={},
        description="the volatile predicates of sources that do not say them",
        examples=["http://example.org/blog: [http://example.org/followers]"],
        json_schema_extra=option("volatile", "IRI=P,P"),
    )
    delay: Delay = Field(default=0, description="how late elements may come, as 500ms")
    idle: Duration | None = Field(
        default=None, description="how long a live stream may be silent before others go on, as 5s; null: for ever"
    )
    gap: Duration = Field(
        default=LONGEST_GAP,
        description="how far a stream's time may step forward at once, as 1h or 400d; an element that is further ahead "
        "cannot be read",
    )
    t0: int = Field(default=0, description="where windows that do not say it start, in ms")
    drain: bool = Field(default=False, description="at the end go on until the windows are empty")
    speed: str = Field(default="max", description="pace of a replay: 1x, 10x or max")
    on_error: OnError = Field(default=OnError.FAIL, description="an element that cannot be read: fail or skip")
    policy: str = Field(default="", description="what chooses the refreshes; empty: plan, and bundle for aggregates")
    budget: Amount = Field(default=10, description="cost units per evaluation, for every SERVICE pattern")
    bank: Amount = Field(default=0, description="how much unspent budget is carried")
    shared: bool = Field(default=False, description="all SERVICE patterns share one budget, by weight and minimum")
    weights: dict[str, Amount] = Field(
        default={},
        description="shared: how much of it each source gets; default 1",
        json_schema_extra=option("weight", "IRI=N"),
    )
    minimum: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description="shared: the part of the whole that is a source's own whatever the others want; default 0",
        json_schema_extra=option("minimum", "IRI=SHARE"),
    )
    audit: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0, description="the share of the budget that measures how fresh the answers are, as 0.05"
    )
    fetch: Fetch = Field(default=Fetch.VIEW, description="view, or a baseline: always (no cache) or once")
    edges: Literal["kept", "refreshed"] = Field(
        default="kept", description="kept, or refreshed where edges change over time"
    )
    capacity: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="how many entries a view may hold; null: any number"
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="for policies and audits, which draw lots")
    journal: Directory = Field(
        default=None,
        description="a directory for what happened, as Parquet",
        json_schema_extra=option("journal", "DIR"),
    )
    state: Directory = Field(
        default=None,
        description="a directory that keeps views and budgets, and goes on from it after a restart",
        json_schema_extra=option("state", "DIR"),
    )
    metrics: str = Field(
        default="", description="where Prometheus may ask, as :9100", json_schema_extra=option("metrics", ":PORT")
    )
    log: str = Field(default="", description="JSON lines on standard error: debug, info, warning or error")
    format: str = Field(default="ndjson", description="how answers are written: ndjson, sparql-json, csv or nquads")

    @property
    def graph_files(self) -> dict[str, str]:
        """The files of all graphs; the default one has no name."""
        return self.graphs | ({"": self.default} if self.default else {})

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.dialect and self.dialect not in DIALECTS:
            raise ValueError(f"dialect: {nearest(self.dialect, list(DIALECTS))}")
        if self.format not in FORMATS:
            raise ValueError(f"format: {nearest(self.format, list(FORMATS))}")
        if (self.weights or self.minimum) and not self.shared:
            raise ValueError("weights and minimum are for a shared budget: say shared: true")
        for name in (*self.weights, *self.minimum, *self.volatile):
            if name not in self.sources:
                raise ValueError(
                    f"<{name}> is no source" + (f"; {nearest(name, list(self.sources))}" if self.sources else "")
                )
        return self


HEAD = """\
Every key of a run with its default and its meaning. Paths are beside this file; options of the command line win.
  freshkeeper run run.yaml --policy plan"""


def run_reference() -> str:
    """A config with every key, as a file to begin with."""
    return reference(HEAD, RunConfig(query="reach.rspql"))


def read_config(path: Path, changes: Mapping[str, Any]) -> RunConfig:
    """A run from its YAML file, with the keys that were given beside it."""
    found = _beside(path.parent, read_yaml(path))
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = found[key] | value if both else value
    return config_of(found, f"{path}: ")


def config_of(plain: Mapping[str, Any], where: str = "") -> RunConfig:
    """A run from keys and values."""
    try:
        return RunConfig.model_validate(plain)
    except ValidationError as error:
        raise ConfigError(where + explained(error, RunConfig)) from None


def _beside(place: Path, plain: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(plain)
    for key in PATHS:
        if isinstance(found.get(key), str) and found[key]:
            found[key] = _file(place, found[key])
    for key in TABLES:
        if isinstance(found.get(key), dict):
            found[key] = {name: _file(place, value) for name, value in found[key].items()}
    for name, source in found.get("sources", {}).items() if isinstance(found.get("sources"), dict) else ():
        if isinstance(source, dict):
            paths = {k: _file(place, source[k]) for k in ("data", "changes") if isinstance(source.get(k), str)}
            found["sources"][name] = source | paths
    return found


def _file(place: Path, written: Any) -> Any:
    """A path beside the config; addresses, standard input and queries as they are."""
    if not isinstance(written, str) or written == "-" or "://" in written or "{" in written:
        return written
    head, colon, rest = written.rpartition("follow:")
    return f"{head}{colon}{place / rest}"
