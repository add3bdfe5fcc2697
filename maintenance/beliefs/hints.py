"""Hints that rows may have changed, from change feeds and webhooks, as evidence of learned quality."""

from dataclasses import dataclass

MIN_UNANNOUNCED = 0.05
"""However complete the hints were, rows that were not hinted at are checked as if one change in twenty were missed."""


@dataclass(eq=False)
class HintQuality:
    """The learned worth of the hints of one source.

    A hint multiplies the probability that a row is still right by 1 − precision. Silence is evidence, too: where hints
    announce a share of all changes (recall), changes without a hint come at (1 − recall) times the learned rate.
    Both begin cautiously and are learned from the checks that follow. Old checks count for less and less.

    >>> hints = HintQuality(memory=1.0)
    >>> for hinted in [True] * 6 + [False] * 2:  # eight changes were found, six of them announced
    ...     hints.learn(hinted, changed=True, expected_change=0.0)
    >>> hints.precision, hints.recall, hints.unannounced
    (0.875, 0.6, 0.4)
    """

    confirmed: float = 1.0
    """checks after a hint that found a change"""
    refuted: float = 1.0
    announced: float = 0.0
    """changes found that a hint had announced"""
    missed: float = 2.0
    """changes found without a hint"""
    memory: float = 0.99

    @property
    def precision(self) -> float:
        """The probability that a row has changed when a hint says so, as far as hints go."""
        return self.confirmed / (self.confirmed + self.refuted)

    @property
    def recall(self) -> float:
        """The share of changes that a hint announces."""
        return self.announced / (self.announced + self.missed)

    @property
    def unannounced(self) -> float:
        """The share of changes that come without a hint; never 0, so that a feed that has died is noticed."""
        return max(1.0 - self.recall, MIN_UNANNOUNCED)

    def learn(self, hinted: bool, changed: bool, expected_change: float) -> None:
        """Take in one check; `expected_change` is the probability of a change that was believed without the hint."""
        if hinted:
            # A change that would have been found anyway says little about the hint.
            self.confirmed = self.confirmed * self.memory + changed * (1.0 - expected_change)
            self.refuted = self.refuted * self.memory + (not changed)
        if changed:
            self.announced = self.announced * self.memory + hinted
            self.missed = self.missed * self.memory + (not hinted)
