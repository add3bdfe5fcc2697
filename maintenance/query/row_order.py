"""The order of rows, in ORDER BY and in aggregates.

ORDER BY has keys that order all values consistently, because pyoxigraph ends the process otherwise.

It compares values whose order SPARQL leaves open by their texts: 9 < 10 by value, 10 < "5" and "5" < 9 by text, and a
sort that notices such a circle aborts. So rows are ordered first by what their values can be compared with, and within
that by value:

    nothing, blank nodes, IRIs    numbers    then a datatype after the other, times without a zone before those with one
    triple terms: by subject, then by predicate, then by object, in the same way

SPARQL's own order stays: numbers by value, strings by code points, dates in time, IRIs after nothing.

Aggregates are computed over values in one order, whatever the order in which a store returns them. The order in which
doubles are added shows in the last digit of their sum, and of 1 and 1.0 the minimum is the one that comes first. SPARQL
leaves both open; two evaluators return the same if both see the values ordered by their text:

    SELECT (SUM(?n) AS ?s) { ?x :n ?n }
    SELECT (SUM(?n) AS ?s) { { SELECT * { ?x :n ?n } ORDER BY STR(?n) STR(DATATYPE(?n)) LANG(?n) } }
"""

from collections.abc import Iterable, Iterator
from functools import reduce

from freshkeeper.maintenance.query.syntax.reading import read_sparql
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.source_text import Span
from freshkeeper.maintenance.query.syntax.tokens import TokenKind
from freshkeeper.maintenance.query.syntax.tree import CLAUSES, Select

XSD = "http://www.w3.org/2001/XMLSchema#"
ZONE = "(Z|[-+][0-9]{2}:[0-9]{2})$"
QUOTED = """CONCAT(COALESCE(STR(SUBJECT(%E)), ""), " ", STR(PREDICATE(%E)), " ", COALESCE(STR(OBJECT(%E)), ""), " ",
 COALESCE(STR(DATATYPE(OBJECT(%E))), ""))""".replace("\n", "")
"""The parts of a triple term as text, for one that is the object of another."""
BY_VALUE = ("boolean", "dateTime", "date", "time", "dayTimeDuration", "yearMonthDuration")
VALUE = reduce(lambda others, name: f"IF(DATATYPE(%E) = <{XSD}{name}>, <{XSD}{name}>(%E), {others})", BY_VALUE, "1 / 0")
WITHIN = f'''IF(DATATYPE(%E) = <{XSD}string>, "", IF(COALESCE({VALUE} = %E, false),
 IF(REGEX(STR(%E), "{ZONE}"), "Z", ""), CONCAT("as ", STR(%E))))'''.replace("\n", "")
"""The order among literals of a datatype: those that compare by value, and apart from them the rest by text."""
TERM_KEYS = (
    f'IF(isTRIPLE(%E), "~", IF(isNumeric(%E), "", CONCAT(STR(DATATYPE(%E)), " ", {WITHIN})))',  # "~": after all IRIs
    f'IF(isTRIPLE(%E), "", IF(isNumeric(%E), <{XSD}double>(%E), %E))',
    'IF(isNumeric(%E), STR(DATATYPE(%E)), "")',
    'IF(isNumeric(%E), %E, "")',
)
"""The keys of one term; the last two tell numbers apart that one double stands for."""
KEYS = (
    *TERM_KEYS,
    # Of anything but a triple term these are errors, and errors compare equal.
    "STR(SUBJECT(%E))",
    "STR(PREDICATE(%E))",
    *(key.replace("%E", "OBJECT(%E)") for key in TERM_KEYS),
    QUOTED.replace("%E", "OBJECT(%E)"),
)
"""The keys that replace the expression of a condition."""


def sort_key_edits(select: Select) -> Iterator[Edit]:
    """Yield edits of the ORDER BY of a query or sub-query, if it has one."""
    source = select.source
    for first, stop in _conditions(select):
        token = source.items[first]
        if token.is_word("EXISTS", "NOT"):  # they are true or false, which compare
            continue
        direction = "ASC"
        expression = source.text(first, stop)
        if token.is_word("ASC", "DESC"):
            direction = token.text
            expression = source.text(first + 1, stop)
        keys = " ".join(f"{direction}({key.replace('%E', expression)})" for key in KEYS)
        yield Edit(token.start, source.items[stop - 1].end, keys)


def _conditions(select: Select) -> Iterator[Span]:
    """Yield the span of every condition: a variable, or brackets with the word or name before them."""
    items, closing = select.source.items, select.source.tokens.closing
    at = select.stop - len(select.tail)
    while at < select.stop and not items[at].is_word("ORDER"):
        at = closing.get(at, at) + 1
    at += 2
    while at < select.stop and not items[at].is_word(*CLAUSES):
        end = at
        while items[end].kind is not TokenKind.VAR and end not in closing:
            end += 1
        end = closing.get(end, end) + 1
        yield at, end
        at = end


ORDER_DEPENDENT = ("SUM", "AVG", "MIN", "MAX")
"""Aggregates whose result depends on the order, unlike COUNT."""


def order_aggregates(sparql: str) -> str:
    """Return the same query with its aggregates computed in one order."""
    tree = read_sparql(sparql)
    tokens = tree.source.tokens
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
