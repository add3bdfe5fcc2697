"""Calls of functions that are named by an IRI: each is known, and called with as many arguments as it takes.

    PREFIX fk: <freshkeeper:>
    fk:timestamp(?s, ?p, ?o)        when the triple came last, over all windows, in milliseconds
    fk:timestamp(?s, ?p, ?o, :w)    the same in one window
    fk:now()                        the instant of this evaluation

    PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>
    f:timestamp(?s, ?p, ?o)         the same in C-SPARQL

All others are those of the SPARQL library, which is asked for them. What is inside SERVICE belongs to the source, which
knows none of the above.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pyoxigraph as ox

from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.syntax.tokens import Tokens
from freshkeeper.maintenance.query.syntax.tree import Element, Select, Service, TriplePattern
from freshkeeper.policies.errors import nearest

TIMESTAMP = "freshkeeper:timestamp"
NOW = "freshkeeper:now"
CSPARQL_TIMESTAMP = "http://larkc.eu/csparql/sparql/jena/ext#timestamp"
TAKES = {
    TIMESTAMP: ((3, 4), "a subject, a predicate and an object, and maybe a window"),
    NOW: ((0,), "no arguments"),
    CSPARQL_TIMESTAMP: ((3,), "a subject, a predicate and an object"),
}
"""Our own functions: how many arguments each takes, and which."""
SCHEMA = "http://www.w3.org/2001/XMLSchema#"
CASTS = ("boolean", "dateTime", "decimal", "double", "float", "integer", "string")
"""What SPARQL casts to."""
_EMPTY = ox.Store()


def calls(query: Query) -> Iterator[tuple[int, bool]]:
    """The token of every name that is called as a function, and whether it is inside SERVICE.

    A name before parentheses is called; in triples a list follows it.
    """
    items = query.expression.source.items
    named = [n for n, (one, following) in enumerate(pairwise(items)) if one.is_name and following.is_mark("(")]
    if not named:
        return
    triples, services = _within(query.tree, TriplePattern), _within(query.tree, Service)
    template = query.tree.opening if query.form is Form.CONSTRUCT else 0
    yield from ((index, index in services) for index in named if index >= template and index not in triples)


def _within(tree: Select, kind: type[Element]) -> set[int]:
    return {index for e in tree.deep() if isinstance(e, kind) for index in range(e.first, e.stop)}


def arguments(tokens: Tokens, opening: int) -> int:
    """How many there are between these parentheses."""
    index, close = opening + 1, tokens.closing[opening]
    count = int(index < close)
    while index < close:
        count += tokens.items[index].is_mark(",")
        index = tokens.closing.get(index, index) + 1
    return count


@cache
def wrong_call(name: str, count: int) -> tuple[str, str] | None:
    """What is wrong with calling this IRI with so many arguments, and what would be right."""
    if name in TAKES:
        counts, which = TAKES[name]
        return None if count in counts else (f"does not take {_so_many(count)}", f"it takes {which}")
    try:
        _EMPTY.query(f"SELECT (<{name}>({', '.join(['1'] * count)}) AS ?x) {{}}")
    except RuntimeError as error:
        if "not supported" in str(error):
            return "is no function", _instead(name)
        return f"does not take {_so_many(count)}", "a cast takes one"
    return None


def _so_many(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _instead(name: str) -> str:
    if name.startswith(SCHEMA):
        return f"casts are xsd:{', xsd:'.join(CASTS)}"
    return f"{nearest(name, list(TAKES))}; SPARQL's own have no prefix, as in STRLEN(?name)"
