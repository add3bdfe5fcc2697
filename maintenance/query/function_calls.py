"""Checks of calls to functions that are named by an IRI: does the function exist, and with as many arguments?

    PREFIX fk: <freshkeeper:>
    fk:timestamp(?s, ?p, ?o)        the last arrival of the triple in any window, in milliseconds
    fk:timestamp(?s, ?p, ?o, :w)    the last arrival in one window
    fk:now()                        the instant of this evaluation

    PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>
    f:timestamp(?s, ?p, ?o)         C-SPARQL's name for the first of them

All other functions are those of the SPARQL library, which is called to find out. Text inside SERVICE belongs to the
source, which has none of freshkeeper's functions.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pyoxigraph as ox

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.syntax.tokens import Tokens
from freshkeeper.maintenance.query.syntax.tree import Element, Select, ServiceBlock, TriplePattern

TIMESTAMP = "freshkeeper:timestamp"
NOW = "freshkeeper:now"
CSPARQL_TIMESTAMP = "http://larkc.eu/csparql/sparql/jena/ext#timestamp"
TAKES = {
    TIMESTAMP: ((3, 4), "a subject, a predicate and an object, and maybe a window"),
    NOW: ((0,), "no arguments"),
    CSPARQL_TIMESTAMP: ((3,), "a subject, a predicate and an object"),
}
"""Freshkeeper's functions: the permitted numbers of arguments, and what the arguments are."""
SCHEMA = "http://www.w3.org/2001/XMLSchema#"
CASTS = ("boolean", "dateTime", "decimal", "double", "float", "integer", "string")
"""Datatypes to which SPARQL casts."""
_EMPTY = ox.Store()


def function_calls(query: Query) -> Iterator[tuple[int, bool]]:
    """Yield the token of every name that is called as a function, and whether it stands inside SERVICE.

    A name before parentheses is a call, except in triples, where a collection may follow a name.
    """
    items = query.expression.source.items
    names = [n for n, (token, following) in enumerate(pairwise(items)) if token.is_name and following.is_mark("(")]
    if not names:
        return
    triples = _tokens_within(query.tree, TriplePattern)
    services = _tokens_within(query.tree, ServiceBlock)
    # the template of CONSTRUCT consists of triples too, but is no part of the tree
    first = 0
    if query.form is Form.CONSTRUCT:
        first = query.tree.opening
    for index in names:
        if index >= first and index not in triples:
            yield index, index in services


def _tokens_within(tree: Select, kind: type[Element]) -> set[int]:
    return {index for e in tree.deep() if isinstance(e, kind) for index in range(e.first, e.stop)}


def count_arguments(tokens: Tokens, opening: int) -> int:
    """Return the number of arguments between the parentheses that open at a token."""
    index, close = opening + 1, tokens.closing[opening]
    count = int(index < close)
    while index < close:
        count += tokens.items[index].is_mark(",")
        index = tokens.closing.get(index, index) + 1
    return count


@cache
def check_call(name: str, count: int) -> tuple[str, str] | None:
    """Return the problem with calling an IRI with `count` arguments and its remedy, or None if the call is right."""
    if name in TAKES:
        counts, description = TAKES[name]
        if count in counts:
            return None
        return f"does not take {_count_arguments(count)}", f"it takes {description}"
    try:
        _EMPTY.query(f"SELECT (<{name}>({', '.join(['1'] * count)}) AS ?x) {{}}")
    except RuntimeError as error:
        # pyoxigraph looks functions up when it plans a query, and says this of names and of numbers of arguments
        if "not supported" in str(error):
            return "is no function", _suggest(name)
        return f"does not take {_count_arguments(count)}", "a cast takes one"
    return None


def _count_arguments(count: int) -> str:
    return f"{count} argument{'s' * (count != 1)}"


def _suggest(name: str) -> str:
    if name.startswith(SCHEMA):
        return f"casts are xsd:{', xsd:'.join(CASTS)}"
    return f"{nearest(name, list(TAKES))}; SPARQL's own functions have no prefix, as in STRLEN(?name)"
