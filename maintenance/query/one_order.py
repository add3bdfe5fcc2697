"""Aggregates of a query made of their values in one order, whatever order a store has them in.

In which order doubles are added up shows in the last digit of their sum, and of 1 and 1.0 the least is the one that is
seen first. SPARQL leaves both open; two evaluators say the same where both see the values ordered by what they look
like.

    SELECT (SUM(?n) AS ?s) { ?x :n ?n }
    SELECT (SUM(?n) AS ?s) { { SELECT * { ?x :n ?n } ORDER BY STR(?n) STR(DATATYPE(?n)) LANG(?n) } }

Compared are texts alone: the library ends the process where it sorts dates with and without time zones.
"""

from collections.abc import Iterable, Iterator

from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import Kind, tokenize
from freshkeeper.maintenance.query.syntax.tree import Select, Source

ORDERED = ("SUM", "AVG", "MIN", "MAX")
"""What depends on the order, as COUNT does not."""


def in_one_order(sparql: str) -> str:
    """The same query, its aggregates made in one order."""
    tokens = tokenize(sparql)
    tree = read_query(Source(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))
    names = tuple(dict.fromkeys(_aggregated(tree)))
    if not names:
        return sparql
    begin, end = tokens.items[tree.opening].end, tokens.items[tokens.closing[tree.opening]].start
    return tree.edited([Edit(begin, begin, " { SELECT * {"), Edit(end, end, f"}} ORDER BY {keys(names)} }} ")])


def keys(names: Iterable[str]) -> str:
    """What rows are ordered by, so that those that are ordered alike bind these variables to the same terms."""
    return " ".join(f"STR(?{name}) STR(DATATYPE(?{name})) LANG(?{name})" for name in names)


def _aggregated(tree: Select) -> Iterator[str]:
    """The variables that such aggregates are made of, in the order of the text."""
    for made in tree.columns.values():
        for token in made if any(token.is_word(*ORDERED) for token in made) else ():
            if token.kind is Kind.VAR:
                yield token.text[1:]
