"""The answers of one evaluation, and the R2S operators that select which of them are written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeAlias, overload

import numpy as np
from pyoxigraph import Triple

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.engine.evaluator import Term, TermRow
from freshkeeper.maintenance.query.model import Form, Operator

Answer: TypeAlias = TermRow | Triple | bool
"""A solution, a triple, or the truth value of ASK"""


@dataclass(frozen=True)
class Freshness:
    """The freshness of an answer.

    `probability` is the probability that all cached entries it was made of are fresh, `age` the milliseconds since the
    oldest of them was fetched, None if no cached entry was used.
    """

    probability: float = 1.0
    age: int | None = None


CERTAIN = Freshness()


def freshness_key(freshness: Freshness) -> tuple[float, int]:
    """Return the sort key of freshness: higher probability first, then lower age."""
    return freshness.probability, -(freshness.age or 0)


def combine_freshness(parts: Iterable[Freshness]) -> Freshness:
    """Return the freshness of an answer that needs all these parts: the product of probabilities, the oldest age."""
    probability, ages = 1.0, []
    for part in parts:
        probability *= part.probability
        if part.age is not None:
            ages.append(part.age)
    return Freshness(probability, max(ages, default=None))


@dataclass(frozen=True, eq=False)
class AnswerBag:
    """Answers with one freshness each; `freshness` is None if no cached entry was used, so that all are certain."""

    items: Sequence[Answer]
    freshness: Sequence[Freshness] | None = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[Answer, Freshness]]) -> "AnswerBag":
        """Build from pairs of an answer and its freshness."""
        items: list[Answer] = []
        freshness: list[Freshness] = []
        for answer, fresh in pairs:
            items.append(answer)
            freshness.append(fresh)
        return cls(items, freshness)

    def pairs(self) -> Iterator[tuple[Answer, Freshness]]:
        """Yield each answer with its freshness."""
        return zip(self.items, repeat(CERTAIN) if self.freshness is None else self.freshness, strict=False)


@dataclass(frozen=True, eq=False)
class Result:
    """The output of one evaluation, after R2S."""

    t: int
    form: Form
    operator: Operator
    variables: tuple[str, ...]
    answers: Sequence[Answer]
    freshness: Sequence[Freshness] | None = None
    """one per answer; None if no cached entry was used, so that all answers are certain"""
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    query: str = ""
    late: int = 0
    errors: int = 0

    def solutions(self) -> Iterator[tuple[dict[str, Term], Freshness]]:
        """Yield the bindings of every answer of a SELECT, with their freshness."""
        for number, row in enumerate(self.answers):
            if isinstance(row, tuple):
                pairs = zip(self.variables, row, strict=True)
                yield {name: term for name, term in pairs if term is not None}, self.fresh(number)

    def fresh(self, number: int) -> Freshness:
        """Return the freshness of one answer by its position."""
        return CERTAIN if self.freshness is None else self.freshness[number]


@dataclass(eq=False)
class R2SStream:
    """Applies an R2S operator.

    RSTREAM passes all answers, ISTREAM those that the previous evaluation lacks, DSTREAM those that only the previous
    evaluation has.
    """

    operator: Operator
    before: AnswerBag = field(default_factory=lambda: AnswerBag(()))

    def stream(self, now: AnswerBag) -> AnswerBag:
        """Return what the operator selects at this evaluation. Answers are compared as bags; freshness is ignored."""
        if self.operator is Operator.RSTREAM:
            return now
        # Copy: a lazy sequence may refer to a store that has changed by the next evaluation.
        now = AnswerBag(list(now.items), now.freshness)
        before, self.before = self.before, now
        if self.operator is Operator.ISTREAM:
            return _bag_difference(now, before)
        return _bag_difference(before, now)


def _bag_difference(left: AnswerBag, right: AnswerBag) -> AnswerBag:
    """Return the bag difference in the order of `left`; of equal answers the least fresh remain."""
    counts, fresh = Counter(right.items), left.freshness
    places = range(len(left.items))
    kept = []
    for n in places if fresh is None else sorted(places, key=lambda n: freshness_key(fresh[n]), reverse=True):
        answer = left.items[n]
        if counts[answer] > 0:
            counts[answer] -= 1
        else:
            kept.append(n)
    kept.sort()
    items = [left.items[n] for n in kept]
    return AnswerBag(items, None if fresh is None else [fresh[n] for n in kept])


NO_AGE = -1
"""The age of an answer that no cached entry was used for."""


@dataclass(frozen=True, eq=False)
class FreshnessColumns(Sequence[Freshness]):
    """The probability that each answer is fresh, and the age of its oldest cached entry in milliseconds."""

    probabilities: Floats
    ages: Ints

    @classmethod
    def of(cls, each: Sequence[Freshness]) -> "FreshnessColumns":
        """Return the freshness of answers as columns."""
        if isinstance(each, FreshnessColumns):
            return each
        ages = [NO_AGE if one.age is None else one.age for one in each]
        return cls(np.array([one.probability for one in each], np.float64), np.array(ages, np.int64))

    def __len__(self) -> int:
        return self.probabilities.size

    def __iter__(self) -> Iterator[Freshness]:
        ages = (None if age < 0 else age for age in self.ages.tolist())
        return map(Freshness, self.probabilities.tolist(), ages)

    @overload
    def __getitem__(self, number: int) -> Freshness: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Freshness]: ...

    def __getitem__(self, number: int | slice) -> Freshness | Sequence[Freshness]:
        if isinstance(number, slice):
            return FreshnessColumns(self.probabilities[number], self.ages[number])
        age = int(self.ages[number])
        return Freshness(float(self.probabilities[number]), None if age < 0 else age)


CERTAIN_COLUMNS = FreshnessColumns(np.empty(0), np.empty(0, np.int64))
"""The freshness of answers that are all certain: empty columns."""
