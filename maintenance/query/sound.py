"""A SPARQL text as pyoxigraph gets it right: what it evaluates otherwise than SPARQL says is written in other words.

Its joins hand what they know on to a group that is joined next, also where the group shows that it knows: in the
OPTIONAL of a group, and in FILTER EXISTS. Nothing is handed on to a sub-query, so such a group becomes one.

    ?x :p ?n OPTIONAL { BIND(?n AS ?k) } ?x :q ?n    { SELECT * { ?x :p ?n OPTIONAL { BIND(?n AS ?k) } } } ?x :q ?n

It gives the solutions of p|q once, SPARQL once for p and once for q: see alternatives.py. And it ends the process where
ORDER BY compares in circles: see sort_keys.py.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from freshkeeper.maintenance.query.alternatives import apart
from freshkeeper.maintenance.query.sort_keys import by_keys
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Kind, Tokens, tokenize
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    Graph,
    Group,
    Minus,
    Optional,
    Select,
    Service,
    Source,
    TriplePattern,
    Union,
    Values,
    everything,
)

SUSPECT = re.compile(r"\bOPTIONAL\b|\bEXISTS\b|\||\bORDER\b", re.IGNORECASE)
JOINED = (TriplePattern, Values, Group, Union, Select, Service)
CLOSED = (Filter, Bind, Service)
"""What has groups inside that stay as they are."""


@lru_cache(maxsize=1_000)
def sound(sparql: str) -> str:
    """The text for pyoxigraph; it means the same as the text that is given."""
    if not SUSPECT.search(sparql):
        return sparql
    tokens = tokenize(sparql)
    tree = read_query(Source(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    weaver = Weaver(sparql)
    edits = [*_Guard(tokens, _shows_all(tree)).edits(tree.inner, tree), *_ordered(tree)]
    weaver.copy(0, len(sparql), sorted(edits, key=lambda edit: edit[:2]))
    return weaver.done().text


def _ordered(tree: Select) -> Iterator[Edit]:
    """What ORDER BY compares, of the query and of all its sub-queries."""
    for element in tree.deep():
        if isinstance(element, Select):
            yield from by_keys(element)


def _shows_all(tree: Select) -> bool:
    """Whether it may be SELECT *, whatever stands before it."""
    showing = ("SELECT", "DISTINCT", "REDUCED")
    return any(token.is_mark("*") and before.is_word(*showing) for before, token in pairwise(tree.head))


@dataclass(frozen=True)
class _Guard:
    tokens: Tokens
    star: bool

    def edits(self, group: Sequence[Element], holder: Element, graph: str = "") -> Iterator[Edit]:
        """What must be written otherwise in a group and the groups in it; `graph` is what ranges over its graphs."""
        for element in group:
            if not isinstance(element, CLOSED):
                inside = graph
                if isinstance(element, Graph):
                    inside = f"?{element.name.text[1:]}" if element.iri is None else ""
                for part in element.parts:
                    yield from self.edits(part, element, inside)
        yield from apart(group, graph, self.star)
        peeks = not isinstance(holder, Select | Optional | Minus) and any(map(self._peeks, group))
        if peeks:
            yield _opened(group, graph)
        yield from _shielded(group, holder, graph)
        if peeks:
            yield Edit(group[-1].end, group[-1].end, " } }")

    def _peeks(self, element: Element) -> bool:
        """Whether it is an EXISTS that looks at a variable which the query has elsewhere too."""
        inside = everything(element.inner)
        return isinstance(element, Filter) and any(
            token.kind is Kind.VAR and token.text[1:] in inside and not element.start <= token.start < element.end
            for token in self.tokens.items
        )


def _opened(group: Sequence[Element], graph: str) -> Edit:
    """The beginning of a sub-query that shows all of a group; what ranges over its graphs is hidden from `*`."""
    names = sorted(f"?{name}" for name in frozenset().union(*(e.bound for e in group)) if not name.startswith("_:"))
    shown = " ".join(dict.fromkeys([graph, *names])) if graph else "*"
    return Edit(group[0].start, group[0].start, f"{{ SELECT {shown} {{ ")


def _shielded(group: Sequence[Element], holder: Element, graph: str) -> Iterator[Edit]:
    """Sub-queries that end with what would show what comes from outside; FILTERs go behind them."""
    showing = [
        n
        for n, element in enumerate(group)
        if (element.parts if isinstance(element, Bind) else isinstance(element, Optional) and not _is_plain(element))
        and (not isinstance(holder, Select) or any(isinstance(later, JOINED) for later in group[n + 1 :]))
    ]
    yield from (_opened(group[: n + 1], graph) for n in reversed(showing))
    for n in showing:
        filters = [element for element in group[:n] if isinstance(element, Filter)] if n == showing[-1] else []
        yield from (Edit(element.start, element.end, "FILTER(true)") for element in filters)
        yield Edit(group[n].end, group[n].end, " ".join([" } }", *(element.text for element in filters)]))


def _is_plain(optional: Element) -> bool:
    """Whether an OPTIONAL gives the same where more is bound than what stands before it."""
    return all(
        (isinstance(inner, Group | Union | Values | Service) and not isinstance(inner, Graph))
        or (isinstance(inner, TriplePattern) and not inner.path)
        or (isinstance(inner, Graph) and inner.name.kind is not Kind.VAR)
        or (isinstance(inner, Filter) and inner in optional.inner and not inner.parts)
        for element in optional.inner
        for inner in (element.walk() if not isinstance(element, Service) else [element])
    )
