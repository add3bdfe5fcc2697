"""Workarounds for bugs of pyoxigraph: patterns that it evaluates differently from SPARQL are written in other words.

Its joins hand the values they have on to a group that is joined next, although the result of the group depends on
whether a variable is bound: in the OPTIONAL of a group, and in FILTER EXISTS. Nothing is handed on to a sub-query, so
such a group becomes one.

    ?x :p ?n OPTIONAL { BIND(?n AS ?k) } ?x :q ?n    { SELECT * { ?x :p ?n OPTIONAL { BIND(?n AS ?k) } } } ?x :q ?n

A positive number behind a predicate is read as the end of a path, and loses its sign.

alternatives.py has the workaround for p|q, which returns common solutions once, and row_order.py the one for ORDER BY,
which ends the process if values compare in circles.

A block whose graph is a variable, `WINDOW ?w { ... }` or `GRAPH ?g { ... }`, joins that variable with its solutions in
SPARQL; pyoxigraph makes it a part of each triple pattern inside. Both are equal if a triple pattern comes before
everything that looks at the solutions before it, and no sub-query hides the variable. Other blocks are refused.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.query.alternatives import alternative_edits
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.row_order import sort_key_edits
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.source_text import SourceText
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, Tokens, tokenize
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    GraphBlock,
    GroupBlock,
    Minus,
    Optional,
    Select,
    ServiceBlock,
    TriplePattern,
    Union,
    Values,
    all_variables,
    bound_variables,
)

SIGNED = re.compile(r"\+[.0-9]")
SUSPECT = re.compile(r"\bOPTIONAL\b|\bEXISTS\b|\||\bORDER\b", re.IGNORECASE)
JOINED = (TriplePattern, Values, GroupBlock, Union, Select, ServiceBlock)
CLOSED = (Filter, Bind, ServiceBlock)
"""Blocks with groups inside that stay as they are."""


@lru_cache(maxsize=1_000)
def rewrite_for_pyoxigraph(sparql: str) -> str:
    """Return a text for pyoxigraph that means the same as the given one."""
    if SIGNED.search(sparql):
        sparql = edited_text(sparql, _sign_edits(tree_of(sparql)))
    if not SUSPECT.search(sparql):  # most texts have none of the patterns, and need not be parsed
        return sparql
    tree = tree_of(sparql)
    edits = list(_Guard(tree.source.tokens, _shows_all(tree)).edits(tree.inner, tree))
    for element in tree.deep():
        if isinstance(element, Select):
            edits += sort_key_edits(element)
    return edited_text(sparql, edits)


def tree_of(sparql: str) -> Select:
    """Return the tree of SPARQL text."""
    tokens = tokenize(sparql)
    return read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))


def edited_text(sparql: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits, of which an outer one comes before those inside."""
    weaver = Weaver(sparql)
    weaver.copy(0, len(sparql), sorted(edits, key=lambda edit: edit[:2]))
    return weaver.finish().text


def _sign_edits(tree: Select) -> set[Edit]:
    """Return edits that drop the sign of `?s :p +5`, which pyoxigraph reads as the path `:p+` and 5."""
    patterns = [element for element in tree.deep() if isinstance(element, TriplePattern)]
    signed = (token for pattern in patterns for token in pattern.items if token.text.startswith("+"))
    return {Edit(token.start, token.start + 1, " ") for token in signed if token.kind is TokenKind.NUMBER}


def _shows_all(tree: Select) -> bool:
    """Return whether the query may be SELECT *, behind any of the words that stand before the star."""
    showing = ("SELECT", "DISTINCT", "REDUCED")
    return any(token.is_mark("*") and before.is_word(*showing) for before, token in pairwise(tree.head))


@dataclass(frozen=True)
class _Guard:
    tokens: Tokens
    star: bool

    def edits(self, group: Sequence[Element], holder: Element, graph: str = "") -> Iterator[Edit]:
        """Yield the edits of a group and the groups in it; `graph` is the variable that ranges over its graphs."""
        for element in group:
            if isinstance(element, CLOSED):
                continue
            inner_graph = graph
            if isinstance(element, GraphBlock):
                inner_graph = ""
                if element.iri is None:
                    inner_graph = f"?{element.name.text[1:]}"
            for part in element.parts:
                yield from self.edits(part, element, inner_graph)
        yield from alternative_edits(group, graph, self.star)
        peeks = not isinstance(holder, Select | Optional | Minus) and any(map(self._peeks, group))
        if peeks:
            yield _opened(group, graph)
        yield from _shielded(group, holder, graph)
        if peeks:
            yield Edit(group[-1].end, group[-1].end, " } }")

    def _peeks(self, element: Element) -> bool:
        """Return whether the element is an EXISTS with a variable that the query has elsewhere too."""
        inside = all_variables(element.inner)
        return isinstance(element, Filter) and any(
            token.kind is TokenKind.VAR and token.text[1:] in inside and not element.start <= token.start < element.end
            for token in self.tokens.items
        )


