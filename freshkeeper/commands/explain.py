"""`freshkeeper explain`."""

from typing import TYPE_CHECKING, Annotated

import typer

from freshkeeper.commands.options import pairs
from freshkeeper.commands.run import configured, is_config, parsed, read_query, volatile_of
from freshkeeper.commands.screen import print_json
from freshkeeper.policies.errors import ConfigError, nearest

if TYPE_CHECKING:
    from freshkeeper.maintenance.query.model import Query
    from freshkeeper.maintenance.run.run_config import RunConfig


def explain(
    query: Annotated[str, typer.Argument(help="a file with the query, the query itself, or the YAML file of a run")],
    volatile: Annotated[
        list[str] | None, typer.Option(metavar="IRI=P,P", help="a source and its volatile predicates")
    ] = None,
    dialect: Annotated[str, typer.Option(help="rspql, cqels, csparql or sparqlstream; default: as it looks")] = "",
    to: Annotated[str, typer.Option(metavar="DIALECT", help="print the query in a dialect instead")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Say what a continuous query means: its quadruple, its windows, how SERVICE splits, and which evaluator runs it.

    Examples: `freshkeeper explain query.rspql --volatile http://example.org/blog=http://example.org/followers`,
    `freshkeeper explain runs/demo/demo.yaml`
    """
    from freshkeeper.maintenance.native.evaluator_kind import EvaluatorKind
    from freshkeeper.maintenance.native.explain_plan import explain_plan
    from freshkeeper.maintenance.run.run_config import iris

    said = {source: iris(written) for source, written in pairs("volatile", volatile, "IRI=P,P").items()}
    known, streams, texts = said, dict[str, str](), {"": (query, dialect)}
    graphs, wanted = dict[str, str](), EvaluatorKind.AUTO
    if is_config(query):
        config = configured(query, {"dialect": dialect} if dialect else {})
        streams, known, texts = config.streams, volatile_of(config) | said, _texts(config)
        graphs, wanted = config.graph_files, config.evaluator
    found = {name: parsed(read_query(text), own, streams) for name, (text, own) in texts.items()}
    asked = [s.endpoint for each in found.values() for s in each.services if s.endpoint is not None]
    for name in said:
        if asked and name not in asked:
            raise ConfigError(f"the query asks for no source <{name}>; {nearest(name, asked)}")
    for name, each in found.items():
        _show(name, each, known, to, as_json, explain_plan(each, graphs, wanted))


def _texts(config: "RunConfig") -> dict[str, tuple[str, str]]:
    """Each query of a run by name, with its dialect; one that is alone has no name."""
    if not config.several:
        return {"": (config.query, config.dialect)}
    from freshkeeper.maintenance.run.query_set import named_texts

    return {each.name: (each.text, each.own.dialect or config.dialect) for each in named_texts(config)}


def _show(
    name: str, query: "Query", known: dict[str, list[str]], to: str, as_json: bool, plan: dict[str, object]
) -> None:
    from freshkeeper.maintenance.native.explain_plan import plan_lines
    from freshkeeper.maintenance.query.explain import explain as explained
    from freshkeeper.maintenance.query.explain import explain_text
    from freshkeeper.maintenance.query.printing import to_dialect

    if as_json:
        print_json(({"name": name} if name else {}) | explained(query, known) | {"evaluator": plan})
        return
    if name:
        print(f"# {name}")
    print(to_dialect(query, to) if to else explain_text(query, known) + "\n".join(plan_lines(plan)))
