"""`freshkeeper run`."""

import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from freshkeeper.commands.command_line import Argument
from freshkeeper.commands.model_options import given_keys, options_of
from freshkeeper.commands.screen import teller
from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from inspect import Parameter

    from freshkeeper.maintenance.engine.service_join.maintenance_settings import Observer
    from freshkeeper.maintenance.outputs.result_sink import AnswerFiles, ResultSink
    from freshkeeper.maintenance.outputs.sender import SenderSink
    from freshkeeper.maintenance.query.model import Query
    from freshkeeper.maintenance.runtime.run_config import RunConfig
    from freshkeeper.maintenance.runtime.run_session import Session
    from freshkeeper.maintenance.sources.source_config import SourceConfig


KEYS_WITHOUT_OPTION = ("query", "queries", "templates")
"""Keys of a config without an option."""


def options() -> "Iterator[Parameter]":
    """Yield an option for every key of a config but the queries."""
    from freshkeeper.maintenance.base.reference import keys_of
    from freshkeeper.maintenance.runtime.run_config import RunConfig

    return options_of(RunConfig, [key for key in keys_of(RunConfig) if key not in KEYS_WITHOUT_OPTION])


def run(
    queries: Annotated[
        list[str],
        Argument(
            metavar="QUERY...",
            help="a file with the query, the query itself, or a YAML file with all of it; several, or a directory of "
            "them, run together",
        ),
    ],
    **options: Any,
) -> None:
    """Run continuous queries: streams in, answers out, one line per evaluation.

    Examples: `freshkeeper run query.rspql --stream http://example.org/cars=cars.nq --drain`,
    `freshkeeper run reach.rspql --stream http://example.org/s=- --source http://example.org/blog=blog.yaml --budget 5`,
    `freshkeeper run reach.yaml --policy plan --metrics :9100`,
    `freshkeeper run queries/ --stream http://example.org/s=posts.nq --out answers`
    """
    from freshkeeper.maintenance.runtime.run_config import RunConfig, config_of, names_of

    given = given_keys(RunConfig, options)
    first, *more = queries
    configs = [query for query in queries if is_config(query)]
    if more and configs:
        raise ConfigError(f"{configs[0]} is the config of a run: name it alone, and the queries under its key queries")
    if is_config(first) and not more:
        _carry_out(configured(first, given))
    elif more or Path(first).is_dir():
        _carry_out(config_of({"queries": names_of(queries), **given}))
    else:
        _carry_out(config_of({"query": first, **given}))


def _sources_to_follow(config: "RunConfig") -> "list[SourceConfig]":
    """Return the sources of a query to follow: one without windows and SERVICE over fragments alone."""
    from freshkeeper.maintenance.annotated.annotated_source import all_fragments

    if config.several or config.streams or config.graph_files:
        return []
    sources = all_fragments(config.sources.values())
    if not sources:
        return []
    query = parsed(read_query(config.query), config.dialect)
    return [] if query.windows or query.services else sources


def is_config(query: str) -> bool:
    """Tell whether an argument names the YAML file of a run."""
    return query.lower().endswith((".yaml", ".yml"))


def configured(file: str, given: "Mapping[str, Any]") -> "RunConfig":
    """Read the config of a run; options given on the command line win."""
    from freshkeeper.maintenance.runtime.run_config import read_config

    return read_config(Path(file), given)


def volatile_of(config: "RunConfig") -> dict[str, list[str]]:
    """Return the volatile predicates by source, from its file and from the config."""
    from freshkeeper.maintenance.sources.source_config import read_config

    said = {
        name: read_config(Path(source)) if isinstance(source, str) else source
        for name, source in config.sources.items()
        if not isinstance(source, str) or is_config(source)
    }
    return {name: list(source.volatile) for name, source in said.items() if source.volatile} | config.volatile


