"""`freshkeeper run`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshkeeper.options import duration, lists, pairs
from freshkeeper.screen import say
from policies.errors import ConfigError

if TYPE_CHECKING:
    from maintenance.query import Query


def run(
    query: Annotated[str, typer.Argument(help="a file with the query, or the query itself")],
    stream: Annotated[
        list[str] | None, typer.Option(metavar="IRI=FILE", help="what feeds a stream; - is stdin")
    ] = None,
    graph: Annotated[list[str] | None, typer.Option(metavar="IRI=FILE", help="a graph of FROM or FROM NAMED")] = None,
    default: Annotated[Path | None, typer.Option(metavar="FILE", help="the default graph")] = None,
    dialect: Annotated[str, typer.Option(help="rspql, cqels, csparql or sparqlstream; default: as it looks")] = "",
    delay: Annotated[str, typer.Option(help="how late elements may come, as 500ms")] = "",
    idle: Annotated[str, typer.Option(help="how long a live stream may be silent before others go on, as 5s")] = "",
    start: Annotated[int, typer.Option("--t0", help="where windows that do not say it start, in ms")] = 0,
    drain: Annotated[bool, typer.Option(help="at the end go on until the windows are empty")] = False,
    speed: Annotated[str, typer.Option(help="pace of a replay: 1x, 10x or max")] = "max",
    on_error: Annotated[str, typer.Option(help="an element that cannot be read: fail or skip")] = "fail",
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="IRI=FILE", help="a SERVICE: RDF, a directory of it, or YAML that says more"),
    ] = None,
    volatile: Annotated[
        list[str] | None, typer.Option(metavar="IRI=P,P", help="a source and its volatile predicates")
    ] = None,
    policy: Annotated[str, typer.Option(help="what chooses the refreshes; default: gain, ibm for aggregates")] = "",
    budget: Annotated[float, typer.Option(help="cost units per evaluation, for every SERVICE pattern")] = 10,
    bank: Annotated[float, typer.Option(help="how much unspent budget is carried")] = 0,
    fetch: Annotated[str, typer.Option(help="view, or a baseline: always (no cache) or once")] = "view",
    edges: Annotated[str, typer.Option(help="kept, or refreshed where they change over time")] = "kept",
    capacity: Annotated[int | None, typer.Option(min=1, help="how many entries a view may hold")] = None,
    seed: Annotated[int, typer.Option(help="for policies that draw lots")] = 0,
    journal: Annotated[Path | None, typer.Option(metavar="DIR", help="write what happened, as Parquet")] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="keep views and budgets here, and go on from it after a restart")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="ndjson, sparql-json, csv or nquads")] = "ndjson",
) -> None:
    """Run a continuous query: streams in, answers out, one line per evaluation.

    Examples: `freshkeeper run query.rspql --stream http://example.org/cars=cars.nq --drain`,
    `freshkeeper run reach.rspql --stream http://example.org/s=- --source http://example.org/blog=blog.yaml --budget 5`
    """
    from maintenance.engine.output import writer
    from maintenance.engine.session import Session

    if edges not in ("kept", "refreshed"):
        raise ConfigError(f"--edges {edges}: it is kept or refreshed")
    silence = duration("idle", idle)
    text = read_query(query)
    session = Session(
        text,
        parsed(text, dialect),
        streams=pairs("stream", stream),
        graphs=pairs("graph", graph) | ({"": str(default)} if default else {}),
        delay=duration("delay", delay) or 0,
        start=start,
        drain=drain,
        on_error=on_error,
        speed=speed,
        tell=say,
        sources=pairs("source", source),
        volatile=lists("volatile", volatile),
        policy=policy,
        budget=budget,
        bank=bank,
        fetch=fetch,
        edges=edges == "refreshed",
        idle=None if silence is None else silence / 1000,
        capacity=capacity,
        seed=seed,
        journal=journal,
        state=state,
        command=shlex.join(["freshkeeper", *sys.argv[1:]]),
    )
    out = writer(form)
    for result in session.results():
        sys.stdout.writelines(out.lines(result))
        sys.stdout.flush()
    for line in session.news():
        say(line)


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
    from maintenance.query import parse

    return parse(text, dialect or None)