def _opened(group: Sequence[Element], graph: str) -> Edit:
    """Return the beginning of a sub-query that shows all variables of a group.

    If a variable ranges over its graphs, the columns are listed: `*` would not show that variable.
    """
    columns = "*"
    if graph:
        bound = frozenset[str]().union(*(e.bound for e in group))
        names = sorted(f"?{name}" for name in bound if not name.startswith("_:"))
        columns = " ".join(dict.fromkeys([graph, *names]))
    return Edit(group[0].start, group[0].start, f"{{ SELECT {columns} {{ ")


def _shielded(group: Sequence[Element], holder: Element, graph: str) -> Iterator[Edit]:
    """Yield sub-queries that end with an element that depends on values from outside; FILTERs go behind them."""
    ends = [n for n, element in enumerate(group) if _depends(element) and _is_joined(group[n + 1 :], holder)]
    # all sub-queries begin at the start of the group: the one that ends last is the outermost
    for n in reversed(ends):
        yield _opened(group[: n + 1], graph)
    for n in ends:
        filters: list[Element] = []
        if n == ends[-1]:  # a FILTER looks at its whole group, and so must not be left inside
            filters = [element for element in group[:n] if isinstance(element, Filter)]
        for element in filters:
            yield Edit(element.start, element.end, "FILTER(true)")
        yield Edit(group[n].end, group[n].end, " ".join([" } }", *(element.text for element in filters)]))


def _depends(element: Element) -> bool:
    if isinstance(element, Bind):
        return bool(element.parts)
    return isinstance(element, Optional) and not _is_plain(element)


def _is_joined(later: Sequence[Element], holder: Element) -> bool:
    return not isinstance(holder, Select) or any(isinstance(element, JOINED) for element in later)


def _is_plain(optional: Element) -> bool:
    """Return whether an OPTIONAL has the same result with more variables bound than the elements before it bind."""
    for element in optional.inner:
        inside = [element] if isinstance(element, ServiceBlock) else element.walk()
        if not all(_is_plain_inside(inner, optional) for inner in inside):
            return False
    return True


def _is_plain_inside(element: Element, optional: Element) -> bool:
    if isinstance(element, GraphBlock):
        return element.name.kind is not TokenKind.VAR
    if isinstance(element, TriplePattern):
        return not element.path
    if isinstance(element, Filter):
        return element in optional.inner and not element.parts
    return isinstance(element, GroupBlock | Union | Values | ServiceBlock)


def check_free_graphs(query: Query) -> None:
    """Raise ConfigError at a block that pyoxigraph would misread; text inside SERVICE belongs to the source."""
    for block, cause in _misread(query.group):
        problem = (
            f"the graph of {block.flat} is a variable, and {cause.flat} does not know it: begin the block "
            "with a triple pattern and put no sub-query into it, or name the window or graph"
        )
        raise ConfigError(query.message_at(block, problem))


def _misread(group: Sequence[Element]) -> Iterator[tuple[Element, Element]]:
    """Yield misread blocks, each with the element that is the cause."""
    for element in group:
        if isinstance(element, GraphBlock) and element.iri is None:
            cause = _early(element.inner)
            if cause is None and not _matches_graph(element.inner):
                cause = element
            if cause is not None:
                yield element, cause
        if not isinstance(element, ServiceBlock):
            for part in element.parts:
                yield from _misread(part)


def _early(group: Sequence[Element]) -> Element | None:
    """Return an element that hides the graph, or looks at solutions that do not have it yet."""
    for n, element in enumerate(group):
        if isinstance(element, Select):
            return element
        if isinstance(element, Optional | Minus) and not _matches_graph(group[:n]):
            return element
        if isinstance(element, Minus) and bound_variables(element.inner).isdisjoint(bound_variables(group[:n])):
            return element
        if isinstance(element, GraphBlock | ServiceBlock):
            continue
        for part in element.parts:
            cause = _early(part)
            if cause is not None:
                return cause
    return None


def _matches_graph(group: Sequence[Element]) -> bool:
    """Return whether every solution of a group comes from a triple pattern of its own graph."""
    return any(
        isinstance(e, TriplePattern)
        or (isinstance(e, GroupBlock | Union) and not isinstance(e, GraphBlock) and all(map(_matches_graph, e.parts)))
        for e in group
    )
