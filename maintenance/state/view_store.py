"""The seam between a SERVICE's view and what keeps it over a restart."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.cache.evaluation import Decision, Evaluation


@dataclass(frozen=True)
class Doubt:
    """An evaluation that was about to send when its process was killed: what it had, and what it may have spent."""

    t: int
    available: float
    spent: float


class ViewStore(Protocol):
    """Write-ahead: what will be sent is said before, what came is written before anybody sees it."""

    last: int | None
    """the last evaluation that was written"""
    doubt: Doubt | None

    def intend(self, decision: Decision) -> None:
        """An evaluation is about to send."""

    def commit(self, evaluation: Evaluation, arrived: Ints) -> AbstractContextManager[object]:
        """Write what an evaluation did, to which mappings of some SNs came, and all that is written in the `with`."""


@dataclass(eq=False)
class NoStore:
    """For a run without a state: keeps nothing."""

    last: int | None = None
    doubt: Doubt | None = None

    def intend(self, decision: Decision) -> None:
        """Nobody needs to know."""

    def commit(self, evaluation: Evaluation, arrived: Ints) -> AbstractContextManager[object]:
        """Nothing to write, so nothing to be written together with it."""
        del evaluation, arrived
        return nullcontext()
