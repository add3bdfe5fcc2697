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
from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.reading import read_sparql
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, Tokens

SIGNED = re.compile(r"\+[.0-9]")
SUSPECT = re.compile(r"\bOPTIONAL\b|\bEXISTS\b|\||\bORDER\b", re.IGNORECASE)
JOINED = (syntax.TriplePattern, syntax.Values, syntax.GroupBlock, syntax.Union, syntax.Select, syntax.ServiceBlock)
CLOSED = (syntax.Filter, syntax.Bind, syntax.ServiceBlock)
"""Blocks with groups inside that stay as they are."""


@lru_cache(maxsize=1_000)
def rewrite_for_pyoxigraph(sparql: str) -> str:
    """Return a text for pyoxigraph that means the same as the given one."""
    if SIGNED.search(sparql):
        sparql = edited_text(sparql, _sign_edits(read_sparql(sparql)))
    if not SUSPECT.search(sparql):  # most texts have none of the patterns, and need not be parsed
        return sparql
    tree = read_sparql(sparql)
    edits = list(_Guard(tree.source.tokens, _shows_all(tree)).edits(tree.inner, tree))
    for element in tree.deep():
        if isinstance(element, syntax.Select):
            edits += sort_key_edits(element)
    return edited_text(sparql, edits)


def edited_text(sparql: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits, of which an outer one comes before those inside."""
    weaver = Weaver(sparql)
    weaver.copy(0, len(sparql), sorted(edits, key=lambda edit: edit[:2]))
    return weaver.finish().text


def _sign_edits(tree: syntax.Select) -> set[Edit]:
    """Return edits that drop the sign of `?s :p +5`, which pyoxigraph reads as the path `:p+` and 5."""
    patterns = [element for element in tree.deep() if isinstance(element, syntax.TriplePattern)]
    signed = (token for pattern in patterns for token in pattern.items if token.text.startswith("+"))
    return {Edit(token.start, token.start + 1, " ") for token in signed if token.kind is TokenKind.NUMBER}


def _shows_all(tree: syntax.Select) -> bool:
    """Return whether the query may be SELECT *, behind any of the words that stand before the star."""
    showing = ("SELECT", "DISTINCT", "REDUCED")
    return any(token.is_mark("*") and before.is_word(*showing) for before, token in pairwise(tree.head))


@dataclass(frozen=True)
class _Guard:
    tokens: Tokens
    star: bool

    def edits(self, group: Sequence[syntax.Element], holder: syntax.Element, graph: str = "") -> Iterator[Edit]:
        """Yield the edits of a group and the groups in it; `graph` is the variable that ranges over its graphs."""
        for element in group:
            if isinstance(element, CLOSED):
                continue
            inner_graph = graph
            if isinstance(element, syntax.GraphBlock):
                inner_graph = ""
                if element.iri is None:
                    inner_graph = f"?{element.name.text[1:]}"
            for part in element.parts:
                yield from self.edits(part, element, inner_graph)
        yield from alternative_edits(group, graph, self.star)
        peeks = not isinstance(holder, syntax.Select | syntax.Optional | syntax.Minus) and any(map(self._peeks, group))
        if peeks:
            yield _opened(group, graph)
        yield from _shielded(group, holder, graph)
        if peeks:
            yield Edit(group[-1].end, group[-1].end, " } }")

    def _peeks(self, element: syntax.Element) -> bool:
        """Return whether the element is an EXISTS with a variable that the query has elsewhere too."""
        inside = syntax.all_variables(element.inner)
        return isinstance(element, syntax.Filter) and any(
            token.kind is TokenKind.VAR and token.text[1:] in inside and not element.start <= token.start < element.end
            for token in self.tokens.items
        )


def _opened(group: Sequence[syntax.Element], graph: str) -> Edit:
    """Return the beginning of a sub-query that shows all variables of a group.

    If a variable ranges over its graphs, the columns are listed: `*` would not show that variable.
    """
    columns = "*"
    if graph:
        bound = frozenset[str]().union(*(e.bound for e in group))
        names = sorted(f"?{name}" for name in bound if not name.startswith("_:"))
        columns = " ".join(dict.fromkeys([graph, *names]))
    return Edit(group[0].start, group[0].start, f"{{ SELECT {columns} {{ ")


def _shielded(group: Sequence[syntax.Element], holder: syntax.Element, graph: str) -> Iterator[Edit]:
    """Yield sub-queries that end with an element that depends on values from outside; FILTERs go behind them."""
    ends = [n for n, element in enumerate(group) if _depends(element) and _is_joined(group[n + 1 :], holder)]
    # all sub-queries begin at the start of the group: the one that ends last is the outermost
    for n in reversed(ends):
        yield _opened(group[: n + 1], graph)
    for n in ends:
        filters: list[syntax.Element] = []
        if n == ends[-1]:  # a FILTER looks at its whole group, and so must not be left inside
            filters = [element for element in group[:n] if isinstance(element, syntax.Filter)]
        for element in filters:
            yield Edit(element.start, element.end, "FILTER(true)")
        yield Edit(group[n].end, group[n].end, " ".join([" } }", *(element.text for element in filters)]))


def _depends(element: syntax.Element) -> bool:
    if isinstance(element, syntax.Bind):
        return bool(element.parts)
    return isinstance(element, syntax.Optional) and not _is_plain(element)


def _is_joined(later: Sequence[syntax.Element], holder: syntax.Element) -> bool:
    return not isinstance(holder, syntax.Select) or any(isinstance(element, JOINED) for element in later)


def _is_plain(optional: syntax.Element) -> bool:
    """Return whether an OPTIONAL has the same result with more variables bound than the elements before it bind."""
    for element in optional.inner:
        inside = [element] if isinstance(element, syntax.ServiceBlock) else element.walk()
        if not all(_is_plain_inside(inner, optional) for inner in inside):
            return False
    return True


def _is_plain_inside(element: syntax.Element, optional: syntax.Element) -> bool:
    if isinstance(element, syntax.GraphBlock):
        return element.name.kind is not TokenKind.VAR
    if isinstance(element, syntax.TriplePattern):
        return not element.path
    if isinstance(element, syntax.Filter):
        return element in optional.inner and not element.parts
    return isinstance(element, syntax.GroupBlock | syntax.Union | syntax.Values | syntax.ServiceBlock)


def check_free_graphs(query: Query) -> None:
    """Raise ConfigError at a block that pyoxigraph would misread; text inside SERVICE belongs to the source."""
    for block, cause in _misread(query.group):
        problem = (
            f"the graph of {block.flat} is a variable, and {cause.flat} does not know it: begin the block "
            "with a triple pattern and put no sub-query into it, or name the window or graph"
        )
        raise ConfigError(query.message_at(block, problem))


def _misread(group: Sequence[syntax.Element]) -> Iterator[tuple[syntax.Element, syntax.Element]]:
    """Yield misread blocks, each with the element that is the cause."""
    for element in group:
        if isinstance(element, syntax.GraphBlock) and element.iri is None:
            cause = _early(element.inner)
            if cause is None and not _matches_graph(element.inner):
                cause = element
            if cause is not None:
                yield element, cause
        if not isinstance(element, syntax.ServiceBlock):
            for part in element.parts:
                yield from _misread(part)


def _early(group: Sequence[syntax.Element]) -> syntax.Element | None:
    """Return an element that hides the graph, or looks at solutions that do not have it yet."""
    for n, element in enumerate(group):
        if isinstance(element, syntax.Select):
            return element
        if isinstance(element, syntax.Optional | syntax.Minus) and not _matches_graph(group[:n]):
            return element
        if isinstance(element, syntax.Minus) and syntax.bound_variables(element.inner).isdisjoint(
            syntax.bound_variables(group[:n])
        ):
            return element
        if isinstance(element, syntax.GraphBlock | syntax.ServiceBlock):
            continue
        for part in element.parts:
            cause = _early(part)
            if cause is not None:
                return cause
    return None


def _matches_graph(group: Sequence[syntax.Element]) -> bool:
    """Return whether every solution of a group comes from a triple pattern of its own graph."""
    return any(
        isinstance(e, syntax.TriplePattern)
        or (
            isinstance(e, syntax.GroupBlock | syntax.Union)
            and not isinstance(e, syntax.GraphBlock)
            and all(map(_matches_graph, e.parts))
        )
        for e in group
    )
