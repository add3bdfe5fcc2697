"""What one evaluation answers, and R2S: which of its answers go to the output."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeAlias

from pyoxigraph import Triple

from freshkeeper.maintenance.engine.evaluator import Row, Term
from freshkeeper.maintenance.query.model import Form, Operator

Answer: TypeAlias = Row | Triple | bool
"""A solution, a triple, or yes and no"""


@dataclass(frozen=True)
class Freshness:
    """How sure an answer is: the probability that all copies it was made of are fresh, and the age of the oldest."""

    probability: float = 1.0
    age: int | None = None


CERTAIN = Freshness()


def sureness(freshness: Freshness) -> tuple[float, int]:
    """What makes one answer surer than another: its probability, then its age."""
    return freshness.probability, -(freshness.age or 0)


def combine(parts: Iterable[Freshness]) -> Freshness:
    """All copies must be fresh; the oldest gives the age."""
    probability, ages = 1.0, []
    for part in parts:
        probability *= part.probability
        if part.age is not None:
            ages.append(part.age)
    return Freshness(probability, max(ages, default=None))


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers with their freshness, one for each; None where no copy was used, so that all are certain."""

    items: Sequence[Answer]
    freshness: Sequence[Freshness] | None = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[Answer, Freshness]]) -> "Answers":
        """From answers that each have their freshness."""
        both = list(pairs)
        return cls([answer for answer, _ in both], [freshness for _, freshness in both])

    def pairs(self) -> Iterator[tuple[Answer, Freshness]]:
        """Each answer with its freshness."""
        return zip(self.items, repeat(CERTAIN) if self.freshness is None else self.freshness, strict=False)


@dataclass(frozen=True, eq=False)
class Result:
    """What one evaluation gives out, after the R2S operator."""

    t: int
    form: Form
    operator: Operator
    variables: tuple[str, ...]
    answers: Sequence[Answer]
    freshness: Sequence[Freshness] | None = None
    """one per answer; None where no copy was used, so that all are certain"""
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    query: str = ""
    late: int = 0
    errors: int = 0

    def solutions(self) -> Iterator[tuple[dict[str, Term], Freshness]]:
        """The answers of SELECT: what each binds, and how sure it is."""
        for number, row in enumerate(self.answers):
            if isinstance(row, tuple):
                pairs = zip(self.variables, row, strict=True)
                yield {name: term for name, term in pairs if term is not None}, self.fresh(number)

    def fresh(self, number: int) -> Freshness:
        """The freshness of one answer."""
        return CERTAIN if self.freshness is None else self.freshness[number]


@dataclass(eq=False)
class Streamer:
    """RSTREAM gives all answers, ISTREAM those that the evaluation before did not have, DSTREAM those it alone had."""

    operator: Operator
    before: Answers = field(default_factory=lambda: Answers(()))

    def stream(self, now: Answers) -> Answers:
        """The output of one evaluation; answers are compared as bags, their freshness does not matter."""
        if self.operator is Operator.RSTREAM:
            return now
        now = Answers(list(now.items), now.freshness)  # what they are made from may be others' by the next time
        before, self.before = self.before, now
        return _minus(now, before) if self.operator is Operator.ISTREAM else _minus(before, now)


def _minus(left: Answers, right: Answers) -> Answers:
    """The difference of bags, in the order of `left`; of equal answers those are left that are the least sure."""
    counts, fresh = Counter(right.items), left.freshness
    places = range(len(left.items))
    kept = []
    for n in places if fresh is None else sorted(places, key=lambda n: sureness(fresh[n]), reverse=True):
        answer = left.items[n]
        if counts[answer] > 0:
            counts[answer] -= 1
        else:
            kept.append(n)
    kept.sort()
    return Answers([left.items[n] for n in kept], None if fresh is None else [fresh[n] for n in kept])
