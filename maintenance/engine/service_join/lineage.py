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

from freshkeeper.maintenance.engine.service_join.values import COPIES, COPY, NO_COPY, SN
from freshkeeper.maintenance.query.alternatives import inseparable
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter, Minus, Optional, Select


@dataclass(frozen=True)
class Lineage:
    """How the text that is evaluated differs from the query, and what its rows show of their copies."""

    edits: tuple[Edit, ...]
    """what becomes of the query's head"""
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
    return query.form is Form.SELECT and query.tree.aggregated


def trace(query: Query) -> Lineage:
    """The text with hidden columns."""
    contexts = [query.context(service) for service in query.outer_services]
    optional = {n: each.outside or frozenset() for n, each in enumerate(contexts) if each.is_inside(Optional)}
    hidden = any(each.is_inside(Select, Minus, Filter, Bind) for each in contexts)
    edits, distinct, blind = _head(query, optional)
    groups = query.tree.grouped if aggregated(query) else None
    counted = query.form is not Form.ASK and not distinct and "|" in query.expression.where
    star = query.form is Form.SELECT and query.tree.star
    doubtful = counted and inseparable(query.group, star)
    return Lineage(edits, distinct, hidden, blind or hidden, optional, groups, doubtful)


def _head(query: Query, optional: Collection[int]) -> tuple[tuple[Edit, ...], bool, bool]:
    """The new head, whether DISTINCT was taken out, and whether answers cannot be told apart by their copies."""
    tree, end = query.tree, len(query.expression.head)
    limited = tree.has("LIMIT", "OFFSET")
    ordered = limited and tree.has("ORDER")
    if query.form is not Form.SELECT:
        return (Edit(0, end, "SELECT *"),), False, ordered
    distinct = tree.distinct
    if ordered or (distinct and limited):
        return (), False, True
    columns = "" if tree.star else "".join(_columns(query, optional))
    taken = () if distinct is None else (Edit(distinct.start, distinct.end, ""),)
    return (*taken, Edit(end, end, f"{columns} ")), distinct is not None, False


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
