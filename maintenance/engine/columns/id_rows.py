"""Answers as rows of ids, decoded on first access."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeVar, overload

import numpy as np
from pyoxigraph import Triple

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.evaluator import TermRow

T = TypeVar("T", bound=TermRow | Triple)


@dataclass(frozen=True, eq=False)
class IdAnswers(Sequence[T], ABC):
    """Answers as columns of ids, -1 for unbound; keeps its ids while it lives."""

    ids: Ints
    """positions of an answer × answers"""
    dictionary: Dictionary = field(repr=False)
    slice_of: "IdAnswers[T] | None" = field(default=None, repr=False)
    """the answers that these are a slice of, which keep the ids"""

    def __post_init__(self) -> None:
        """Let the dictionary keep the ids, unless the whole that this is a slice of keeps them."""
        if self.slice_of is None:
            self.dictionary.keep(self)

    def part(self, first: int, end: int) -> Self:
        """Return a slice that shares the registration of the whole."""
        # One registration per batch: thousands of results a second would make sweeps slow.
        return type(self)(self.ids[:, first:end], self.dictionary, self)

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of all answers."""
        live[self.ids[self.ids >= 0]] = True

    @abstractmethod
    def _decoded(self) -> list[T]:
        """Return all answers as terms."""

    @cached_property
    def _answers(self) -> list[T]:
        return self._decoded()

    def __len__(self) -> int:
        return int(self.ids.shape[1])

    def __iter__(self) -> Iterator[T]:
        return iter(self._answers)

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[T]: ...

    def __getitem__(self, number: int | slice) -> T | Sequence[T]:
        return self._answers[number]


class IdRows(IdAnswers[TermRow]):
    """Solutions of a SELECT as columns of ids."""

    def _decoded(self) -> list[TermRow]:
        each, places = np.unique(self.ids, return_inverse=True)
        bound = each[each >= 0]
        terms = [*[None] * (each.size - bound.size), *self.dictionary.terms(bound)]
        return [tuple(map(terms.__getitem__, row)) for row in places.reshape(self.ids.shape).T]


def stacked(columns: Sequence[Ints], size: int) -> Ints:
    """Return columns as a matrix of `size` columns, even if there are no rows."""
    return np.stack(columns) if columns else np.empty((0, size), np.int64)


def number_columns(rows: Ints) -> tuple[Ints, int]:
    """Return a number for each column of a matrix, equal for equal columns, and how many numbers there are."""
    found, most = np.zeros(rows.shape[1], np.int64), 1
    for ids in rows:
        each, places = np.unique(ids, return_inverse=True)
        if most == 1:
            found, most = places, each.size
            continue
        # Renumber after every row, so that the product of two numberings cannot overflow.
        _, found = np.unique(found * each.size + places, return_inverse=True)
        most = int(found.max(initial=-1)) + 1
    return found, min(most, rows.shape[1])


def first_occurrences(rows: Ints) -> Ints:
    """Return the positions of the first occurrences of distinct columns, in order."""
    numbers, _ = number_columns(rows)
    _, places = np.unique(numbers, return_index=True)
    return np.sort(places)


def bag_difference(rows: Ints, others: Ints) -> Ints:
    """Return the positions that remain of a bag of columns when another bag is subtracted."""
    numbers, most = number_columns(np.concatenate([rows, others], axis=1))
    mine, theirs = numbers[: rows.shape[1]], numbers[rows.shape[1] :]
    taken = np.bincount(theirs, minlength=most)
    order = np.argsort(mine, kind="stable")
    sizes = np.bincount(mine, minlength=most)
    rank = np.empty(mine.size, np.int64)  # among its equals
    rank[order] = np.arange(mine.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.flatnonzero(rank >= taken[mine])
