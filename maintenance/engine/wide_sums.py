"""SUM and AVG of integers and decimals beyond 64 bits, which pyoxigraph leaves unbound.

pyoxigraph adds integers in 64 bits and decimals in 128, and an overflow is an error, which unbinds the column. Such a
query is evaluated once more, with SUM and AVG of our own, in Python's integers of any size:

    SELECT ?x (SUM(?n) AS ?s) { ?x :n ?n } GROUP BY ?x
    SELECT ?x (COALESCE(SUM(?n), <freshkeeper:sum>(?n)) AS ?s) { ?x :n ?n } GROUP BY ?x

Overflows inside a sub-query, HAVING or ORDER BY are not noticed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from freshkeeper.maintenance.query.pyoxigraph_workarounds import edited_text
from freshkeeper.maintenance.query.syntax.reading import read_sparql
from freshkeeper.maintenance.query.syntax.source_map import Edit

XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGERS = frozenset(
    f"{XSD}{name}"
    for name in (
        *("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
        *("negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    )
)
SUMS = re.compile(r"\b(SUM|AVG)\b", re.IGNORECASE)
DECIMAL_DIGITS = 18
"""Digits behind the point of a quotient, as many as pyoxigraph computes."""


@dataclass(eq=False)
class ExactSum:
    """The sum or mean of the terms of a group; unbound if one is not an integer or a decimal."""

    mean: bool
    distinct: bool
    terms: list[object] = field(default_factory=list)

    def accumulate(self, term: NamedNode | BlankNode | Literal | Triple) -> None:
        """Add a term."""
        self.terms.append(term)

    def finish(self) -> Literal | None:
        terms = list(dict.fromkeys(self.terms)) if self.distinct else self.terms
        total, integral = Fraction(0), True
        for term in terms:
            number = _number(term)
            if number is None:
                return None
            total += number
            integral = integral and isinstance(number, int)
        if self.mean:
            return _decimal(total / max(len(terms), 1))
        return Literal(str(total), datatype=NamedNode(f"{XSD}integer")) if integral else _decimal(total)


AGGREGATES = {
    (name, distinct): NamedNode(f"freshkeeper:{name.lower()}{'-distinct' if distinct else ''}")
    for name in ("SUM", "AVG")
    for distinct in (False, True)
}
"""The names of our aggregates: pyoxigraph reads no DISTINCT in a call of a custom one."""
EXACT_AGGREGATES: dict[NamedNode, Callable[[], Any]] = {
    iri: partial(ExactSum, name == "AVG", distinct) for (name, distinct), iri in AGGREGATES.items()
}


def exact_sums(sparql: str, variables: Sequence[str], rows: Sequence[Sequence[object]]) -> str | None:
    """Return the query with exact sums if one of its sums is unbound in a row, else None."""
    if not any(None in row for row in rows):
        return None
    tree = read_sparql(sparql)
    places = []
    for name, made in tree.columns.items():
        if name in variables and any(token.is_word("SUM", "AVG") for token in made):
            places.append(variables.index(name))
    if not any(row[place] is None for row in rows for place in places):
        return None
    items, closing, edits = tree.source.items, tree.source.tokens.closing, []
    for n, token in enumerate(items[:-2]):
        if token.is_word("SUM", "AVG") and items[n + 1].is_mark("("):
            distinct = items[n + 2].is_word("DISTINCT")
            end = items[closing[n + 1]].end
            values = sparql[items[n + 1 + distinct].end : end]
            exact = f"{AGGREGATES[token.text.upper(), distinct]}({values}"
            edits.append(Edit(token.start, end, f"COALESCE({sparql[token.start : end]}, {exact})"))
    return edited_text(sparql, edits)


def _number(term: object) -> int | Fraction | None:
    if not isinstance(term, Literal):
        return None
    try:
        if term.datatype.value in INTEGERS:
            return int(term.value)
        if term.datatype.value == f"{XSD}decimal":
            return Fraction(Decimal(term.value))
    except (ValueError, InvalidOperation):
        pass
    return None


def _decimal(number: Fraction) -> Literal:
    """Return a decimal, cut off behind its last digit."""
    scaled = abs(number.numerator) * 10**DECIMAL_DIGITS // number.denominator
    whole, rest = divmod(scaled, 10**DECIMAL_DIGITS)
    sign = "-" if number < 0 and scaled else ""
    text = f"{sign}{whole}.{rest:0{DECIMAL_DIGITS}}".rstrip("0").rstrip(".")
    return Literal(text, datatype=NamedNode(f"{XSD}decimal"))
