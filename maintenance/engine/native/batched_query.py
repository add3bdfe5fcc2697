"""The base of queries that evaluate many instants at once and hand the results out one by one."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.r2s import Result


@dataclass(eq=False)
class BatchedQuery(ContinuousQuery):
    """A query whose results wait in time order until they are due."""

    _results: deque[Result] = field(default_factory=deque)

    def due(self) -> int | None:
        return self._results[0].t if self._results else None

    def next_triggered(self) -> int | None:
        return self.due()

    def next_emptying(self) -> int | None:
        return None

    def prepare(self, now: int) -> tuple[()]:
        """Return no fetch jobs: such queries have no SERVICE."""
        del now
        return ()

    def answers(self, now: int) -> Sequence[Result]:
        found = list[Result]()
        while self._results and self._results[0].t == now:
            found.append(self._results.popleft())
        return found
