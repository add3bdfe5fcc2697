"""`freshkeeper explain`."""

from typing import Annotated

import typer

from freshkeeper.commands.options import pairs
from freshkeeper.commands.run import configured, is_config, parsed, read_query, volatile_of
from freshkeeper.commands.screen import print_json
from freshkeeper.policies.errors import ConfigError, nearest


def explain(
    query: Annotated[str, typer.Argument(help="a file with the query, the query itself, or the YAML file of a run")],
    volatile: Annotated[
        list[str] | None, typer.Option(metavar="IRI=P,P", help="a source and its volatile predicates")
    ] = None,
    dialect: Annotated[str, typer.Option(help="rspql, cqels, csparql or sparqlstream; default: as it looks")] = "",
    to: Annotated[str, typer.Option(metavar="DIALECT", help="print the query in a dialect instead")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Say what a continuous query means: its quadruple, its windows, and how SERVICE splits.

    Examples: `freshkeeper explain query.rspql --volatile http://example.org/blog=http://example.org/followers`,
    `freshkeeper explain runs/demo/demo.yaml`
    """
    from freshkeeper.maintenance.query.explain import explain as explained
    from freshkeeper.maintenance.query.explain import explain_text
    from freshkeeper.maintenance.query.printing import to_dialect
    from freshkeeper.maintenance.run.run_config import iris

    said = {source: iris(written) for source, written in pairs("volatile", volatile, "IRI=P,P").items()}
    known, streams = said, dict[str, str]()
    if is_config(query):
        config = configured(query, {"dialect": dialect} if dialect else {})
        streams = config.streams
        query, dialect, known = config.query, config.dialect, volatile_of(config) | said
    found = parsed(read_query(query), dialect, streams)
    asked = [service.endpoint for service in found.services if service.endpoint is not None]
    for name in said:
        if asked and name not in asked:
            raise ConfigError(f"the query asks for no source <{name}>; {nearest(name, asked)}")
    if to:
        print(to_dialect(found, to))
    elif as_json:
        print_json(explained(found, known))
    else:
        print(explain_text(found, known), end="")
