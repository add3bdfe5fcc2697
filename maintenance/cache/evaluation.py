"""The records of one evaluation: decision, refreshes, answers, and its row of the journal."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, Kinds
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.audit import Audit, Draws
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.fetching.endpoint import Copy, Late
from freshkeeper.policies.base import NEVER, Budget, Round, Selection


@dataclass(frozen=True, eq=False)
class PreparedRound:
    """The round of an evaluation before its budget is opened."""

    k: int
    now: int
    round: Round
    srs: Ints
    """the slots of the round's SRs"""
    sns: Ints
    """the slots of the SNs in the window"""
    counts: Ints
    """how many mappings each of them has there"""
    prepare_us: float


@dataclass(frozen=True, eq=False)
class Decision(PreparedRound):
    """The choice of one evaluation, before anything is fetched."""

    draws: Draws
    """the answers that are checked"""
    selection: Selection
    """the choice, by slot"""
    budget: Budget
    window_mappings: int
    decide_us: float


@dataclass(frozen=True, eq=False)
class Refreshes:
    """A row for each entry that was fetched, with its outcome by the deadline; late responses have their own rows."""

    srs: Ids
    kinds: Kinds
    keys: list[Hashable]
    gain: Floats
    changed: Bools
    errors: list[str | None]
    read_at: Ints
    sent: Floats
    """the requests that went for it, of one with several keys its share; what came late was counted when it was sent"""
    k: Ints
    """the evaluation that asked for it, and its instant"""
    t_ms: Ints
    late: Bools
    requests: int
    spent: float
    fetch_ms: float

    audited: Mapping[int, Copy] = field(default_factory=dict)
    """what audits alone asked for, by slot"""

    @classmethod
    def none(cls, spent: float = 0.0) -> "Refreshes":
        """Return the refreshes of an evaluation that fetched nothing, with what it may have spent on trying."""
        return replace(cls.of_late([], [], [], []), spent=spent)

    @classmethod
    def of_late(cls, late: Sequence[Late], srs: Sequence[int], changed: Sequence[bool], k: Sequence[int]) -> Self:
        """Return rows for responses after the deadline; each has the value at the instant of its request."""
        rows = len(late)
        read_at = np.array([one.read_at for one in late], np.int64)
        kinds = np.array([one.kind for one in late], np.int8)
        keys = [one.key for one in late]
        errors = [one.outcome.error for one in late]
        return cls(
            srs=np.array(srs, np.int32),
            kinds=kinds,
            keys=keys,
            gain=np.zeros(rows),
            changed=np.array(changed, bool),
            errors=errors,
            read_at=read_at,
            sent=np.zeros(rows),  # their requests were counted when they were sent
            k=np.array(k, np.int64),
            t_ms=read_at,
            late=np.ones(rows, bool),
            requests=0,
            spent=0.0,
            fetch_ms=0.0,
        )

    def with_late(self, late: "Refreshes") -> "Refreshes":
        """Append the rows of late responses to earlier evaluations."""
        if not late.keys:
            return self
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(late, name)])
            for name in ("srs", "kinds", "gain", "changed", "read_at", "sent", "k", "t_ms", "late")
        }
        return replace(self, keys=self.keys + late.keys, errors=self.errors + late.errors, **joined)

    @property
    def entries(self) -> Iterator[tuple[int, Hashable]]:
        """The kind and the key of each entry."""
        return zip(self.kinds.tolist(), self.keys, strict=True)

    @property
    def failed(self) -> int:
        """The number of fetches that failed or had no response by the deadline."""
        return sum(error is not None and not late for error, late in zip(self.errors, self.late.tolist(), strict=True))


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


