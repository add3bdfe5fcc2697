"""SUM, AVG, MIN and MAX of groups: of integers as columns, of all else as the SPARQL library has it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.id_rows import firsts
from freshkeeper.maintenance.native.plan_head import Aggregate
from freshkeeper.maintenance.rsp.evaluator import Snapshot, Table
from freshkeeper.policies.arrays import Bools, Ints

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
LARGEST = 1 << 31
"""Integers up to this, and so many of them, have a sum that fits."""
SMALL = re.compile("-?[0-9]{1,10}")
OTHER = np.iinfo(np.int64).min
UNBOUND = -1
ROW, GROUP, VALUE, NONE = "v:row", "v:group", "v:value", "v:none"


def number_ids(numbers: Ints, dictionary: Dictionary) -> Ints:
    """The ids of whole numbers."""
    each, places = np.unique(numbers, return_inverse=True)
    return dictionary.encode([Literal(n) for n in each.tolist()])[places]


@dataclass(eq=False)
class Aggregated:
    """Which ids are small integers is found out once for each."""

    dictionary: Dictionary
    _numbers: dict[int, int] = field(default_factory=dict)
    _quotients: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A sweep may give an id to another term."""
        self.dictionary.hold(self._forget)

    def rows(self, one: Aggregate, groups: Ints, column: Ints, most: int) -> Ints:
        """The id of every group's value, -1 where there is none."""
        if one.distinct:
            kept = firsts(np.stack([groups, column]))
            groups, column = groups[kept], column[kept]
        numbers = self._integers(column)
        sizes = np.bincount(groups, minlength=most)
        plain = sizes > 0
        plain[groups[numbers == OTHER]] = False
        found = np.full(most, UNBOUND)
        known = plain[groups]
        found[plain] = self._of_integers(one.function, groups[known], numbers[known], sizes, plain)
        if not plain.all():
            found[~plain] = self._asked(one.function, groups[~known], column[~known], np.flatnonzero(~plain))
        return found

    def _of_integers(self, function: str, groups: Ints, numbers: Ints, sizes: Ints, plain: Bools) -> Ints:
        order = np.argsort(groups, kind="stable")
        if not order.size:
            return np.empty(0, np.int64)
        starts = np.cumsum(sizes[plain]) - sizes[plain]
        way = {"MIN": np.minimum, "MAX": np.maximum}.get(function, np.add)
        values = way.reduceat(numbers[order], starts)
        if function == "AVG":
            return self._averages(values, sizes[plain])
        return number_ids(values, self.dictionary)

    def _averages(self, sums: Ints, counts: Ints) -> Ints:
        """What SPARQL makes of a division of integers."""
        pairs = list(zip(sums.tolist(), counts.tolist(), strict=True))
        if new := [pair for pair in dict.fromkeys(pairs) if pair not in self._quotients]:
            rows = " ".join(f"({n} {s} {c})" for n, (s, c) in enumerate(new))
            found = Snapshot().find(f"SELECT ?n (?s / ?c AS ?a) {{ VALUES (?n ?s ?c) {{ {rows} }} }}", {})
            assert isinstance(found, Table)
            ids = self.dictionary.encode([row[1] for row in found.rows if row[1] is not None]).tolist()
            self._quotients |= {new[int(_text(row[0]))]: id for row, id in zip(found.rows, ids, strict=True)}
        return np.array([self._quotients[pair] for pair in pairs], np.int64)

    def _asked(self, function: str, groups: Ints, column: Ints, wanted: Ints) -> Ints:
        """The values of some groups by the SPARQL library."""
        found = {}
        body = f"?row <{ROW}> ?group OPTIONAL {{ ?row <{VALUE}> ?value }}"
        text = f"SELECT ?group ({function}(?value) AS ?made) {{ {body} }} GROUP BY ?group"
        if groups.size:
            table = Snapshot(self._quads(groups, column)).find(text, {})
            assert isinstance(table, Table)
            found = {int(_text(row[0])): row[1] for row in table.rows}
        if empty := [group for group in wanted.tolist() if group not in found]:
            table = Snapshot().find(f"SELECT ({function}(?value) AS ?made) {{ ?row <{NONE}> ?value }}", {})
            assert isinstance(table, Table)
            found |= dict.fromkeys(empty, table.rows[0][0])
        made = [found[group] for group in wanted.tolist()]
        return np.array([UNBOUND if term is None else self.dictionary.id(term) for term in made], np.int64)

    def _quads(self, groups: Ints, column: Ints) -> Iterator[Quad]:
        bound = column[column >= 0]
        terms = dict(zip(bound.tolist(), self.dictionary.terms(bound), strict=True))
        order = np.lexsort((column, groups))  # one bag has one sum, also of doubles
        for n, (group, id) in enumerate(zip(groups[order].tolist(), column[order].tolist(), strict=True)):
            row = NamedNode(f"r:{n}")
            yield Quad(row, NamedNode(ROW), Literal(group))
            if id >= 0:
                yield Quad(row, NamedNode(VALUE), terms[id])

    def _integers(self, column: Ints) -> Ints:
        """What the ids stand for, where it is a small integer."""
        each, places = np.unique(column, return_inverse=True)
        for id in each[each >= 0].tolist():
            if id not in self._numbers:
                self._numbers[id] = _integer(self.dictionary.term(id))
        found: Ints = np.array([self._numbers.get(id, OTHER) for id in each.tolist()], np.int64)[places]
        return found

    def _forget(self, live: Bools) -> None:
        del live
        self._numbers.clear()
        self._quotients.clear()


def _integer(term: object) -> int:
    if isinstance(term, Literal) and term.datatype.value == INTEGER and SMALL.fullmatch(term.value):
        number = int(term.value)
        return number if abs(number) <= LARGEST else OTHER
    return OTHER


def _text(term: object) -> str:
    return str(getattr(term, "value", ""))
