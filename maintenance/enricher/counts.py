"""What an enricher has done so far, in numbers."""

from dataclasses import dataclass, replace

from freshkeeper.maintenance.cache.evaluation import Evaluation


@dataclass
class Counts:
    """Since it was made; hits are counted when a round begins."""

    hits: int = 0
    misses: int = 0
    at_once: int = 0
    """misses that were fetched when they were asked for"""
    failed: int = 0
    """keys that could not be fetched, each time"""
    rounds: int = 0
    requests: int = 0
    spent: float = 0.0
    refreshed: int = 0
    changed: int = 0
    """of those that were fetched again, how many had changed"""
    rows: int = 0
    """held now"""
    evicted: int = 0
    expected_freshness: float = 1.0
    """of what was asked for within the horizon, at the last round"""

    decide_ms: float = 0.0
    """how long the last round took to choose"""

    def note(self, evaluation: Evaluation, rows: int, spent: float) -> None:
        """Add up one round: `rows` are those that are held, `spent` is in cost units."""
        refreshes = evaluation.refreshes
        self.rounds += 1
        self.requests += refreshes.requests
        self.refreshed += sum(error is None for error in refreshes.errors)
        self.changed += int(refreshes.changed.sum())
        self.failed += refreshes.failed
        self.rows, self.spent = rows, spent
        self.decide_ms = evaluation.record.decide_us / 1000
        self.expected_freshness = evaluation.record.expected_freshness

    def copy(self) -> "Counts":
        """As they are now."""
        return replace(self)
