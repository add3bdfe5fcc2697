"""The seam between a view and what keeps it over a restart."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.cache.evaluation import Decision, Evaluation


@dataclass(frozen=True)
class Doubt:
    """An evaluation that was about to send when its process ended: what it had, and what it may have spent."""

    t: int
    available: float
    spent: float


class ViewStore(Protocol):
    """Writes ahead: requests are noted before they are sent, responses are written before they are used."""

    last: int | None
    """the last evaluation that was written"""
    doubt: Doubt | None

    def intend(self, decision: Decision) -> None:
        """Note that the requests of an evaluation are about to be sent."""

    def commit(self, evaluation: Evaluation, arrived: Ints) -> AbstractContextManager[object]:
        """Write an evaluation, for which mappings of some SNs arrived, together with what the block writes."""


@dataclass(eq=False)
class NoStore:
    """The store of a run without a state: keeps nothing."""

    last: int | None = None
    doubt: Doubt | None = None

    def intend(self, decision: Decision) -> None:
        return

    def commit(self, evaluation: Evaluation, arrived: Ints) -> AbstractContextManager[object]:
        return nullcontext()