@dataclass(frozen=True, eq=False)
class Join:
    """The window joined with the view, in slots: a row per SN in the window and SR that it needs, SN after SN.

    The rows are made when somebody asks, which has to be before the next evaluation: edges come and go.
    """

    now: int
    graph: MaintenanceGraph
    sns: Ints
    """the SNs in the window"""
    counts: Ints
    """how many window mappings each of them has"""
    copies: Floats
    """by SR: the probability that its copy is fresh; 0 where there is none yet"""
    all_inputs_fresh: bool
    """whether an answer is fresh when all copies of its lookup key are"""
    refreshed: Ints
    """by SR: when the copy was fetched that answers are made of"""
    audited: dict[int, object] = field(default_factory=dict)
    """by SR: the value that answers are made of, where an audit has put another one into the view since"""

    @cached_property
    def rows(self) -> tuple[Ints, Ids]:
        """The SN and the SR of each row."""
        return self.graph.edges_of(self.sns)

    @cached_property
    def degrees(self) -> Ints:
        """The number of rows of each lookup key."""
        return self.graph.degrees(self.sns)

    @property
    def weight(self) -> Ints:
        """The number of window mappings of the lookup key of each row."""
        return np.repeat(self.counts, self.degrees)

    @cached_property
    def fresh(self) -> Floats:
        """The probability that the answer of each row is fresh."""
        return np.repeat(self.fresh_by_sn, self.degrees) if self.all_inputs_fresh else self.copies[self.rows[1]]

    def values(self, srs: list[int], held: Sequence[object]) -> list[object]:
        """Return the values that answers are made of; `held` are the present values of the view."""
        if not self.audited:
            return [held[sr] for sr in srs]
        return [self.audited[sr] if sr in self.audited else held[sr] for sr in srs]

    @cached_property
    def fresh_by_sn(self) -> Floats:
        """The probability, by lookup key, that all its copies are fresh; 0 where it needs none."""
        connected, found = self.degrees > 0, np.zeros(self.sns.size)
        starts = (np.cumsum(self.degrees) - self.degrees)[connected]
        if starts.size:
            found[connected] = np.multiply.reduceat(self.copies[self.rows[1]], starts)
        return found


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

    @classmethod
    def of(cls, join: Join, view: View) -> Self:
        """Build the answers of a join."""
        sn, sr = join.rows
        held = join.refreshed[sr] != NEVER
        sn, sr = sn[held], sr[held]
        sns, srs = view.sns.keys, view.srs.keys
        numbers = sr.tolist()
        keys = [sns[n] for n in sn.tolist()]
        entries = [srs[n] for n in numbers]
        return cls(
            now=join.now,
            key_slots=sn,
            entry_slots=sr,
            weight=join.weight[held],
            refreshed=join.refreshed[sr],
            freshness=join.fresh[held],
            kinds=view.kinds[sr],
            keys=keys,
            entries=entries,
            values=join.values(numbers, view.values),
        )

    @property
    def age(self) -> Ints:
        """The time between the fetch of each copy and the evaluation."""
        return self.now - self.refreshed

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Answer]:
        """Yield an `Answer` for each row of the columns."""
        numbers = (column.tolist() for column in (self.weight, self.refreshed, self.freshness, self.age))
        yield from map(Answer, self.keys, self.entries, self.values, *numbers)


@dataclass(frozen=True)
class Record:
    """The row of an evaluation in the journal, without anything that only the truth could tell.

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
    requests: int
    missed: int = 0
    """window mappings that had no answer, or lacked a part of it, because nothing was fetched for them yet"""
    marked: int = 0
    """those that were answered all the same, without what the source would say"""

    @property
    def expected_freshness(self) -> float:
        """The share of answers expected to be fresh; 1 where there are none."""
        return self.expected_fresh / self.results if self.results else 1.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The outcome of one evaluation from end to end.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
    >>> source = InMemory({"jazz": ["ann", "bob"]}, {"ann": 10, "bob": 20})
    >>> manager = Manager(WindowSpec(4000, 1000), source, policy("gain"), BudgetRule.of(1), Learned())
    >>> evaluation = manager.evaluate(1000, [(900, "jazz")])
    >>> evaluation.refreshes.keys, len(evaluation.answers)
    (['jazz'], 2)
    """

    record: Record
    refreshes: Refreshes
    carried_answers: Answers | None
    """None where the manager tells them when somebody asks (`answers_of`)"""
    join: Join
    sns: Ints
    """the slots of the SNs in the window"""
    counts: Ints
    """how many mappings each of them has there"""
    audits: Sequence[Audit] = ()
    policy_metrics: Mapping[str, float] = field(default_factory=dict)
    """the numbers that the policy tells of itself"""

    @property
    def answers(self) -> Answers:
        """The answers, if the manager lets evaluations carry them, as it does by default."""
        if self.carried_answers is None:
            raise ConfigError("a Manager with answers=False makes evaluations without them: ask its answers_of(...)")
        return self.carried_answers

    def with_marks(self, marked: int) -> "Evaluation":
        """Count `marked` window mappings of keys that were never fetched as answered all the same."""
        return replace(self, record=replace(self.record, missed=self.record.missed - marked, marked=marked))
