"""The input of a bound: the whole trace as arrays over K evaluations (k = 0 .. K−1) and all SRs, and the budget."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.policies.base import Graph
from freshkeeper.policies.choose import SLACK

Matrix: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"


@dataclass(frozen=True, eq=False)
class Allowance:
    """Payments of a run: `pay[k]` is paid in at evaluation k, `bank` may be carried on, `initial` is there at first.

    At most carry + pay[k] may be spent at k, and min(bank, what is left) is carried on. That is the same as: what is
    spent from a to t is at most what was paid in from a to t, plus `bank` (or `initial` where a is the first).
    """

    pay: Floats
    bank: float
    initial: float

    def headroom(self, spend: Floats) -> Floats:
        """Return how much more each evaluation alone could spend; negative where `spend` breaks the rules.

        It is the least slack of the intervals [a, t] around k: min over t ≥ k of N_t plus min over a ≤ k of
        (bank or initial) − N_{a−1}, with N the running sum of pay − spend.
        """
        net = np.cumsum(self.pay - spend)
        opening = np.append(self.initial, self.bank - net[:-1])
        return np.minimum.accumulate(net[::-1])[::-1] + np.minimum.accumulate(opening)

    def in_requests(self, price: float) -> "Allowance":
        """Return the same choices counted in requests of one price, without parts of a request that cannot be spent."""
        pay, bank, initial = self.pay / price, self.bank / price, self.initial / price
        if bank < SLACK:
            pay = np.floor(pay + np.append(initial, np.zeros(pay.size - 1)) + SLACK)
            return Allowance(pay, 0.0, 0.0)
        if np.abs(pay - np.rint(pay)).max() < SLACK:
            return Allowance(np.rint(pay), float(np.floor(bank + SLACK)), float(np.floor(initial + SLACK)))
        return Allowance(pay, bank, initial)

    def pooled(self, width: int) -> "Allowance":
        """Return a looser allowance: each `width` evaluations in a row share what is paid in during them."""
        return Allowance(np.add.reduceat(self.pay, np.arange(0, self.pay.size, width)), self.bank, self.initial)


@dataclass(frozen=True, eq=False)
class Future:
    """A trace as a bound needs it.

    `answers[k, j]`: in how many answers of evaluation k SR j takes part (case 1). `changed_at[n]` is the evaluation
    that first sees a change of SR `changed_sr[n]`: older copies are stale there. `weight[k]` is what one answer adds
    to the goal (see `headline_weight`). `fresh_at_start[j]`: the view held a copy of SR j, fresh but for the changes
    that evaluation 0 sees (all true for a warm start, all false for a cold one). `profile[k, i]`, the window mappings
    of SN i, and `graph` are for case 2.
    """

    answers: Matrix
    changed_at: Ints
    changed_sr: Ids | Ints
    weight: Floats
    pay: Floats
    fresh_at_start: Bools
    cost: Floats
    bank: float = 0.0
    initial: float = 0.0
    profile: "Matrix | None" = None
    graph: Graph | None = None

    @classmethod
    def of(cls, profile: "Matrix", graph: Graph, **rest: Any) -> Self:
        """Return a future; the answers of case 1 follow from the profile and the graph: W = C · A."""
        return cls(answers=sparse.csr_array(profile @ graph.matrix), profile=profile, graph=graph, **rest)

    def __post_init__(self) -> None:
        """Refuse what no trace can be."""
        self._check_shapes()
        self._check_values()
        if self.profile is not None and self.graph is not None:
            _require(
                self.profile.shape == (self.evaluations, self.graph.sns) and self.graph.srs == self.srs,
                f"profile has the shape {self.profile.shape}, the graph "
                f"{self.graph.sns} lookup keys × {self.graph.srs} entries",
                f"{self.evaluations} evaluations × lookup keys and lookup keys × {self.srs} entries, as in answers",
            )

    def _check_shapes(self) -> None:
        k, j = self.evaluations, self.srs
        for name, shape, right in (
            ("weight", self.weight.shape, k),
            ("pay", self.pay.shape, k),
            ("cost", self.cost.shape, j),
            ("changed_sr", self.changed_sr.shape, self.changed_at.size),
        ):
            _require(shape == (right,), f"{name} has the shape {shape}", f"({right},)")
        _require(k > 0, "answers has no evaluation", "at least one row")
        found = self.fresh_at_start.shape, str(self.fresh_at_start.dtype)
        _require(found == ((j,), "bool"), f"fresh_at_start is {found[1]} of the shape {found[0]}", f"bool of ({j},)")

    def _check_values(self) -> None:
        amounts = {"answers": self.answers.data, "weight": self.weight, "pay": self.pay, "cost": self.cost}
        amounts |= {"bank": np.array([self.bank]), "initial": np.array([self.initial])}
        for name, array in amounts.items():
            wrong = array[~(np.isfinite(array) & (array >= 0))]
            _require(not wrong.size, f"{name} contains {wrong[:1]}", "finite numbers from 0 up")
        for name, numbers, size in (
            ("changed_at", self.changed_at, self.evaluations),
            ("changed_sr", self.changed_sr, self.srs),
        ):
            strange = numbers[(numbers < 0) | (numbers >= size)]
            _require(not strange.size, f"{name} contains {strange[:1]}", f"numbers from 0 to {size - 1}")

    @property
    def evaluations(self) -> int:
        """K, how many evaluations there are."""
        return int(self.answers.shape[0])

    @property
    def srs(self) -> int:
        """The number of SRs, fresh or not."""
        return int(self.answers.shape[1])

    @cached_property
    def allowance(self) -> Allowance:
        """The budget's rules alone."""
        return Allowance(self.pay, float(self.bank), float(self.initial))


def headline_weight(answers: Floats | Ints, warm_up: int) -> Floats:
    """Return what one answer of each evaluation adds to the headline: 1/(answers · counted evaluations), or 0.

    `answers` is the number per evaluation (edges of window mappings in case 1, window mappings of SNs with inputs in
    case 2); the first `warm_up` evaluations and those without answers are not counted.
    """
    counted = (np.arange(answers.size) >= warm_up) & (answers > 0)
    weight = np.zeros(answers.size)
    weight[counted] = 1 / (answers[counted] * counted.sum())
    return weight


def _require(holds: bool, found: str, right: str) -> None:
    if not holds:
        raise InputError(f"a future that cannot be: {found}; right would be {right}")
