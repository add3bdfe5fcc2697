"""Answers as rows of ids, made into terms when somebody looks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeVar, overload

import numpy as np
from pyoxigraph import Triple

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.evaluator import Row
from freshkeeper.maintenance.engine.native.dictionary import Dictionary

T = TypeVar("T", bound=Row | Triple)


@dataclass(frozen=True, eq=False)
class IdAnswers(Sequence[T], ABC):
    """Answers as columns of ids, -1 being unbound; it keeps its ids while it lives."""

    ids: Ints
    """terms of an answer × answers"""
    dictionary: Dictionary = field(repr=False)
    whole: "IdAnswers[T] | None" = field(default=None, repr=False)
    """answers that these are some of, which keep their ids as well"""

    def __post_init__(self) -> None:
        """A sweep must know of it."""
        if self.whole is None:
            self.dictionary.keep(self)

    def part(self, first: int, end: int) -> Self:
        """Some of them, without one more that sweeps must know of."""
        return type(self)(self.ids[:, first:end], self.dictionary, self)

    def mark(self, live: Bools) -> None:
        """The ids of its answers are kept."""
        live[self.ids[self.ids >= 0]] = True

    @abstractmethod
    def _made(self) -> list[T]:
        """All of them, of terms."""

    @cached_property
    def _answers(self) -> list[T]:
        return self._made()

    def __len__(self) -> int:
        """How many there are, none of them decoded."""
        return int(self.ids.shape[1])

    def __iter__(self) -> Iterator[T]:
        return iter(self._answers)

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[T]: ...

    def __getitem__(self, number: int | slice) -> T | Sequence[T]:
        return self._answers[number]


class IdRows(IdAnswers[Row]):
    """Solutions over some variables."""

    def _made(self) -> list[Row]:
        each, places = np.unique(self.ids, return_inverse=True)
        bound = each[each >= 0]
        terms = [*[None] * (each.size - bound.size), *self.dictionary.terms(bound)]
        return [tuple(terms[n] for n in row) for row in places.reshape(self.ids.shape).T]


def stacked(columns: Sequence[Ints], size: int) -> Ints:
    """A matrix of columns, of so many rows also where there are none."""
    return np.stack(columns) if columns else np.empty((0, size), np.int64)


def numbered(rows: Ints) -> tuple[Ints, int]:
    """A number for each column of a matrix, equal ones having the same; and how many there are."""
    found, most = np.zeros(rows.shape[1], np.int64), 1
    for ids in rows:
        each, places = np.unique(ids, return_inverse=True)
        if most == 1:
            found, most = places, each.size
            continue
        _, found = np.unique(found * each.size + places, return_inverse=True)
        most = int(found.max(initial=-1)) + 1
    return found, min(most, rows.shape[1])


def firsts(rows: Ints) -> Ints:
    """The places of the first of each among equal columns."""
    numbers, _ = numbered(rows)
    _, places = np.unique(numbers, return_index=True)
    return np.sort(places)


def without(rows: Ints, others: Ints) -> Ints:
    """The places of what is left of a bag of columns when another one is taken out."""
    numbers, most = numbered(np.concatenate([rows, others], axis=1))
    mine, theirs = numbers[: rows.shape[1]], numbers[rows.shape[1] :]
    taken = np.bincount(theirs, minlength=most)
    order = np.argsort(mine, kind="stable")
    sizes = np.bincount(mine, minlength=most)
    rank = np.empty(mine.size, np.int64)  # among its equals
    rank[order] = np.arange(mine.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.flatnonzero(rank >= taken[mine])
