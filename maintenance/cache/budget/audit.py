"""Audits: how fresh the answers really are, measured on a sample of them that is fetched again.

A share of the budget pays for it. Answers are drawn uniformly before the policy chooses, so it does not matter what the
policy thinks of them. Their copies are fetched with the policy's choice, compared with what the answers were made of,
and put into the view when the answers are out: what goes out is what was measured.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.stats import wilson
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.budget.ledger import Amount, exact
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.fetching.endpoint import Copy, Price
from freshkeeper.policies.base import Case


@dataclass(frozen=True, eq=False)
class Draw:
    """An answer to check: its lookup key, the slots of its entries, and the keys of those that the view has."""

    sn: Hashable
    srs: tuple[int, ...]
    keys: tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class Draws:
    """The answers to check at one evaluation, the SRs to fetch for it, and what that costs at most."""

    answers: Sequence[Draw] = ()
    srs: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    cost: float = 0.0
    missing: frozenset[int] = frozenset()
    """SRs that the view did not have"""


@dataclass(frozen=True, eq=False)
class Sampled:
    """The lookup keys in the window that an evaluation draws answers from."""

    sns: Ints
    counts: Ints
    degrees: Ints
    missing: Bools
    degree: float
    """how many SRs a miss may be expected to have"""

    def answers(self, case: Case) -> Floats:
        """Return the number of answers of each lookup key."""
        if case is Case.AGGREGATE:
            return np.where(self.degrees > 0, self.counts, 0).astype(np.float64)
        return np.where(self.missing, self.degree, self.degrees) * self.counts.astype(np.float64)


class Audit(NamedTuple):
    """An answer that was checked: what it was made of, nothing being a miss, and whether that was fresh, if known."""

    sn: Hashable
    srs: tuple[Hashable, ...]
    refreshed: tuple[int, ...]
    fresh: bool | None


@dataclass
class Measured:
    """A share of fresh answers with its 95 % interval (Wilson)."""

    fresh: int = 0
    checked: int = 0
    unknown: int = 0
    """drawn, but their copies could not be had, or would have cost more than there was"""

    def add(self, fresh: bool | None) -> None:
        """Count one more answer; None where its freshness is unknown."""
        if fresh is None:
            self.unknown += 1
        else:
            self.checked += 1
            self.fresh += fresh

    @property
    def share(self) -> float | None:
        """None as long as nothing was checked."""
        return self.fresh / self.checked if self.checked else None

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the true share; from 0 to 1 as long as nothing was checked."""
        if not self.checked:
            return 0.0, 1.0
        low, high = wilson(self.fresh / self.checked, self.checked, sqrt)
        return max(0.0, low), min(1.0, high)


@dataclass(eq=False)
class Auditor:
    """Draws answers as its account allows, and counts what came of them."""

    share: Fraction
    case: Case
    rng: np.random.Generator
    account: Fraction = Fraction(0)
    """what audits may spend; below 0 after a dear one, until the share has paid it off"""
    measured: Measured = field(default_factory=Measured)

    @classmethod
    def of(cls, share: Amount, case: Case, rng: np.random.Generator) -> "Auditor":
        """Build an auditor from a share of the budget as people write it."""
        part = exact(share, "the share of the budget that audits have")
        if part >= 1:
            raise ConfigError(f"audits may have a share of the budget below 1, not {share}: nothing would be refreshed")
        return cls(part, case, rng)

    def draw(self, paid: Fraction, available: float, price: Price, sampled: Sampled, view: View) -> Draws:
        """Answers to check, each equally likely, as many as `paid`, the evaluation's pay, leaves in the account."""
        self.account += paid * self.share
        answers = sampled.answers(self.case)
        one = exact(price.of(1))
        within = min(self.account, exact(max(0.0, available)))  # what cannot be paid now would be drawn in vain
        wanted = 0 if within < one else 1 if self.case is Case.AGGREGATE or not one else int(within / one)
        if not wanted or not answers.sum():
            return Draws()
        drawn = self.rng.choice(answers.size, size=wanted, p=answers / answers.sum())
        found = [self._made_of(int(sampled.sns[n]), view) for n in drawn.tolist()]
        missing = frozenset(sr for n, draw in zip(drawn, found, strict=True) if sampled.missing[n] for sr in draw.srs)
        srs = sorted({sr for draw in found for sr in draw.srs} - missing)
        cost = price.of(len(srs))
        if cost > available:
            self.measured.unknown += len(found)
            return Draws()
        return Draws(found, np.array(srs, np.int32), cost, missing)

    def judge(self, draws: Draws, fresh: Mapping[int, bool | None], spent: float, view: View) -> list[Audit]:
        """Count the answers, given of each SR whether the copy that was used is fresh, None where nobody knows."""
        self.account -= exact(spent)
        found = []
        for draw in draws.answers:
            known = [fresh[sr] for sr in draw.srs]
            verdict = False if False in known else None if None in known else True
            self.measured.add(verdict)
            at = (int(view.last_refresh[sr]) for sr in draw.srs if sr not in draws.missing)
            found.append(Audit(draw.sn, draw.keys, tuple(at), verdict))
        return found

    def dump(self) -> dict[str, Any]:
        """Return the account, the random state and what was measured."""
        rng_state = self.rng.bit_generator.state
        return {"account": str(self.account), "rng_state": rng_state, "measured": vars(self.measured)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run."""
        self.account, self.measured = Fraction(state["account"]), Measured(**state["measured"])
        self.rng.bit_generator.state = state["rng_state"]

    def _made_of(self, sn: int, view: View) -> Draw:
        inputs = view.graph.by_sn.of(sn)
        srs = tuple((inputs if self.case is Case.AGGREGATE else self.rng.choice(inputs, size=1)).tolist())
        return Draw(view.sns.keys[sn], srs, tuple(view.srs.keys[sr] for sr in srs if view.kinds[sr] == Kind.COPY))


def still_fresh(copy: Copy, held: object, refreshed: int) -> bool | None:
    """Return whether a copy was fresh, judged by a fetch of its entry: by version if there is one, else by value."""
    if copy.error is not None:
        return None
    return copy.value == held and (copy.modified == UNKNOWN or copy.modified <= refreshed)
