"""Which copies an answer is made of: the query's head, extended by the hidden columns of its SERVICE patterns.

    SELECT ?a ?b               SELECT ?a ?b ?copy
    SELECT DISTINCT ?a         SELECT ?a ?copy             and equal answers made one afterwards, the surest counting
    SELECT ?a (SUM(?n) AS ?s)  SELECT ... (GROUP_CONCAT(DISTINCT STR(?copy)) AS ?copies)
    CONSTRUCT, ASK             SELECT *

A SERVICE inside a sub-query, MINUS or EXISTS shows no column, and DISTINCT with LIMIT allows none: then every answer is
taken to be made of all copies of the evaluation, which can only make it look less fresh than it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from maintenance.engine.answers import Answer, Answers, Freshness
from maintenance.engine.evaluator import Row, Table
from maintenance.engine.mappings import enclosing
from maintenance.engine.rows import COPIES, COPY, ServiceRows, unskolem
from maintenance.query.model import Form, Query
from maintenance.query.patterns import read_group
from maintenance.query.rewrite import to_sparql
from maintenance.query.tokens import tokenize

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
_HIDING = ("SELECT", "MINUS", "FILTER", "BIND")


@dataclass(frozen=True)
class Traced:
    """The text that is evaluated, and what must be done with its rows."""

    sparql: str
    distinct: bool = False
    """whether equal answers are made one here"""
    blind: bool = False
    """whether some SERVICE does not show which copies it used"""


def aggregated(query: Query) -> bool:
    """Whether answers are groups of solutions: case 2 of a SERVICE that takes part in them."""
    words = tokenize(query.expression.head + " " + query.expression.tail).items
    return query.form is Form.SELECT and any(t.is_word(*AGGREGATES, "GROUP", "HAVING") for t in words)


def trace(query: Query) -> Traced:
    """The text with hidden columns."""
    expression = query.expression
    names = [window.name for window in query.dataset.named_windows]
    head, distinct, blind = _head(query)
    group = read_group(expression.pattern, expression.prologue)
    hidden = any(set(enclosing(group, n)) & set(_HIDING) for n in range(len(query.services)))
    text = to_sparql(expression.prologue, head, expression.pattern, expression.tail, names).text
    return Traced(text, distinct, blind or hidden)


def _head(query: Query) -> tuple[str, bool, bool]:
    """The new head, whether DISTINCT was taken out, and whether no columns could be added."""
    if query.form is not Form.SELECT:
        return "SELECT *", False, False
    head = query.expression.head
    items = tokenize(head).items
    distinct = items[1].is_word("DISTINCT", "REDUCED")
    star = items[1 + distinct].is_mark("*")
    limited = any(t.is_word("LIMIT", "OFFSET") for t in tokenize(query.expression.tail).items)
    if distinct and limited:
        return head, False, True
    if distinct:
        head = head[: items[1].start] + head[items[1].end :]
    numbers = range(len(query.services))
    if aggregated(query):
        head += "".join(
            f' (GROUP_CONCAT(DISTINCT COALESCE(STR(?{COPY}{n}), ""); SEPARATOR=" ") AS ?{COPIES}{n})' for n in numbers
        )
    elif not star:
        head += "".join(f" ?{COPY}{n}" for n in numbers)
    return head + " ", distinct, False


def settle(table: Table, traced: Traced, services: Sequence[ServiceRows]) -> tuple[tuple[str, ...], Answers]:
    """Answers without hidden columns, each with the freshness of what it is made of."""
    shown = [n for n, name in enumerate(table.variables) if not name.startswith((COPY, COPIES))]
    hidden = [(n, _number(name)) for n, name in enumerate(table.variables) if name.startswith((COPY, COPIES))]
    least = combine([f for service in services for f in service.freshness])
    answers: list[tuple[Answer, Freshness]] = []
    for row in table.rows:
        fresh = least if traced.blind else combine(_used(row, hidden, services))
        answers.append((tuple(unskolem(row[n]) for n in shown), fresh))
    names = tuple(table.variables[n] for n in shown)
    return names, Answers.of(_once(answers) if traced.distinct else answers)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _used(row: Row, hidden: Sequence[tuple[int, int]], services: Sequence[ServiceRows]) -> list[Freshness]:
    used = []
    for column, number in hidden:
        cell = row[column]
        copies = str(getattr(cell, "value", "")).split() if cell is not None else []
        used += [services[number].freshness[int(copy)] for copy in copies]
    return used


def combine(parts: Sequence[Freshness]) -> Freshness:
    """All copies must be fresh; the oldest gives the age."""
    ages = [part.age for part in parts if part.age is not None]
    return Freshness(prod(part.probability for part in parts), max(ages, default=None))


def _once(answers: list[tuple[Answer, Freshness]]) -> list[tuple[Answer, Freshness]]:
    best: dict[Answer, Freshness] = {}
    for answer, freshness in answers:
        if answer not in best or best[answer].probability < freshness.probability:
            best[answer] = freshness
    return list(best.items())
