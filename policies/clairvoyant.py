"""`clairvoyant`: the optimum of the whole trace, which no policy that keeps within the budget can beat (case 1).

It is told the future by `foresee`, computes the schedule that maximises the headline itself (an answer weighs
1/answers of its evaluation, warm-up evaluations weigh nothing), and then plays it back, one evaluation per `select`.
002 has no such bound: it compares policies with each other. Case 2 has a bound but no schedule (`policies/bound`).
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.errors import ConfigError, PolicyError
from freshkeeper.policies.base import BasePolicy, Budget, Case, Round, Scope, Selection
from freshkeeper.policies.bound.edges import EXACT_BELOW, Bound, edge_bound
from freshkeeper.policies.bound.future import Future
from freshkeeper.policies.choose import SLACK


@dataclass
class _Playback:
    """A foreseen schedule, and the next evaluation to be played."""

    future: Future | None = None
    bound: Bound | None = None
    next: int = 0


@dataclass(frozen=True)
class Clairvoyant(BasePolicy):
    """Refreshes what the optimal schedule says, ahead of demand where budget would be idle, never without a gain.

    The SRs of the rounds must be numbered as those of the future. `exact_below` is the number of steps (evaluations at
    which a copy of a staleness period is needed) up to which the schedule is the optimum; above, evaluations are
    pooled to find prices, and the schedule is a good one whose distance from the bound `bound.gap` tells.
    """

    name: ClassVar[str] = "clairvoyant"
    cases: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    is_bound: ClassVar[bool] = True
    scope: ClassVar[Scope] = Scope.ALL
    reach = 0  # the rounds tell it nothing that it does not know
    exact_below: int = EXACT_BELOW
    """steps up to which the schedule is the optimum"""
    _playback: _Playback = field(default_factory=_Playback, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ConfigError unless at least one step is allowed."""
        if self.exact_below < 1:
            raise ConfigError(f"exact_below is {self.exact_below}; right would be a number of steps from 1 up")

    @property
    def bound(self) -> Bound:
        """The bound and the schedule that the last `foresee` found."""
        return self._foreseen()[1]

    def foresee(self, future: Future) -> None:
        """Compute the schedule of a trace and begin at its first evaluation."""
        self._playback.bound = edge_bound(future, self.exact_below)
        self._playback.future, self._playback.next = future, 0

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Select what is due at the evaluation at hand; each call moves on by one."""
        del rng
        future, bound = self._foreseen()
        self._check(future, round)
        if bound.schedule is None:
            raise PolicyError("clairvoyant has a bound but no schedule to play; right would be the bound of case 1")
        due = bound.schedule.due(self._playback.next)
        chosen, gain = bound.schedule.sr[due], bound.schedule.gain[due]
        price = float(round.cost[chosen].sum())
        if price > budget.available + SLACK:
            raise PolicyError(
                f"clairvoyant would spend {price:g} at evaluation {self._playback.next} and has {budget.available:g}; "
                "right would be a future with the pay, the bank and the costs of this run"
            )
        self._playback.next += 1
        return Selection(chosen, gain, "due in the optimal schedule" if bound.exact else "due in a good schedule")

    def _foreseen(self) -> tuple[Future, Bound]:
        if self._playback.future is None or self._playback.bound is None:
            raise PolicyError(
                "clairvoyant has not been told the future; right would be foresee(Future) before the first evaluation, "
                "as a simulation of a trace does (a live run cannot)"
            )
        return self._playback.future, self._playback.bound

    def _check(self, future: Future, round: Round) -> None:
        if self._playback.next >= future.evaluations:
            raise PolicyError(
                f"clairvoyant was told of {future.evaluations} evaluations and is asked for one more; "
                "right would be foresee(Future) anew for each run"
            )
        if round.srs < future.srs:
            raise PolicyError(
                f"clairvoyant was told of {future.srs} entries and the round has {round.srs}; "
                "right would be rounds whose entries are numbered as the future's"
            )