def _carry_out(config: "RunConfig") -> None:
    """Run the queries: answers to standard output, everything else to standard error."""
    from freshkeeper.commands.interrupts import Stopping
    from freshkeeper.maintenance.engine.native.compiling import tell_when_compiling
    from freshkeeper.maintenance.observe import logs
    from freshkeeper.maintenance.observe.metrics import Metrics, address_of

    if sources := _sources_to_follow(config):
        from freshkeeper.commands.follow import deliver, opened

        budget = float(config.budget) if "budget" in config.model_fields_set else None
        with opened(sources, read_query(config.query), budget, float(config.bank)) as asked:
            return deliver(asked)
    if config.journal and Path(config.journal).is_file():
        raise ConfigError(f"--journal {config.journal} is a file: name a directory")
    tell = teller(config.log)
    tell_when_compiling(tell)
    metrics = Metrics() if config.metrics else None
    observers: list[Observer] = [*([metrics.observe] if metrics else []), *([logs.observe] if config.log else [])]
    command = shlex.join(["freshkeeper", *map(mask_secrets, sys.argv[1:])])
    session = _session(config, observers, command, tell)
    try:
        out = answers_of(session)
        if metrics is not None:
            host, port = address_of(config.metrics)
            tell(f"metrics at http://{host}:{metrics.serve(port, host, lambda: session.links)}/metrics")
        results = 0
        with Stopping(lambda: session.waits).listening() as stopping, closing(session.results()) as found:
            session.before_waiting(stopping.check)
            for result in found:
                results += 1
                out.put(result)
                stopping.check()
    finally:
        if metrics is not None:
            metrics.close()
    for line in (
        *session.summary(),
        *_result_notes(results > 0 or not session.has_all_results, session.failed_fetches, bool(config.state)),
    ):
        tell(line)
    if session.failures:
        raise SystemExit(1)
    return None


def _session(
    config: "RunConfig", observers: "Sequence[Observer]", command: str, tell: "Callable[[str], None]"
) -> "Session":
    from freshkeeper.maintenance.runtime.query_set import read_queries
    from freshkeeper.maintenance.runtime.run_session import Session

    if not config.several:
        text = read_query(config.query)
        query = parsed(text, config.dialect, config.streams)
        return Session(config.model_copy(update={"query": text}), query, tell, observers, command)
    failures: dict[str, Exception] = {}

    def failed(name: str, error: Exception) -> None:
        failures[name] = error
        tell(f"the query {name} is left out: {error}")

    return Session(
        config=config,
        queries=read_queries(config, failed),
        log=tell,
        observers=observers,
        command=command,
        failures=failures,
    )


def answers_of(session: "Session") -> "ResultSink | AnswerFiles | SenderSink":
    """Return the destination of a run's answers."""
    from freshkeeper.maintenance.outputs.result_sink import AnswerFiles, ResultSink
    from freshkeeper.maintenance.outputs.sender import AnswerSender, SenderSink

    config = session.config
    empty = config.empty or not config.several
    if config.output is not None:
        output = config.output.open_receiver(Path(config.state or ".") / "dead-letters.ndjson")
        return SenderSink(AnswerSender(output, session.log), empty)
    if config.out is not None:
        return AnswerFiles(config.out, config.format, session.before, empty)
    return ResultSink.begin(
        sys.stdout, config.format, resumed=session.is_resumed, partial=session.may_be_partial, empty=empty
    )


def _result_notes(results: bool, errors: int, goes_on: bool) -> "Iterator[str]":
    """Yield notes about failed fetches and about runs without results."""
    if errors:
        yield f"{errors} fetches failed; --log info tells why"
    if not results and not goes_on:
        yield "no result: no window closed before the streams ended; --drain goes on until all are empty"


def read_query(written: str) -> str:
    """Return the text of a query given as a file or as text."""
    from freshkeeper.maintenance.runtime.run_config import read_text

    return read_text(written)


def parsed(text: str, dialect: str, streams: "Iterable[str]" = ()) -> "Query":
    """Parse a query in the named dialect, or in the one it looks like."""
    from freshkeeper.maintenance.query.parser import parse

    return parse(text, dialect or None, streams=list(streams))
