"""`freshkeeper explain`."""

from typing import Annotated

import typer

from freshkeeper.commands.run import parsed, read_query
from freshkeeper.options import lists
from freshkeeper.screen import print_json


def explain(
    query: Annotated[str, typer.Argument(help="a file with the query, or the query itself")],
    volatile: Annotated[
        list[str] | None, typer.Option(metavar="IRI=P,P", help="a source and its volatile predicates")
    ] = None,
    dialect: Annotated[str, typer.Option(help="rspql, cqels, csparql or sparqlstream; default: as it looks")] = "",
    to: Annotated[str, typer.Option(metavar="DIALECT", help="print the query in a dialect instead")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Say what a continuous query means: its quadruple, its windows, and how SERVICE splits.

    Example: `freshkeeper explain query.rspql --volatile http://example.org/blog=http://example.org/followers`
    """
    from maintenance.query import explain as explained
    from maintenance.query import explain_text, to_dialect

    found = parsed(read_query(query), dialect)
    known = lists("volatile", volatile)
    if to:
        print(to_dialect(found, to))
    elif as_json:
        print_json(explained(found, known))
    else:
        print(explain_text(found, known), end="")
