"""Queries that answer many evaluations at once, and hand the results out one by one."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.r2s import Result


@dataclass(eq=False)
class BatchedQuery(ContinuousQuery):
    """What is answered waits in the order of instants."""

    _results: deque[Result] = field(default_factory=deque)

    def due(self) -> int | None:
        """The next instant that has a result, before the watermark."""
        return self._results[0].t if self._results else None

    def called(self) -> int | None:
        """The next one that an element calls for which has come already."""
        return self.due()

    def emptying(self) -> int | None:
        """Time alone brings no result."""
        return None

    def prepare(self, now: int) -> tuple[()]:
        """There is nobody to ask."""
        del now
        return ()

    def answers(self, now: int) -> Sequence[Result]:
        """All results of an instant."""
        found = list[Result]()
        while self._results and self._results[0].t == now:
            found.append(self._results.popleft())
        return found
