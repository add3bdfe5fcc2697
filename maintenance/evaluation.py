"""What one evaluation decided, did and answered; the rows of the journal."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from freshkeeper.maintenance.budget.audit import Audit, Draws
from freshkeeper.maintenance.service.endpoint import Copy
from freshkeeper.policies.arrays import Bools, Floats, Ids, Ints, Kinds
from freshkeeper.policies.base import Budget, Round, Selection


@dataclass(frozen=True, eq=False)
class Decision:
    """The choice of one evaluation, before anything is fetched."""

    k: int
    now: int
    round: Round
    srs: Ints
    """the slots of the round's SRs"""
    sns: Ints
    """the slots of the SNs in the window"""
    counts: Ints
    """how many mappings each of them has there"""
    draws: Draws
    """the answers that are checked"""
    selection: Selection
    """the choice, by slot"""
    budget: Budget
    window_mappings: int
    decide_us: float


@dataclass(frozen=True, eq=False)
class Refreshes:
    """One row per SR that was asked for: what came of it."""

    srs: Ids
    kinds: Kinds
    keys: list[Hashable]
    gain: Floats
    changed: Bools
    errors: list[str | None]
    read_at: Ints
    requests: int
    spent: float
    fetch_ms: float

    audited: Mapping[int, Copy] = field(default_factory=dict)
    """what audits alone asked for, by slot"""

    @classmethod
    def none(cls, spent: float = 0.0) -> "Refreshes":
        """Nothing was fetched."""
        srs, kinds, times = np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int64)
        return cls(srs, kinds, [], np.empty(0), np.empty(0, bool), [], times, 0, spent, 0.0)

    @property
    def wanted(self) -> Iterator[tuple[int, Hashable]]:
        """What each was of: the kind of entry, and its key."""
        return zip(self.kinds.tolist(), self.keys, strict=True)

    @property
    def failed(self) -> int:
        """How many fetches failed."""
        return sum(error is not None for error in self.errors)


class Answer(NamedTuple):
    """A lookup key of the window joined with one cached entry that it needs; of an aggregate, one of its inputs.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
    >>> source = InMemory({"jazz": ["ann"]}, {"ann": 10})
    >>> manager = Manager(WindowSpec(4000, 1000), source, policy("gain"), BudgetRule.of(1), Learned())
    >>> next(iter(manager.evaluate(1000, [(900, "jazz"), (950, "jazz")]).answers))
    Answer(key='jazz', entry='ann', value=10, weight=2, refreshed=1000, freshness=1.0, age=0)
    """

    key: Hashable
    """the lookup key, what the window looked up"""
    entry: Hashable
    """the key of the cached entry"""
    value: object
    """what the entry held when it was fetched"""
    weight: int
    """how many window mappings have this lookup key"""
    refreshed: int
    """when the copy used was fetched"""
    freshness: float
    """the probability that the answer (of an aggregate: all of it) is fresh"""
    age: int
    """how long before the evaluation the copy was fetched"""

    @property
    def sn(self) -> Hashable:
        """The lookup key in the paper's letters, for the journal's columns."""
        return self.key

    @property
    def sr(self) -> Hashable:
        """The cached entry in the paper's letters, for the journal's columns."""
        return self.entry


@dataclass(frozen=True, eq=False)
class Answers:
    """The join of the window with the view, in columns; iterate for rows.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
    >>> source = InMemory({"jazz": ["ann", "bob"]}, {"ann": 10, "bob": 20})
    >>> manager = Manager(WindowSpec(4000, 1000), source, policy("gain"), BudgetRule.of(1), Learned())
    >>> answers = manager.evaluate(1000, [(900, "jazz")]).answers
    >>> sorted(zip(answers.entries, answers.values, answers.age.tolist()))
    [('ann', 10, 0), ('bob', 20, 0)]
    """

    now: int
    """the evaluation's instant"""
    key_slots: Ints
    entry_slots: Ids
    weight: Ints
    refreshed: Ints
    freshness: Floats
    kinds: Kinds
    """copies, and edges where those are refreshed"""
    keys: list[Hashable]
    """the lookup keys"""
    entries: list[Hashable]
    """the keys of the cached entries"""
    values: list[object]

    @property
    def age(self) -> Ints:
        """How long before the evaluation each copy was fetched."""
        return self.now - self.refreshed

    @property
    def sn_keys(self) -> list[Hashable]:
        """The lookup keys in the paper's letters, for the journal's columns."""
        return self.keys

    @property
    def sr_keys(self) -> list[Hashable]:
        """The cached entries in the paper's letters, for the journal's columns."""
        return self.entries

    def __len__(self) -> int:
        """One for each lookup key and cached entry that join."""
        return len(self.keys)

    def __iter__(self) -> Iterator[Answer]:
        """One `Answer` after the other, in the order of the columns."""
        numbers = (column.tolist() for column in (self.weight, self.refreshed, self.freshness, self.age))
        yield from map(Answer, self.keys, self.entries, self.values, *numbers)


@dataclass(frozen=True)
class Record:
    """One row of the journal's evaluations: what can be said without knowing the truth.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
    >>> source = InMemory({"jazz": ["ann", "bob"]}, {"ann": 10, "bob": 20})
    >>> manager = Manager(WindowSpec(4000, 1000), source, policy("gain"), BudgetRule.of(1), Learned())
    >>> record = manager.evaluate(1000, [(900, "jazz")]).record
    >>> record.results, record.spent, record.expected_freshness
    (2.0, 1.0, 1.0)
    """

    k: int
    t_ms: int
    results: float
    expected_fresh: float
    window_mappings: int
    candidates: int
    stale: int
    budget: float
    spent: float
    carried: float
    decide_us: float
    fetch_ms: float
    errors: int

    @property
    def expected_freshness(self) -> float:
        """The share of answers expected to be fresh; 1 where there are none."""
        return self.expected_fresh / self.results if self.results else 1.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One evaluation from end to end.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
    >>> source = InMemory({"jazz": ["ann", "bob"]}, {"ann": 10, "bob": 20})
    >>> manager = Manager(WindowSpec(4000, 1000), source, policy("gain"), BudgetRule.of(1), Learned())
    >>> evaluation = manager.evaluate(1000, [(900, "jazz")])
    >>> evaluation.refreshes.keys, len(evaluation.answers)
    (['jazz'], 2)
    """

    record: Record
    refreshes: Refreshes
    answers: Answers | None
    sns: Ints
    """the slots of the SNs in the window"""
    counts: Ints
    """how many mappings each of them has there"""
    audits: Sequence[Audit] = ()
