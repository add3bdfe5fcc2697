"""Configuration keys that runs and services have in common: what queries read, and where their history goes."""

from typing import Self

from pydantic import Field, model_validator

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.base.field_types import Directory, Duration, Iris
from freshkeeper.maintenance.base.reference import option
from freshkeeper.maintenance.cache.cache_settings import CacheSettings
from freshkeeper.maintenance.engine.service_join.query_definition import check_dialect
from freshkeeper.maintenance.query.parser import NAMES
from freshkeeper.maintenance.sources.source_config import SourceConfig
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP


class RuntimeConfig(CacheSettings):
    """The keys that a run and a service have in common."""

    dialect: str = Field(default="", description=f"{NAMES}; default: detected from the query")
    graphs: dict[str, str] = Field(
        default={},
        description="the files of the graphs in FROM and FROM NAMED",
        json_schema_extra=option("graph", "IRI=FILE"),
    )
    default: str = Field(
        default="", description="the file of the default graph", json_schema_extra=option("default", "FILE")
    )
    sources: dict[str, str | SourceConfig] = Field(
        default={},
        description="each SERVICE: a file or directory of RDF, the address of a SPARQL endpoint, a YAML file with more "
        "keys (source-reference.yaml has them), or those keys themselves",
        examples=[
            "http://example.org/blog: blog.yaml",
            'http://example.org/shop: {sparql: "http://localhost:7878/query", volatile: "http://example.org/price"}',
        ],
        json_schema_extra=option("source", "IRI=FILE"),
    )
    volatile: dict[str, Iris] = Field(
        default={},
        description="the volatile predicates of sources whose files do not name them",
        examples=["http://example.org/blog: [http://example.org/followers]"],
        json_schema_extra=option("volatile", "IRI=P,P"),
    )
    idle: Duration | None = Field(
        default=None, description="how long to wait for a silent live stream, as 5s; default: no timeout"
    )
    gap: Duration = Field(
        default=LONGEST_GAP,
        description="how far a stream's time may step forward at once, as 1h or 400d; an element that is further ahead "
        "cannot be read",
    )
    blank_nodes: BlankNodes = Field(
        default=BlankNodes.DOCUMENT,
        description="where a label of a blank node means the same node: document (one file, one request body, one "
        "stream of lines), or shared (everywhere, as where one long document is cut into several)",
    )
    journal: Directory = Field(
        default=None,
        description="a directory for the journal of the run, as Parquet",
        json_schema_extra=option("journal", "DIR"),
    )
    traces: str = Field(
        default="",
        description="where spans of evaluations and requests go, by OTLP over HTTP, as http://localhost:4318",
        json_schema_extra=option("traces", "URL"),
    )
    log: str = Field(default="", description="JSON lines on standard error: debug, info, warning or error")

    @property
    def graph_files(self) -> dict[str, str]:
        """The files of all graphs; the default graph has an empty name."""
        return self.graphs | ({"": self.default} if self.default else {})

    @property
    def idle_seconds(self) -> float | None:
        """After how many seconds of silence a live stream holds the others back no longer."""
        if self.idle is None:
            return None
        return self.idle / 1000

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        check_dialect(self.dialect)
        for name in (*self.weights, *self.volatile):
            self._check_source(name)
        return self

    def _check_source(self, name: str) -> None:
        if name not in self.sources:
            near = f"; {nearest(name, list(self.sources))}" if self.sources else ""
            raise ValueError(f"<{name}> is no source{near}")
