"""Checks of the inputs of a run: it has the streams, graphs and sources that its queries name, no others."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import tokenize


def check_inputs(
    text: str, query: Query, streams: Collection[str], graphs: Collection[str], sources: Collection[str]
) -> None:
    """Raise QuerySyntaxError where a query names a stream, graph or source that is not given."""
    for window in query.windows:
        if window.stream not in streams:
            raise _missing(text, query, window.stream, streams, problem="nothing feeds the stream", option="--stream")
    for name in (*query.dataset.default_graphs, *query.dataset.named_graphs):
        if name not in graphs:
            raise _missing(text, query, name, graphs, problem="there is no file for the graph", option="--graph")
    for service in query.services:
        source = service.endpoint
        if source is not None and not service.silent and source not in sources:
            raise _missing(text, query, source, sources, problem="there is no source", option="--source")


def _missing(
    text: str, query: Query, iri: str, known: Collection[str], *, problem: str, option: str
) -> QuerySyntaxError:
    others = [name for name in known if name]
    near = f"; {nearest(iri, others)}" if others else ""
    naming = (t for t in tokenize(text).items if t.is_name and query.expression.source.resolve(t) == iri)
    first = next((token.start for token in naming), 0)
    return QuerySyntaxError(f"{problem} <{iri}>", text, first, f"give it as {option} '{iri}=FILE'{near}")


def unused(
    queries: Sequence[Query], streams: Iterable[str], graphs: Iterable[str], sources: Iterable[str]
) -> Iterator[str]:
    """Yield a message for each stream, graph or source that no query names."""
    who = "the queries ask"
    if len(queries) == 1:
        who = "the query asks"
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
