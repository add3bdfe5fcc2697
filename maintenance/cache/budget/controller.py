"""A target instead of a budget: a controller that sets what each evaluation is paid, from audited freshness.

    refreshes ─▶ how much faster entries change than the model believes ─┐
    audits ─▶ how far the expectation corrected by that is still off ────┤
    the model's expectation of all answers ──────────────────────────────┴▶ freshness ─▶ pay of the next evaluation

Audits are few: to know a share of 95 % within a point takes 500 of them. So they do not measure freshness alone. Every
refresh tells whether the copy that it replaces had changed, which corrects the model's pace of changes within some
dozens of refreshes; audits, which nothing biases, correct what is left. Staleness is about as one over the pay where it
is small, so the pay is moved by a part of log(staleness / allowed staleness).

- Dead band: an error within half the standard error of the audits is none.
- No windup: what is integrated is the pay itself, between a floor and the ceiling; it does not grow while what is paid
  is not spent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import exp, log, sqrt
from typing import Any

from freshkeeper.maintenance.base.arrays import Bools, Floats
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.ledger import Amount, exact

GAIN = 0.08
"""The part of the logarithm by which the pay is moved at each evaluation."""
SMOOTH = 0.2
"""The weight of an evaluation in the means of what is expected and spent."""
PACE = 0.04
"""By how much one change more than was believed moves the logarithm of the pace."""
WIDEST_PACE = 4.0
"""How far the logarithm of the pace may be off."""
FORGOTTEN = 1 / 200
"""The part of all audits that is forgotten with every evaluation: what was measured at another pay is no news."""
DOUBT = 200
"""So many audits without an error are assumed before there are any: mostly it is within 2 points."""
VARIANCE = 0.1
"""Of one audit's error, as it mostly is."""
LEAST_SHARE = 0.02
"""The pay never falls below this part of the ceiling, or nothing would be audited any more."""
UNSPENT = 0.8
"""Where less than this part of the pay is spent, more pay would change nothing."""
AUDITS = 0.1
"""The share of the budget that audits have where nobody says."""


@dataclass(frozen=True, eq=False)
class Observed:
    """The evidence of one evaluation for a controller."""

    weights: Floats
    """of its answers, those that were missed included"""
    fresh: Floats
    """how likely each is fresh, as the model believes"""
    replaced: Floats
    """how likely the copies were fresh that it replaced, as the model believed"""
    changed: Bools
    """which of those were not"""
    audited: Floats
    """how likely the answers were fresh that it checked, as the model believed"""
    verdicts: Bools
    """which of those were"""
    spent: float


@dataclass(eq=False)
class Controller:
    """Keeps the share of fresh answers at a target, and pays no more for it than the ceiling."""

    target: float
    ceiling: Fraction
    pay: Fraction
    """of the next evaluation, in cost units"""
    pace: float = 0.0
    """the logarithm of how many times as fast as believed entries change"""
    audits: float = 0.0
    """how many are remembered, and the sum of their errors"""
    errors: float = 0.0
    expected: float | None = None
    spent: float | None = None
    at_ceiling: int = 0
    """evaluations that were paid all that may be, and were below the target"""
    evaluations: int = 0

    @classmethod
    def of(cls, target: float, ceiling: Amount) -> "Controller":
        """Build a controller that begins with all that may be paid: first the target, then what it costs."""
        if isinstance(target, bool) or not 0 < target < 1:
            raise ConfigError(f"a target is the share of answers that are to be fresh, as 0.95, not {target!r}")
        most = exact(ceiling, "the most that an evaluation may cost")
        if most == 0:
            raise ConfigError(f"a target of {target:g} needs a budget: it is the most that an evaluation may cost")
        return cls(target, most, most)

    @property
    def freshness(self) -> float | None:
        """The share of fresh answers that is believed now; None before there were any."""
        return None if self.expected is None else min(1.0, max(0.0, self.expected + self.error))

    @property
    def error(self) -> float:
        """The difference between the audited freshness and the corrected expectation."""
        return self.errors / (self.audits + DOUBT)

    def note(self, seen: Observed) -> None:
        """Learn from one evaluation what the next ones may cost."""
        self.evaluations += 1
        self.spent = _mean(self.spent, seen.spent)
        self._learn(seen)
        whole = float(seen.weights.sum())
        if whole > 0:
            self.expected = _mean(self.expected, float(seen.weights @ self._corrected(seen.fresh)) / whole)
            self._move(self.freshness or 0.0, self.spent)

    def _corrected(self, fresh: Floats) -> Floats:
        """Return the probabilities with all rates of change multiplied by the pace."""
        found: Floats = fresh ** exp(self.pace)
        return found

    def _learn(self, seen: Observed) -> None:
        more = float(seen.changed.sum() - (1 - self._corrected(seen.replaced)).sum())
        self.pace = min(WIDEST_PACE, max(-WIDEST_PACE, self.pace + PACE * more))
        off = seen.verdicts - self._corrected(seen.audited)
        self.audits += off.size - FORGOTTEN * self.audits
        self.errors += float(off.sum()) - FORGOTTEN * self.errors

    def _move(self, freshness: float, spent: float) -> None:
        """Towards the pay that keeps the target."""
        allowed = 1 - self.target
        error, band = (1 - freshness) - allowed, min(sqrt(VARIANCE / (self.audits + DOUBT)), allowed / 4) / 2
        error = max(0.0, error - band) if error > 0 else min(0.0, error + band)
        self.at_ceiling += error > 0 and self.pay == self.ceiling
        if error > 0 and spent < UNSPENT * float(self.pay):
            return
        ratio = log(max((allowed + error) / allowed, 1e-3))
        pay = float(self.pay) * exp(GAIN * min(1.0, max(-1.0, ratio)))
        least = self.ceiling * exact(LEAST_SHARE)
        self.pay = min(self.ceiling, max(least, Fraction(round(pay * 1000), 1000)))

    def dump(self) -> dict[str, Any]:
        """Return what the controller has learned, as JSON."""
        return {name: getattr(self, name) for name in STATE_FIELDS} | {"pay": str(self.pay)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run, whatever its ceiling was."""
        for name in STATE_FIELDS:
            setattr(self, name, state[name])
        self.pay = min(self.ceiling, Fraction(state["pay"]))


STATE_FIELDS = ("pace", "audits", "errors", "expected", "spent", "at_ceiling", "evaluations")


def _mean(before: float | None, now: float) -> float:
    return now if before is None else before + SMOOTH * (now - before)
