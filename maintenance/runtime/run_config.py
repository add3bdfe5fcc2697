"""The config of a run: one model behind its YAML file and the options of `run`, and the files of its queries."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.base.field_types import Delay, Directory, Duration
from freshkeeper.maintenance.base.reference import option, reference
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.base.yaml_file import read_yaml
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition
from freshkeeper.maintenance.engine.service_join.service_checks import Missing
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.outputs.formats import FORMATS
from freshkeeper.maintenance.outputs.output_config import OutputConfig, output_of, placed
from freshkeeper.maintenance.runtime.runtime_config import RuntimeConfig
from freshkeeper.maintenance.streams.live.feed import OnLoss
from freshkeeper.maintenance.streams.read_errors import OnError

QUERY_SUFFIXES = (".rspql", ".rq", ".sparql", ".cqels", ".csparql")
"""The endings of files with queries."""


def files_of(directory: str) -> list[str]:
    """Return the query files of a directory, sorted by name."""
    path = Path(directory)
    if not path.is_dir():
        raise ConfigError(f"{directory} is no directory of queries")
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in QUERY_SUFFIXES and file.is_file())
    if not found:
        raise ConfigError(f"the directory {directory} holds no queries: their files end in {', '.join(QUERY_SUFFIXES)}")
    return [str(file) for file in found]


def names_of(written: Iterable[str]) -> dict[str, str]:
    """Return files, and those of directories, by their names without endings; texts by their positions."""
    found: dict[str, str] = {}
    for number, each in enumerate(written, 1):
        is_directory = "{" not in each and Path(each).is_dir()
        for file in files_of(each) if is_directory else [each]:
            name = f"query{number}" if "{" in file else Path(file).stem
            if name in found:
                raise ConfigError(f"two queries are called {name}: {found[name]} and {file}")
            found[name] = file
    return found


def read_text(written: str) -> str:
    """Return the text of a query: that of a file, or the argument if it is a query."""
    if "{" in written:
        return written
    if not written.strip():
        raise ConfigError("the query is empty: give a file, or a query such as SELECT * { ?s ?p ?o }")
    path = Path(written)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the query {written} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the query {written} is no text in UTF-8") from None


PATHS = ("query", "default", "journal", "state", "out")
"""Keys whose values are files beside the config."""
TABLES = ("streams", "graphs", "sources")
"""Keys whose values are such files by IRI, where they are no addresses."""


def by_name(written: object) -> object:
    """Read queries that are a directory of files, or a table of files, texts or keys."""
    found = names_of(files_of(written)) if isinstance(written, str) else written
    if not isinstance(found, dict):
        return found
    return {name: {"query": own} if isinstance(own, str) else own for name, own in found.items()}


class RunConfig(RuntimeConfig):
    """A query or several, with their inputs, settings and outputs."""

    query: str = Field(
        default="", description="a file with the query, the query itself, or (on the command line) a file like this one"
    )
    queries: Annotated[dict[str, QueryDefinition], BeforeValidator(by_name)] = Field(
        default={},
        description="several queries instead of one: a directory of files, or by name a file, a text, or keys of one "
        "(query, dialect, policy, weight, fetch, limit, most_rows)",
        examples=["reach: reach.rspql", "top: {query: top.rspql, policy: plan, weight: 2}"],
    )
    templates: dict[str, QueryDefinition] = Field(
        default={},
        description="queries that differ in constants only: a text with $name in their place, and a table of values",
        examples=["near: {query: near.rspql, instances: persons.csv}"],
    )
    streams: dict[str, str] = Field(
        default={},
        description="the input of each stream: a file (.nq .nt .trig .jsonld .yaml), a directory, follow:directory, - "
        "for standard input, or an address (tcp://host:port, http://..., ws://..., kafka://broker:9092/TOPIC, "
        "redis://host:port/0?stream=KEY)",
        examples=["http://example.org/posts: posts.nt"],
        json_schema_extra=option("stream", "IRI=FILE"),
    )
    watch: Duration | None = Field(
        default=None,
        description="how often to check files of graphs for changes and reload them, as 5s; default: never",
    )
    delay: Delay = Field(default=0, description="how late elements may come, as 500ms")
    on_loss: OnLoss = Field(
        default=OnLoss.FAIL,
        description="if the connection of a stream is lost: fail (answer what has arrived and exit with 75), reconnect "
        "(retry with back-off and log gaps), or end (treat it as the end of the stream)",
    )
    t0: int = Field(default=0, description="start of windows without STARTING AT, in ms")
    drain: bool = Field(default=False, description="at the end of the streams, continue until all windows are empty")
    speed: str = Field(default="max", description="pace of a replay: 1x, 10x or max")
    on_error: OnError = Field(default=OnError.FAIL, description="an element that cannot be read: fail or skip")
    evaluator: EvaluatorKind = Field(
        default=EvaluatorKind.AUTO,
        description="auto: native if the query allows it (see explain), else snapshot; native or snapshot: that one",
    )
    minimum: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description="shared: the share of the budget reserved for each source; default: 0",
        json_schema_extra=option("minimum", "IRI=SHARE"),
    )
    fetch: Fetch = Field(
        default=Fetch.VIEW, description="view: from the cache; or a baseline: always (no cache) or once"
    )
    missing: Missing = Field(
        default=Missing.EMIT,
        description="answers without their SERVICE part, never fetched: emit (with freshness 0, if possible) or drop",
    )
    state: Directory = Field(
        default=None,
        description="a directory that keeps views and budgets, from which a run resumes after a restart",
        json_schema_extra=option("state", "DIR"),
    )
    metrics: str = Field(
        default="",
        description="the address of metrics for Prometheus, as :9100",
        json_schema_extra=option("metrics", ":PORT"),
    )
    on_policy_error: Literal["fail", "skip"] = Field(
        default="fail",
        description="what a failing policy does: fail ends the run, skip answers from the view as it is and counts it",
    )
    limit: Duration | None = Field(
        default=None,
        description="how long one evaluation may take, as 5s, before the query is abandoned; evaluations then run in a "
        "separate process, which costs some milliseconds; default: no limit",
    )
    most_rows: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="how many rows one evaluation may have before the query is abandoned; default: no limit",
    )
    out: Directory = Field(
        default=None,
        description="several queries: a directory for the answers, one file per query, instead of standard output",
        json_schema_extra=option("out", "DIR"),
    )
    output: Annotated[OutputConfig | None, BeforeValidator(output_of)] = Field(
        default=None,
        description="where to send answers instead of standard output: kafka://broker:9092/TOPIC, https://host/path (a "
        "POST for each evaluation), or a file that rotates; as keys: to, secret, tries, dead_letters, largest, keep",
        json_schema_extra=option("output", "ADDRESS"),
    )
    empty: bool = Field(default=False, description="several queries: also write evaluations without answers")
    format: str = Field(default="ndjson", description="the format of answers: ndjson, sparql-json, csv or nquads")

    @property
    def several(self) -> bool:
        """Tells if queries have names, as several have."""
        return bool(self.queries or self.templates)

    @model_validator(mode="after")
    def _check_instances(self) -> Self:
        for name, template in self.templates.items():
            if template.instances is None:
                raise ValueError(f"templates.{name}: instances is missing")
        for name, definition in self.queries.items():
            if definition.instances is not None:
                raise ValueError(f"queries.{name}: instances is a key of templates")
        return self

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not (self.query or self.several):
            empty = next((key for key in ("queries", "templates") if key in self.model_fields_set), None)
            raise ValueError("query is missing" if empty is None else f"{empty}: there are none")
        if self.query and self.several:
            raise ValueError("query is for one, queries and templates are for several: say one of them")
        if self.out is not None and not self.several:
            raise ValueError("out is for several queries; the answers of one go to standard output")
        if self.output is not None and (self.out is not None or self.format != "ndjson"):
            raise ValueError(
                "output: it takes lines of JSON (format: ndjson), and out: DIR is another place for answers"
            )
        if self.format == "csv" and self.several and self.out is None:
            raise ValueError("format: a table of csv has the columns of one query: let several write files, out: DIR")
        if self.format not in FORMATS:
            raise ValueError(f"format: {nearest(self.format, list(FORMATS))}")
        if self.minimum and not self.shared:
            raise ValueError("minimum is for a shared budget: say shared: true")
        for name in self.minimum:
            self._check_source(name)
        return self


HEAD = """\
Every key of a run with its default and its meaning. Paths are beside this file; options of the command line win.
  freshkeeper run run.yaml --policy plan"""


def run_reference() -> str:
    """Return a config of a run with every key."""
    return reference(HEAD, RunConfig(query="reach.rspql"))


def read_config(path: Path, changes: Mapping[str, Any]) -> RunConfig:
    """Read the config of a run from its file, with some keys changed."""
    found = resolve_paths(path.parent, read_yaml(path))
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = found[key] | value if both else value
    return config_of(found, f"{path}: ")


def config_of(plain: Mapping[str, Any], where: str = "") -> RunConfig:
    """Validate the config of a run from keys and values."""
    return validated(RunConfig, plain, where)


def resolve_paths(
    place: Path, plain: Mapping[str, Any], keys: Sequence[str] = PATHS, tables: Sequence[str] = TABLES
) -> dict[str, Any]:
    """Resolve the paths in a file's keys and values against its directory."""
    found = dict(plain)
    for key in keys:
        if isinstance(found.get(key), str) and found[key]:
            found[key] = _file(place, found[key])
    if found.get("output"):
        found["output"] = placed(place, output_of(found["output"]))
    for key in tables:
        if isinstance(found.get(key), dict):
            found[key] = {name: _file(place, value) for name, value in found[key].items()}
    if isinstance(found.get("queries"), str):
        found["queries"] = _file(place, found["queries"])
    for key in ("queries", "templates"):
        if isinstance(found.get(key), dict):
            found[key] = {name: _query_file(place, value) for name, value in found[key].items()}
    for name, source in found.get("sources", {}).items() if isinstance(found.get("sources"), dict) else ():
        if isinstance(source, dict):
            paths = {k: _file(place, source[k]) for k in ("data", "changes") if isinstance(source.get(k), str)}
            found["sources"][name] = source | paths
    return found


def _query_file(place: Path, written: Any) -> Any:
    if not isinstance(written, dict):
        return _file(place, written)
    return written | {key: _file(place, written[key]) for key in ("query", "instances") if key in written}


def _file(place: Path, written: Any) -> Any:
    """Resolve a path against a directory; addresses, standard input and queries stay as they are."""
    if not isinstance(written, str) or written == "-" or "://" in written or "{" in written:
        return written
    head, colon, rest = written.rpartition("follow:")
    return f"{head}{colon}{place / rest}"
