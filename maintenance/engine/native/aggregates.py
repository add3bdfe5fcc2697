"""SUM, AVG, MIN and MAX of groups: integers as columns, everything else by the SPARQL library.

The library receives the rows of a group in the order in which the snapshot evaluator has them (row_order.py).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import first_occurrences
from freshkeeper.maintenance.engine.evaluator import Snapshot, Table
from freshkeeper.maintenance.engine.native.plan_head import Aggregate
from freshkeeper.maintenance.query.row_order import order_keys

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
LARGEST = 1 << 31
"""The sum of up to this many integers, each up to this large, fits into 64 bits."""
SMALL = re.compile("-?[0-9]{1,10}")
NOT_INTEGER = np.iinfo(np.int64).min
"""Stands for a value that is not a small integer."""
UNBOUND = -1
ROW, VALUE, NONE = "v:row", "v:value", "v:none"


def number_ids(numbers: Ints, dictionary: Dictionary) -> Ints:
    """Return the ids of integers."""
    each, places = np.unique(numbers, return_inverse=True)
    return dictionary.encode([Literal(n) for n in each.tolist()])[places]


@dataclass(eq=False)
class AggregateEvaluator:
    """Computes aggregates; remembers which ids are small integers, and the quotients of averages."""

    dictionary: Dictionary
    _numbers: dict[int, int] = field(default_factory=dict)
    _quotients: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Forget remembered ids at a sweep, after which an id may stand for another term."""
        self.dictionary.hold(self._forget)

    def rows(self, one: Aggregate, groups: Ints, columns: Mapping[str, Ints], most: int) -> Ints:
        """Return the id of every group's value, -1 if it has none.

        `columns` are all the columns that the library needs to order the rows of a group; `most` is the number of
        groups.
        """
        column = columns[one.variable or ""]
        numbers = self._integers(column)
        plain = np.bincount(groups, minlength=most) > 0
        plain[groups[numbers == NOT_INTEGER]] = False
        found, known = np.full(most, UNBOUND), plain[groups]
        found[plain] = self._of_integers(one, groups[known], numbers[known], most)[plain]
        if not plain.all():
            rest = {name: ids[~known] for name, ids in columns.items()}
            found[~plain] = self._by_library(one, groups[~known], rest, np.flatnonzero(~plain))
        return found

    def _of_integers(self, one: Aggregate, groups: Ints, numbers: Ints, most: int) -> Ints:
        if one.distinct:
            kept = first_occurrences(np.stack([groups, numbers]))
            groups, numbers = groups[kept], numbers[kept]
        order = np.argsort(groups, kind="stable")
        made = np.full(most, UNBOUND)
        if not order.size:
            return made
        sizes = np.bincount(groups, minlength=most)
        there = np.flatnonzero(sizes)
        sizes = sizes[there]
        way = {"MIN": np.minimum, "MAX": np.maximum}.get(one.function, np.add)
        values = way.reduceat(numbers[order], np.cumsum(sizes) - sizes)
        averaged = one.function == "AVG"
        if averaged:
            made[there] = self._averages(values, sizes)
        else:
            made[there] = number_ids(values, self.dictionary)
        return made

    def _averages(self, sums: Ints, counts: Ints) -> Ints:
        """Return the ids of averages, divided by the library as SPARQL divides integers."""
        pairs = list(zip(sums.tolist(), counts.tolist(), strict=True))
        if new := [pair for pair in dict.fromkeys(pairs) if pair not in self._quotients]:
            rows = " ".join(f"({n} {s} {c})" for n, (s, c) in enumerate(new))
            found = Snapshot().find(f"SELECT ?n (?s / ?c AS ?a) {{ VALUES (?n ?s ?c) {{ {rows} }} }}", {})
            assert isinstance(found, Table)
            ids = self.dictionary.encode([row[1] for row in found.rows if row[1] is not None]).tolist()
            self._quotients |= {new[int(_text(row[0]))]: id for row, id in zip(found.rows, ids, strict=True)}
        return np.array([self._quotients[pair] for pair in pairs], np.int64)

    def _by_library(self, one: Aggregate, groups: Ints, columns: Mapping[str, Ints], wanted: Ints) -> Ints:
        """Return the values of some groups, computed by the SPARQL library."""
        found = {}
        made = f"{one.function}({'DISTINCT ' if one.distinct else ''}?{one.variable})"
        values = " ".join(f"OPTIONAL {{ ?:row <{VALUE}{n}> ?{name} }}" for n, name in enumerate(columns))
        ordered = f"SELECT * {{ ?:row <{ROW}> ?:group {values} }} ORDER BY {order_keys(columns)}"
        if groups.size:
            text = f"SELECT ?:group ({made} AS ?:made) {{ {{ {ordered} }} }} GROUP BY ?:group"
            table = Snapshot(self._quads(groups, columns)).find(text.replace("?:", f"?{_unused_prefix(columns)}"), {})
            assert isinstance(table, Table)
            found = {int(_text(row[0])): row[1] for row in table.rows}
        # The value of an aggregate over nothing depends on the function: SUM is 0, MIN is unbound.
        if empty := [group for group in wanted.tolist() if group not in found]:
            table = Snapshot().find(f"SELECT ({one.function}(?value) AS ?made) {{ ?row <{NONE}> ?value }}", {})
            assert isinstance(table, Table)
            found |= dict.fromkeys(empty, table.rows[0][0])
        terms = [found[group] for group in wanted.tolist()]
        return np.array([UNBOUND if term is None else self.dictionary.id(term) for term in terms], np.int64)

    def _quads(self, groups: Ints, columns: Mapping[str, Ints]) -> Iterator[Quad]:
        rows = [NamedNode(f"r:{n}") for n in range(groups.size)]
        for row, group in zip(rows, groups.tolist(), strict=True):
            yield Quad(row, NamedNode(ROW), Literal(group))
        for n, column in enumerate(columns.values()):
            of = NamedNode(f"{VALUE}{n}")
            bound = np.flatnonzero(column >= 0)
            for place, term in zip(bound.tolist(), self.dictionary.terms(column[bound]), strict=True):
                yield Quad(rows[place], of, term)

    def _integers(self, column: Ints) -> Ints:
        """Return the integer that each id stands for, OTHER for all other terms."""
        each, places = np.unique(column, return_inverse=True)
        for id in each[each >= 0].tolist():
            if id not in self._numbers:
                self._numbers[id] = _integer(self.dictionary.term(id))
        found: Ints = np.array([self._numbers.get(id, NOT_INTEGER) for id in each.tolist()], np.int64)[places]
        return found

    def _forget(self, _: Bools) -> None:
        self._numbers.clear()
        self._quotients.clear()


def _integer(term: object) -> int:
    if isinstance(term, Literal) and term.datatype.value == INTEGER and SMALL.fullmatch(term.value):
        number = int(term.value)
        return number if abs(number) <= LARGEST else NOT_INTEGER
    return NOT_INTEGER


def _unused_prefix(names: Iterable[str]) -> str:
    """Return a string that no name begins with."""
    return "_" * (1 + max(map(len, names)))


def _text(term: object) -> str:
    return str(getattr(term, "value", ""))
