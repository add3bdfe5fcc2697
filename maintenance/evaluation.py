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
    """One edge of the join: an SN in the window with one of its SRs; in case 2 one input of the SN's aggregate."""

    sn: Hashable
    sr: Hashable
    value: object
    weight: int
    """how many window mappings of the SN there are"""
    refreshed: int
    """when the copy used was fetched"""
    fresh: float
    """the probability that the answer (case 2: the whole aggregate) is fresh"""


@dataclass(frozen=True, eq=False)
class Answers:
    """The join of the window with the view, in columns; iterate for rows."""

    sn: Ints
    sr: Ids
    weight: Ints
    refreshed: Ints
    fresh: Floats
    kinds: Kinds
    """copies, and edges where those are refreshed"""
    sn_keys: list[Hashable]
    sr_keys: list[Hashable]
    values: list[object]

    def __len__(self) -> int:
        """How many rows."""
        return self.sn.size

    def __iter__(self) -> Iterator[Answer]:
        """Row by row."""
        numbers = zip(self.weight.tolist(), self.refreshed.tolist(), self.fresh.tolist(), strict=True)
        for sn, sr, value, (weight, refreshed, fresh) in zip(
            self.sn_keys, self.sr_keys, self.values, numbers, strict=True
        ):
            yield Answer(sn, sr, value, weight, refreshed, fresh)


@dataclass(frozen=True)
class Record:
    """One row of the journal's evaluations: what can be said without knowing the truth."""

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
    """One evaluation from end to end."""

    record: Record
    refreshes: Refreshes
    answers: Answers | None
    sns: Ints
    """the slots of the SNs in the window"""
    counts: Ints
    """how many mappings each of them has there"""
    audits: Sequence[Audit] = ()
