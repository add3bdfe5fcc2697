"""Turns solutions into answers, in columns: rows of groups, triples of a template."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pyoxigraph import Literal, NamedNode, Triple

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import IdAnswers, first_occurrences, number_columns
from freshkeeper.maintenance.engine.native.aggregates import AggregateEvaluator, number_ids
from freshkeeper.maintenance.engine.native.plan_head import Grouping, template_variable


@dataclass(frozen=True, eq=False)
class GroupRows:
    """The rows that GROUP BY and its aggregates make of a bag of solutions."""

    grouping: Grouping
    projection: tuple[str, ...]
    output_variables: tuple[str, ...]
    dictionary: Dictionary

    def rows(self, values: Ints) -> Ints:
        """Return one row per group; without keys there is one group, even of no solutions."""
        keys = values[[self.projection.index(name) for name in self.grouping.keys]]
        groups, _ = number_columns(keys)
        if not self.grouping.keys:
            groups = np.zeros(values.shape[1], np.int64)
        most = int(groups.max(initial=-1)) + 1 if self.grouping.keys else 1
        found = {name: _first_of(groups, keys[n], most) for n, name in enumerate(self.grouping.keys)}
        ordered = {name: values[self.projection.index(name)] for name in self.grouping.ordered}
        for one in self.grouping.aggregates:
            if one.variable is None:
                column = None
            else:
                column = values[self.projection.index(one.variable)]
            if one.function == "COUNT" or column is None:
                found[one.name] = self.numbers(_counts(groups, column, most, one.distinct))
            else:
                found[one.name] = self.aggregated.rows(one, groups, ordered, most)
        return np.stack([found[name] for name in self.output_variables])

    @cached_property
    def aggregated(self) -> AggregateEvaluator:
        """Computes all aggregates other than COUNT."""
        return AggregateEvaluator(self.dictionary)

    def members(self, values: Ints) -> Ints:
        """Return the position of one solution of each group, -1 for a group without solutions."""
        if not self.grouping.keys:
            return np.array([values.shape[1] - 1])
        groups, _ = number_columns(values[[self.projection.index(name) for name in self.grouping.keys]])
        return _first_of(groups, np.arange(groups.size), int(groups.max(initial=-1)) + 1)

    def numbers(self, counts: Ints) -> Ints:
        """Encode integers."""
        return number_ids(counts, self.dictionary)


def _first_of(groups: Ints, column: Ints, most: int) -> Ints:
    found = np.empty(most, np.int64)
    found[groups] = column
    return found


def _counts(groups: Ints, column: Ints | None, most: int, distinct: bool) -> Ints:
    """Return how many rows, or distinct values, each group has; unbound values do not count."""
    if column is not None:
        bound = column >= 0
        groups, column = groups[bound], column[bound]
        if distinct:
            groups = groups[first_occurrences(np.stack([groups, column]))]
    return np.bincount(groups, minlength=most)


class IdTriples(IdAnswers[Triple]):
    """The triples that a template makes of solutions, as columns of ids."""

    def _decoded(self) -> list[Triple]:
        terms: list[Any] = self.dictionary.terms(self.ids.T.ravel())
        return list(map(Triple, terms[::3], terms[1::3], terms[2::3]))


@dataclass(eq=False)
class TemplateTriples:
    """A CONSTRUCT template: makes each triple of the solutions once."""

    template: Sequence[Triple]
    projection: tuple[str, ...]
    dictionary: Dictionary
    _ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Encode the constants and keep their ids as long as the query lives."""
        named = [term for triple in self.template for term in triple if template_variable(term) is None]
        ids = self.dictionary.encode(named).tolist()
        self._ids = {str(term): id for term, id in zip(named, ids, strict=True)}
        self.dictionary.hold(self._mark)

    def of(self, values: Ints) -> IdTriples:
        """Return the triples of solutions over the projected variables."""
        return IdTriples(self.marked(values, np.zeros(values.shape[1], np.int64))[1:], self.dictionary)

    def marked(self, values: Ints, marks: Ints) -> Ints:
        """Return the mark of each triple and the triple itself, each pair once.

        `marks` has a number for every solution; the result has four rows: mark, subject, predicate, object.
        """
        size = values.shape[1]
        parts = []
        for triple in self.template:
            parts.append(np.stack([marks, *(self._column(term, values, size) for term in triple)]))
        found = np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
        found = found[:, (found >= 0).all(axis=0)]
        found = found[:, first_occurrences(found)]
        return found[:, self._valid(found[1:])]

    def _column(self, term: object, values: Ints, size: int) -> Ints:
        name = template_variable(term)
        if name is None:
            return np.full(size, self._ids[str(term)], np.int64)
        found: Ints = values[self.projection.index(name)]
        return found

    def _valid(self, triples: Ints) -> Bools:
        """Return which columns are valid triples: no literal as subject, only an IRI as predicate."""
        found: Bools = self._satisfies(_is_subject, triples[0]) & self._satisfies(_is_predicate, triples[1])
        return found

    def _satisfies(self, condition: Callable[[object], bool], ids: Ints) -> Bools:
        each, places = np.unique(ids, return_inverse=True)
        return np.array([condition(self.dictionary.term(id)) for id in each.tolist()], bool)[places]

    def _mark(self, live: Bools) -> None:
        live[list(self._ids.values())] = True


def _is_subject(term: object) -> bool:
    return not isinstance(term, Literal | Triple)


def _is_predicate(term: object) -> bool:
    return isinstance(term, NamedNode)
