"""What only a run can find: streams, graphs and sources that a query names and nobody gives, or the other way round."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import tokenize


def check_inputs(
    text: str, query: Query, streams: Collection[str], graphs: Collection[str], sources: Collection[str]
) -> None:
    """Every stream, graph and source is given, or an error at the place where the query names it."""
    for window in query.windows:
        _check(text, query, window.stream, "nothing feeds the stream", "--stream", streams)
    for name in (*query.dataset.default_graphs, *query.dataset.named_graphs):
        _check(text, query, name, "there is no file for the graph", "--graph", graphs)
    for service in query.services:
        if service.endpoint is not None and not service.silent:
            _check(text, query, service.endpoint, "there is no source", "--source", sources)


def _check(text: str, query: Query, iri: str, problem: str, option: str, known: Collection[str]) -> None:
    if iri not in known:
        others = [name for name in known if name]
        near = f"; {nearest(iri, others)}" if others else ""
        naming = (t for t in tokenize(text).items if t.is_name and query.expression.source.resolve(t) == iri)
        first = next((token.start for token in naming), 0)
        raise QuerySyntaxError(f"{problem} <{iri}>", text, first, f"give it as {option} '{iri}=FILE'{near}")


def unused(
    queries: Sequence[Query], streams: Iterable[str], graphs: Iterable[str], sources: Iterable[str]
) -> Iterator[str]:
    """What a run was given and its queries do not ask for: a line for each."""
    who = "the query asks" if len(queries) == 1 else "the queries ask"
    yield from _not_asked(who, "stream", streams, {window.stream for query in queries for window in query.windows})
    named = {name for q in queries for name in (*q.dataset.default_graphs, *q.dataset.named_graphs)}
    yield from _not_asked(who, "graph", filter(None, graphs), named)
    endpoints = {service.endpoint for query in queries for service in query.services}
    if None not in endpoints:  # SERVICE ?any asks them all
        yield from _not_asked(who, "source", sources, {name for name in endpoints if name is not None})


def _not_asked(who: str, kind: str, given: Iterable[str], asked: set[str]) -> Iterator[str]:
    for name in given:
        if name not in asked:
            yield f"{who} for no {kind} <{name}>" + (f"; {nearest(name, sorted(asked))}" if asked else "")
