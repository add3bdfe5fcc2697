"""`freshkeeper run`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshkeeper.commands.options import duration, lists, pairs, shares
from freshkeeper.commands.screen import say
from freshkeeper.maintenance.addresses import shown
from freshkeeper.maintenance.settings.durations import to_delay
from freshkeeper.policies.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from freshkeeper.maintenance.query import Query
    from freshkeeper.maintenance.run.run_config import RunConfig


def run(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(help="a file with the query, the query itself, or a YAML file with all of it")
    ],
    stream: Annotated[
        list[str] | None, typer.Option(metavar="IRI=FILE", help="what feeds a stream; - is stdin")
    ] = None,
    graph: Annotated[list[str] | None, typer.Option(metavar="IRI=FILE", help="a graph of FROM or FROM NAMED")] = None,
    default: Annotated[str, typer.Option(metavar="FILE", help="the default graph")] = "",
    dialect: Annotated[str, typer.Option(help="rspql, cqels, csparql or sparqlstream; default: as it looks")] = "",
    delay: Annotated[str, typer.Option(help="how late elements may come, as 500ms")] = "",
    idle: Annotated[str, typer.Option(help="how long a live stream may be silent before others go on, as 5s")] = "",
    t0: Annotated[int, typer.Option("--t0", help="where windows that do not say it start, in ms")] = 0,
    drain: Annotated[bool, typer.Option(help="at the end go on until the windows are empty")] = False,
    speed: Annotated[str, typer.Option(help="pace of a replay: 1x, 10x or max")] = "max",
    on_error: Annotated[str, typer.Option(help="an element that cannot be read: fail or skip")] = "fail",
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="IRI=FILE", help="a SERVICE: RDF, an http address, or YAML that says more"),
    ] = None,
    volatile: Annotated[
        list[str] | None, typer.Option(metavar="IRI=P,P", help="a source and its volatile predicates")
    ] = None,
    policy: Annotated[str, typer.Option(help="what chooses the refreshes; default: gain, ibm for aggregates")] = "",
    budget: Annotated[float, typer.Option(help="cost units per evaluation, for every SERVICE pattern")] = 10,
    bank: Annotated[float, typer.Option(help="how much unspent budget is carried")] = 0,
    shared: Annotated[bool, typer.Option("--shared", help="all SERVICE patterns share one budget")] = False,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="IRI=N", help="a source's weight in a shared budget; default 1")
    ] = None,
    minimum: Annotated[
        list[str] | None, typer.Option(metavar="IRI=SHARE", help="the part of a shared budget that is a source's own")
    ] = None,
    audit: Annotated[float, typer.Option(help="the share of the budget that measures freshness, as 0.05")] = 0,
    fetch: Annotated[str, typer.Option(help="view, or a baseline: always (no cache) or once")] = "view",
    edges: Annotated[str, typer.Option(help="kept, or refreshed where they change over time")] = "kept",
    capacity: Annotated[int | None, typer.Option(min=1, help="how many entries a view may hold")] = None,
    seed: Annotated[int, typer.Option(help="for policies and audits, which draw lots")] = 0,
    journal: Annotated[str, typer.Option(metavar="DIR", help="write what happened, as Parquet")] = "",
    state: Annotated[
        str, typer.Option(metavar="DIR", help="keep views and budgets here, and go on from it after a restart")
    ] = "",
    metrics: Annotated[str, typer.Option(metavar=":PORT", help="where Prometheus may ask")] = "",
    log: Annotated[str, typer.Option(help="JSON lines on standard error: debug, info, warning or error")] = "",
    form: Annotated[str, typer.Option("--format", help="ndjson, sparql-json, csv or nquads")] = "ndjson",
) -> None:
    """Run a continuous query: streams in, answers out, one line per evaluation.

    Examples: `freshkeeper run query.rspql --stream http://example.org/cars=cars.nq --drain`,
    `freshkeeper run reach.rspql --stream http://example.org/s=- --source http://example.org/blog=blog.yaml --budget 5`,
    `freshkeeper run reach.yaml --policy plan --metrics :9100`
    """
    from freshkeeper.maintenance.run.run_config import config_of

    options = {
        "streams": pairs("stream", stream),
        "graphs": pairs("graph", graph),
        "default": default,
        "dialect": dialect,
        "delay": duration("delay", delay, to_delay),
        "idle": duration("idle", idle),
        "t0": t0,
        "drain": drain,
        "speed": speed,
        "on_error": on_error,
        "sources": pairs("source", source),
        "volatile": lists("volatile", volatile),
        "policy": policy,
        "budget": budget,
        "bank": bank,
        "shared": shared,
        "weights": shares("weight", weight),
        "minimum": shares("minimum", minimum),
        "audit": audit,
        "fetch": fetch,
        "edges": edges,
        "capacity": capacity,
        "seed": seed,
        "journal": journal,
        "state": state,
        "metrics": metrics,
        "log": log,
        "format": form,
    }
    given = {key: value for key, value in options.items() if value not in ({}, None) and _said(ctx, key)}
    _carry_out(configured(query, given) if is_config(query) else config_of({"query": query, **given}))


OPTIONS = {"streams": "stream", "graphs": "graph", "sources": "source", "weights": "weight", "format": "form"}
"""Keys of a config whose option is called otherwise."""


def _said(ctx: typer.Context, key: str) -> bool:
    """Whether an option was given, and did not come from its default."""
    source = ctx.get_parameter_source(OPTIONS.get(key, key))
    return source is not None and source.name != "DEFAULT"


def is_config(query: str) -> bool:
    """Whether what was given is the YAML file of a run."""
    return query.lower().endswith((".yaml", ".yml"))


def configured(file: str, given: "Mapping[str, Any]") -> "RunConfig":
    """A run from its file, with what was given beside it."""
    from freshkeeper.maintenance.run.run_config import read_config

    return read_config(Path(file), given)


def volatile_of(config: "RunConfig") -> dict[str, list[str]]:
    """The volatile predicates of every source that has some, whoever says them."""
    from freshkeeper.maintenance.service.source_config import read_config

    said = {
        name: read_config(Path(source)) if isinstance(source, str) else source
        for name, source in config.sources.items()
        if not isinstance(source, str) or is_config(source)
    }
    return {name: list(source.volatile) for name, source in said.items() if source.volatile} | config.volatile


def _carry_out(config: "RunConfig") -> None:
    """Answers to standard output, everything else to standard error."""
    from freshkeeper.maintenance.observe import logs
    from freshkeeper.maintenance.observe.metrics import Metrics, address_of
    from freshkeeper.maintenance.rsp.output import writer
    from freshkeeper.maintenance.run.run_session import Session

    if config.journal and Path(config.journal).is_file():
        raise ConfigError(f"--journal {config.journal} is a file: name a directory")
    text = read_query(config.query)
    metrics = Metrics() if config.metrics else None
    observers = [*([metrics.observe] if metrics else []), *([logs.observe] if config.log else [])]
    if config.log:
        logs.start(config.log)
    command = shlex.join(["freshkeeper", *map(shown, sys.argv[1:])])
    query = parsed(text, config.dialect)
    session = Session(config.model_copy(update={"query": text}), query, say, observers, command)
    out = writer(config.format)
    try:
        if metrics is not None:
            host, port = address_of(config.metrics)
            say(f"metrics at http://{host}:{metrics.serve(port, host)}/metrics")
        results = errors = 0
        for result in session.results():
            results += 1
            errors += result.errors
            sys.stdout.writelines(out.lines(result))
            sys.stdout.flush()
    finally:
        if metrics is not None:
            metrics.close()
    for line in (*session.news(), *_of_results(results, errors, bool(config.state))):
        say(line)


def _of_results(results: int, errors: int, goes_on: bool) -> "Iterator[str]":
    """What is told of results where somebody may wonder."""
    if errors:
        yield f"{errors} fetches failed; --log info tells why"
    if not results and not goes_on:
        yield "no result: no window closed before the streams ended; --drain goes on until all are empty"


def read_query(written: str) -> str:
    """The text of a query, from a file or as it is written."""
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


def parsed(text: str, dialect: str) -> "Query":
    """The query object."""
    from freshkeeper.maintenance.query import parse

    return parse(text, dialect or None)
