"""Aggregates computed over values in one order, whatever the order in which a store returns them.

The order in which doubles are added shows in the last digit of their sum, and of 1 and 1.0 the minimum is the one that
comes first. SPARQL leaves both open; two evaluators return the same if both see the values ordered by their text.

    SELECT (SUM(?n) AS ?s) { ?x :n ?n }
    SELECT (SUM(?n) AS ?s) { { SELECT * { ?x :n ?n } ORDER BY STR(?n) STR(DATATYPE(?n)) LANG(?n) } }

The order compares texts alone: pyoxigraph ends the process when it sorts dates with and without time zones.
"""

from collections.abc import Iterable, Iterator

from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.source_text import SourceText
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, tokenize
from freshkeeper.maintenance.query.syntax.tree import Select

ORDER_DEPENDENT = ("SUM", "AVG", "MIN", "MAX")
"""Aggregates whose result depends on the order, unlike COUNT."""


def order_aggregates(sparql: str) -> str:
    """Return the same query with its aggregates computed in one order."""
    tokens = tokenize(sparql)
    tree = read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    names = tuple(dict.fromkeys(_aggregated(tree)))
    if not names:
        return sparql
    begin = tokens.items[tree.opening].end
    end = tokens.items[tokens.closing[tree.opening]].start
    inner_end = Edit(end, end, f"}} ORDER BY {order_keys(names)} }} ")
    return tree.edited([Edit(begin, begin, " { SELECT * {"), inner_end])


def order_keys(names: Iterable[str]) -> str:
    """Return the expressions of ORDER BY; rows that compare equal bind these variables to the same terms."""
    return " ".join(f"STR(?{name}) STR(DATATYPE(?{name})) LANG(?{name})" for name in names)


def _aggregated(tree: Select) -> Iterator[str]:
    """Yield the variables of aggregates that depend on the order, in the order of the text."""
    for expression in tree.columns.values():
        if any(token.is_word(*ORDER_DEPENDENT) for token in expression):
            yield from (token.text[1:] for token in expression if token.kind is TokenKind.VAR)
