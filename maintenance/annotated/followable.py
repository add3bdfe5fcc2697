"""Checks whether a query can be followed: SELECT without windows over whole sources."""

from collections.abc import Sequence

from pyoxigraph import QuerySolutions, Store

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.source_text import SourceText
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, tokenize
from freshkeeper.maintenance.query.syntax.tree import GraphBlock, Select, ServiceBlock


def tree_of(query: str, addresses: Sequence[str]) -> Select:
    """Return the syntax tree of a query over the sources at these addresses.

    Raise an error if it cannot be followed.
    """
    try:
        if not isinstance(Store().query(query), QuerySolutions):
            raise InputError("the query is not a SELECT query; only SELECT can be followed")
    except SyntaxError as error:
        raise InputError(f"the query is not valid SPARQL: {' '.join(str(error.msg).split())}") from None
    tokens = tokenize(query)
    tree = read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    if any(token.is_word("FROM") for token in tree.head):
        raise ConfigError("FROM is not supported: a query follows the whole of each --source")
    _check_services(tree, addresses)
    return tree


def services(tree: Select) -> frozenset[str]:
    """Return the addresses in SERVICE clauses."""
    return frozenset(e.iri for e in tree.deep() if isinstance(e, ServiceBlock) and e.iri is not None)


def as_graphs(tree: Select) -> str:
    """Return the query with GRAPH in place of SERVICE: one graph per source."""
    found = [e for e in tree.deep() if isinstance(e, ServiceBlock)]
    weaver, source = Weaver(tree.source.tokens.text), tree.source.tokens.text
    weaver.copy(0, len(source), [Edit(e.start, e.name.end, f"GRAPH <{e.iri}>") for e in found])
    return weaver.finish().text


def _check_services(tree: Select, addresses: Sequence[str]) -> None:
    found = [element for element in tree.deep() if isinstance(element, ServiceBlock)]
    for element in found:
        if element.iri not in addresses:
            raise ConfigError(
                f"SERVICE {element.name.text} is not a followed source: add it with --source; "
                f"there is {', '.join(addresses)}"
            )
        if any(isinstance(each, GraphBlock) for each in element.walk()):
            raise ConfigError(f"{element.flat[:80]}: GRAPH is not supported inside SERVICE")
    if found and any(isinstance(e, GraphBlock) and e.name.kind is TokenKind.VAR for e in tree.deep()):
        raise ConfigError("GRAPH with a variable is not supported beside SERVICE: name the graph")
