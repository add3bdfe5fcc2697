"""`freshkeeper explain`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.options import pairs
from freshkeeper.commands.run import configured, is_config, parsed, read_query, volatile_of
from freshkeeper.commands.screen import print_json
from freshkeeper.maintenance.base.errors import ConfigError, nearest

if TYPE_CHECKING:
    from freshkeeper.maintenance.cache.view.regular import Regular
    from freshkeeper.maintenance.query.model import Query
    from freshkeeper.maintenance.runtime.run_config import RunConfig

MAX_REGULAR_ENTRIES = 10
"""The number of regular entries printed per source."""


def explain(
    query: Annotated[str, Argument(help="a file with the query, the query itself, or the YAML file of a run")],
    volatile: Annotated[
        list[str] | None, Option(metavar="IRI=P,P", help="a source and its volatile predicates")
    ] = None,
    dialect: Annotated[str, Option(help="the language of the query, as rspql; default: detected from the query")] = "",
    to: Annotated[str, Option(metavar="DIALECT", help="print the query in a dialect instead")] = "",
    as_json: Annotated[bool, Option("--json", help="print it as JSON")] = False,
) -> None:
    """Explain a continuous query: its quadruple, its windows, how SERVICE splits, and which evaluator runs it.

    For a run with a state, also list the entries that it has learned to change by a clock, with their periods.

    Examples: `freshkeeper explain query.rspql --volatile http://example.org/blog=http://example.org/followers`,
    `freshkeeper explain runs/demo/demo.yaml`
    """
    from freshkeeper.maintenance.base.field_types import split_iris
    from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
    from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
    from freshkeeper.maintenance.engine.explain_plan import explain_plan
    from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind

    said = {source: split_iris(written) for source, written in pairs("volatile", volatile, "IRI=P,P").items()}
    known, streams, texts = said, dict[str, str](), {"": (query, dialect)}
    graphs, wanted = dict[str, Path](), EvaluatorKind.AUTO
    clocks: dict[str, list[Regular]] = {}
    if is_config(query):
        given = {"dialect": dialect} if dialect else {}
        config = configured(query, given)
        streams, known, texts = config.streams, volatile_of(config) | said, _texts(config)
        graphs, wanted = {name: Path(file) for name, file in config.graph_files.items()}, config.evaluator
        clocks = _clocks(config)
    found = {name: parsed(read_query(text), own, streams) for name, (text, own) in texts.items()}
    asked = [s.endpoint for each in found.values() for s in each.services if s.endpoint is not None]
    for name in said:
        if asked and name not in asked:
            raise ConfigError(f"the query has no source <{name}>; {nearest(name, asked)}")
    there: StaticGraphs | dict[str, Path] = graphs
    if all(file.exists() for file in graphs.values()):
        there = StaticGraphs(Dictionary(), dict(graphs))
    for name, each in found.items():
        _show(
            name=name,
            query=each,
            known=known,
            to=to,
            as_json=as_json,
            plan=explain_plan(each, there, wanted),
            clocks=clocks,
        )
    if not as_json and not to:
        for line in _clock_lines(clocks):
            print(line)


def _clocks(config: "RunConfig") -> "dict[str, list[Regular]]":
    """Return the entries that change by a clock, as the state of the run has learned."""
    if config.state is None:
        return {}
    from freshkeeper.maintenance.sources.source_config import read_config
    from freshkeeper.maintenance.state.evidence_log import learned_clocks

    said = {
        name: read_config(Path(source)) if isinstance(source, str) and is_config(source) else source
        for name, source in config.sources.items()
    }
    learning = [name for name, source in said.items() if isinstance(source, str) or source.knowledge == "learned"]
    return learned_clocks(Path(config.state), learning)


def _clock_lines(clocks: "dict[str, list[Regular]]") -> Iterator[str]:
    from freshkeeper.maintenance.base.durations import to_unit

    for name, entries in clocks.items():
        yield f"<{name}>: {len(entries)} entries appear to change by a clock"
        for entry in entries[:MAX_REGULAR_ENTRIES]:
            yield f"     {_key(entry)} every {to_unit(_rounded(entry.period_ms))}, sure by {entry.chance:.0%}"


def _rounded(ms: float) -> int:
    """Round to two digits: periods are known to half an octave."""
    unit: int = 10 ** max(0, len(str(int(ms))) - 2)
    return round(ms / unit) * unit


def _key(entry: "Regular") -> str:
    parts = entry.key if isinstance(entry.key, tuple) else (entry.key,)
    return " ".join(str(part) for part in parts)


def _texts(config: "RunConfig") -> dict[str, tuple[str, str]]:
    """Return each query of a run by name, with its dialect; a single query has no name."""
    if not config.several:
        return {"": (config.query, config.dialect)}
    from freshkeeper.maintenance.runtime.query_set import definitions_of

    definitions = definitions_of(config).items()
    return {name: (definition.query, definition.dialect or config.dialect) for name, definition in definitions}


def _show(
    name: str,
    query: "Query",
    known: dict[str, list[str]],
    to: str,
    as_json: bool,
    plan: dict[str, object],
    clocks: "dict[str, list[Regular]]",
) -> None:
    from freshkeeper.maintenance.engine.explain_plan import plan_lines
    from freshkeeper.maintenance.query.explain import explain as explained
    from freshkeeper.maintenance.query.explain import explain_text
    from freshkeeper.maintenance.query.printing import to_dialect

    if as_json:
        document: dict[str, object] = {"name": name} if name else {}
        document |= {**explained(query, known), "evaluator": plan}
        if clocks:
            document["regular"] = {source: list(map(_clock_json, found)) for source, found in clocks.items()}
        print_json(document)
        return
    if name:
        print(f"# {name}")
    if to:
        print(to_dialect(query, to))
    else:
        print(explain_text(query, known) + "\n".join(plan_lines(plan)))


def _clock_json(entry: "Regular") -> dict[str, object]:
    return {"entry": _key(entry), "period_ms": round(entry.period_ms), "probability": round(entry.chance, 3)}
