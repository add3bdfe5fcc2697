"""Errors about a query that only a run can find, at their place in the text: a stream or graph that nothing feeds."""

from collections.abc import Collection

from maintenance.query.errors import QuerySyntaxError
from maintenance.query.model import Query
from maintenance.query.tokens import tokenize
from policies.errors import nearest


def place_of(text: str, query: Query, iri: str) -> int:
    """Where the text first names an IRI; its beginning where it does not."""
    for token in tokenize(text).items:
        if token.is_name and _resolves_to(query, token.text, iri):
            return token.start
    return 0


def _resolves_to(query: Query, written: str, iri: str) -> bool:
    try:
        return query.expression.prologue.resolve(written) == iri
    except (KeyError, ValueError):
        return False


def check_inputs(text: str, query: Query, streams: Collection[str], graphs: Collection[str]) -> None:
    """Every stream has a source and every graph a file, or an error at the place where the query names it."""
    for window in query.windows:
        if window.stream not in streams:
            _missing(text, query, window.stream, "stream", "--stream", streams)
    for name in (*query.dataset.default_graphs, *query.dataset.named_graphs):
        if name not in graphs:
            _missing(text, query, name, "graph", "--graph", graphs)


def _missing(text: str, query: Query, iri: str, what: str, option: str, known: Collection[str]) -> None:
    others = [name for name in known if name]
    near = f"; {nearest(iri, others)}" if others else ""
    problem = f"nothing feeds the {what} <{iri}>" if what == "stream" else f"there is no file for the graph <{iri}>"
    raise QuerySyntaxError(problem, text, place_of(text, query, iri), f"give it as {option} '{iri}=FILE'{near}")
