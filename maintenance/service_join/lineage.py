"""Which copies an answer is made of: the query's head, extended by the hidden columns of its SERVICE patterns.

    SELECT ?a ?b               SELECT ?a ?b ?copy (?sn AS ?hidden)
    SELECT DISTINCT ?a         SELECT ?a ?copy             and equal answers made one afterwards, the surest counting
    SELECT ?a (SUM(?n) AS ?s)  SELECT ... (GROUP_CONCAT(DISTINCT STR(?copy)) AS ?copies)
    CONSTRUCT, ASK             SELECT *

A SERVICE inside a sub-query, MINUS or EXISTS shows no column, DISTINCT with LIMIT allows none, and what ORDER BY with
LIMIT shows depends on all that it does not show: then every answer is taken to be made of all copies of the evaluation.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from freshkeeper.maintenance.query.federation.context import blocks_around
from freshkeeper.maintenance.query.federation.subselect import AGGREGATES, grouped
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.sound import inseparable
from freshkeeper.maintenance.query.syntax.rewrite import to_sparql
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.service_join.values import COPIES, COPY, NO_COPY, SN

_HIDING = frozenset(("SELECT", "MINUS", "FILTER", "BIND"))


@dataclass(frozen=True)
class Lineage:
    """The text that is evaluated, and what its rows show of the copies that they are made of."""

    sparql: str
    distinct: bool = False
    """whether equal answers are made one afterwards"""
    hidden: bool = False
    """whether some SERVICE stands where it shows no column"""
    blind: bool = False
    """whether an answer must count as made of all copies"""
    optional: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """the numbers of the SERVICE patterns inside OPTIONAL, and the variables that are bound before it"""
    grouped: frozenset[str] | None = None
    """what GROUP BY names, where answers are groups"""
    doubtful: bool = False
    """whether an answer may be there less often than SPARQL says, so that none is sure"""


def aggregated(query: Query) -> bool:
    """Whether answers are groups of solutions: case 2 of a SERVICE that takes part in them."""
    words = tokenize(query.expression.head + " " + query.expression.tail).items
    return query.form is Form.SELECT and any(t.is_word(*AGGREGATES, "GROUP", "HAVING") for t in words)


def trace(query: Query) -> Lineage:
    """The text with hidden columns."""
    expression = query.expression
    names = [window.name for window in query.dataset.named_windows]
    around = [frozenset(blocks_around(query.group, n)) for n in range(len(query.outer_services))]
    optional = {n: query.around(n).outside or frozenset() for n, kinds in enumerate(around) if "OPTIONAL" in kinds}
    hidden = any(kinds & _HIDING for kinds in around)
    head, distinct, blind = _head(query, optional)
    text = to_sparql(expression.prologue, head, expression.pattern, expression.tail, names).text
    groups = grouped(tokenize(expression.tail).items) if aggregated(query) else None
    counted = query.form is not Form.ASK and not distinct and "|" in expression.where
    return Lineage(text, distinct, hidden, blind or hidden, optional, groups, counted and inseparable(query.group))


def _head(query: Query, optional: Collection[int]) -> tuple[str, bool, bool]:
    """The new head, whether DISTINCT was taken out, and whether answers cannot be told apart by their copies."""
    tail = tokenize(query.expression.tail).items
    limited = any(t.is_word("LIMIT", "OFFSET") for t in tail)
    ordered = limited and any(t.is_word("ORDER") for t in tail)
    if query.form is not Form.SELECT:
        return "SELECT *", False, ordered
    head = query.expression.head
    items = tokenize(head).items
    distinct = items[1].is_word("DISTINCT", "REDUCED")
    if ordered or (distinct and limited):
        return head, False, True
    star = items[1 + distinct].is_mark("*")
    if distinct:
        head = head[: items[1].start] + head[items[1].end :]
    columns = "" if star else "".join(_columns(query, optional))
    return f"{head}{columns} ", distinct, False


def _columns(query: Query, optional: Collection[int]) -> Iterator[str]:
    """The hidden columns of a head that says what it shows."""
    if aggregated(query):
        for n in range(len(query.outer_services)):
            copy = f'COALESCE(STR(?{COPY}{n}), "{NO_COPY}")'
            yield f' (GROUP_CONCAT(DISTINCT {copy}; SEPARATOR=" ") AS ?{COPIES}{n})'
        return
    for n in range(len(query.outer_services)):
        yield f" ?{COPY}{n}"
    for name in sorted({v for n in optional for v in query.outer_services[n].variables} & query.windowed):
        yield f" (?{name} AS ?{SN}{name})"
