"""Which queries can be followed: SELECT, without windows, over all that the sources hold; an error says what cannot."""

from collections.abc import Sequence

from pyoxigraph import QuerySolutions, Store

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, tokenize
from freshkeeper.maintenance.query.syntax.tree import GraphBlock, Select, ServiceBlock, SourceText


def tree_of(query: str, addresses: Sequence[str]) -> Select:
    """The tree of a query over the sources at some addresses."""
    try:
        if not isinstance(Store().query(query), QuerySolutions):
            raise InputError("the query has no SELECT: what is asked again whenever it expires is a SELECT query")
    except SyntaxError as error:
        raise InputError(f"the query is no SPARQL: {' '.join(str(error.msg).split())}") from None
    tokens = tokenize(query)
    tree = read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    if any(token.is_word("FROM") for token in tree.head):
        raise ConfigError("FROM: what is followed are the sources that --source names, with all that they hold")
    _check_services(tree, addresses)
    return tree


def services(tree: Select) -> frozenset[str]:
    """The addresses that a query asks alone."""
    return frozenset(e.iri for e in tree.deep() if isinstance(e, ServiceBlock) and e.iri is not None)


def as_graphs(tree: Select) -> str:
    """The query with a graph of its own for each source that is asked alone."""
    found = [e for e in tree.deep() if isinstance(e, ServiceBlock)]
    weaver, source = Weaver(tree.source.tokens.text), tree.source.tokens.text
    weaver.copy(0, len(source), [Edit(e.start, e.name.end, f"GRAPH <{e.iri}>") for e in found])
    return weaver.finish().text


def _check_services(tree: Select, addresses: Sequence[str]) -> None:
    found = [element for element in tree.deep() if isinstance(element, ServiceBlock)]
    for element in found:
        if element.iri not in addresses:
            raise ConfigError(
                f"SERVICE {element.name.text}: what is asked here says until when it holds, so name it as a source "
                f"that is followed (--source); there is {', '.join(addresses)}"
            )
        if any(isinstance(each, GraphBlock) for each in element.walk()):
            raise ConfigError(f"{element.flat[:80]}: what a SERVICE asks of a source are triples, without GRAPH")
    if found and any(isinstance(e, GraphBlock) and e.name.kind is TokenKind.VAR for e in tree.deep()):
        raise ConfigError("GRAPH with a variable beside SERVICE: name the graph")
