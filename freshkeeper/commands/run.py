"""`freshkeeper run`."""

import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshkeeper.commands.model_options import options_of, said
from freshkeeper.commands.screen import say
from freshkeeper.maintenance.settings.addresses import shown
from freshkeeper.policies.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from inspect import Parameter

    from freshkeeper.maintenance.query.model import Query
    from freshkeeper.maintenance.run.run_config import RunConfig


def options() -> "Iterator[Parameter]":
    """Every key of a config but the query."""
    from freshkeeper.maintenance.run.run_config import RunConfig

    return options_of(RunConfig, [key for key in RunConfig.model_fields if key != "query"])


def run(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(help="a file with the query, the query itself, or a YAML file with all of it")
    ],
    **options: Any,
) -> None:
    """Run a continuous query: streams in, answers out, one line per evaluation.

    Examples: `freshkeeper run query.rspql --stream http://example.org/cars=cars.nq --drain`,
    `freshkeeper run reach.rspql --stream http://example.org/s=- --source http://example.org/blog=blog.yaml --budget 5`,
    `freshkeeper run reach.yaml --policy plan --metrics :9100`
    """
    from freshkeeper.maintenance.run.run_config import RunConfig, config_of

    given = said(ctx, RunConfig, options)
    _carry_out(configured(query, given) if is_config(query) else config_of({"query": query, **given}))


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
    from freshkeeper.maintenance.rsp.delivery import Delivery
    from freshkeeper.maintenance.run.run_session import Session

    if config.journal and Path(config.journal).is_file():
        raise ConfigError(f"--journal {config.journal} is a file: name a directory")
    text = read_query(config.query)
    metrics = Metrics() if config.metrics else None
    observers = [*([metrics.observe] if metrics else []), *([logs.observe] if config.log else [])]
    if config.log:
        logs.start(config.log)
    command = shlex.join(["freshkeeper", *map(shown, sys.argv[1:])])
    query = parsed(text, config.dialect, config.streams)
    session = Session(config.model_copy(update={"query": text}), query, say, observers, command)
    try:
        out = Delivery.begin(sys.stdout, config.format, session.goes_on, session.torn)
        if metrics is not None:
            host, port = address_of(config.metrics)
            say(f"metrics at http://{host}:{metrics.serve(port, host)}/metrics")
        results = errors = 0
        with closing(session.results()) as found:
            for result in found:
                results += 1
                errors += result.errors
                out.put(result)
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


def parsed(text: str, dialect: str, streams: "Iterable[str]" = ()) -> "Query":
    """The query object."""
    from freshkeeper.maintenance.query.parser import parse

    return parse(text, dialect or None, streams=list(streams))
