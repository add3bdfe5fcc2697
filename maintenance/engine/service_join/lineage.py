"""Traces which cached entries an answer is made of, by adding hidden columns to the query's head.

    SELECT ?a ?b               SELECT ?a ?b ?copy (?sn AS ?hidden)
    SELECT DISTINCT ?a         SELECT ?a ?copy             equal answers are merged afterwards; the freshest counts
    SELECT ?a (SUM(?n) AS ?s)  SELECT ... (GROUP_CONCAT(DISTINCT STR(?copy)) AS ?copies)
    CONSTRUCT, ASK             SELECT *

A SERVICE inside a sub-query, MINUS or EXISTS exposes no column, DISTINCT with LIMIT allows none, and with ORDER BY and
LIMIT every answer depends on all that are cut off. In these cases every answer counts as made of all entries.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.service_join.service_rows import COPIES_COLUMN, COPY_COLUMN, KEY_COLUMN, NO_COPY
from freshkeeper.maintenance.query.alternatives import has_inseparable
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter, Minus, Optional, Select


@dataclass(frozen=True)
class Lineage:
    """The edits that turn a query into the evaluated text, whose rows name their cached entries."""

    edits: tuple[Edit, ...]
    """the edits to the query's head"""
    distinct: bool = False
    """equal answers are merged after the evaluation"""
    hidden: bool = False
    """some SERVICE exposes no column"""
    blind: bool = False
    """every answer counts as made of all entries"""
    optional: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """by number of a SERVICE inside OPTIONAL: the variables that are bound before the OPTIONAL"""
    grouped: frozenset[str] | None = None
    """the variables of GROUP BY; None if answers are not groups"""
    doubtful: bool = False
    """an answer may appear less often than SPARQL demands, so none is certain"""


def is_aggregated(query: Query) -> bool:
    """Return True if answers are groups of solutions (case 2 of the paper)."""
    return query.form is Form.SELECT and query.tree.aggregated


def trace(query: Query) -> Lineage:
    """Return the lineage of a query's answers."""
    contexts = [query.context(service) for service in query.outer_services]
    optional = {n: each.outside or frozenset() for n, each in enumerate(contexts) if each.is_inside(Optional)}
    hidden = any(each.is_inside(Select, Minus, Filter, Bind) for each in contexts)
    edits, distinct, blind = _head(query, optional)
    groups = query.tree.grouped if is_aggregated(query) else None
    counted = query.form is not Form.ASK and not distinct and "|" in query.expression.where
    star = query.form is Form.SELECT and query.tree.star
    doubtful = counted and has_inseparable(query.group, star)
    return Lineage(
        edits=edits,
        distinct=distinct,
        hidden=hidden,
        blind=blind or hidden,
        optional=optional,
        grouped=groups,
        doubtful=doubtful,
    )


def _head(query: Query, optional: Collection[int]) -> tuple[tuple[Edit, ...], bool, bool]:
    """Return the edits, whether DISTINCT was removed, and whether answers cannot be traced to their entries."""
    tree, end = query.tree, len(query.expression.head)
    limited = tree.has("LIMIT", "OFFSET")
    ordered = limited and tree.has("ORDER")
    if query.form is not Form.SELECT:
        return (Edit(0, end, "SELECT *"),), False, ordered
    distinct = tree.distinct
    if ordered or (distinct and limited):
        return (), False, True
    columns = "" if tree.star else "".join(_columns(query, optional))
    extended = Edit(end, end, f"{columns} ")
    if distinct is None:
        return (extended,), False, False
    return (Edit(distinct.start, distinct.end, ""), extended), True, False


def _columns(query: Query, optional: Collection[int]) -> Iterator[str]:
    """Yield the hidden columns of a head with an explicit list of variables."""
    if is_aggregated(query):
        for n in range(len(query.outer_services)):
            copy = f'COALESCE(STR(?{COPY_COLUMN}{n}), "{NO_COPY}")'
            yield f' (GROUP_CONCAT(DISTINCT {copy}; SEPARATOR=" ") AS ?{COPIES_COLUMN}{n})'
        return
    for n in range(len(query.outer_services)):
        yield f" ?{COPY_COLUMN}{n}"
    for name in sorted({v for n in optional for v in query.outer_services[n].variables} & query.windowed):
        yield f" (?{name} AS ?{KEY_COLUMN}{name})"
