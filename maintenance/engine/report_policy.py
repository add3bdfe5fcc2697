"""ET: at which instants a query is evaluated, and whether it then reports.

The windows and the period give the instants; the report policies say which of them count. Policies are asked of one
window at a time: a query reports where one of its windows closed, changed, is not empty, as far as the query asks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from freshkeeper.maintenance.engine.held_triples import Move
from freshkeeper.maintenance.engine.window_content import NEVER, Content
from freshkeeper.maintenance.query.model import Query, Report


@dataclass(eq=False)
class Clock:
    """The instants of one query, in order."""

    query: Query
    contents: Sequence[Content]
    start: int
    """the run's t0, which the period counts from"""
    begun: bool = False
    _period: int = NEVER

    def begin(self, first: int) -> None:
        """The first element of the query's streams has come."""
        self.begun = True
        for content in self.contents:
            content.begin(first)
        if self._every is not None:
            k = max(1, -(-(first - self.start) // self._every))
            self._period = self.start + k * self._every

    def next(self) -> int | None:
        """The next instant, as far as it is known."""
        if not self.begun:
            return None
        if self._every is not None:
            return self._period
        triggers = [content.trigger() for content in self._triggering]
        return min((t for t in triggers if t is not None), default=None)

    def called(self) -> int | None:
        """The next instant that an element calls for which has come already."""
        waiting = [c for c in self._triggering if c.window.step is None] if self.begun and self._every is None else []
        return min((t for t in (content.trigger() for content in waiting) if t is not None), default=None)

    def passed(self, now: int) -> None:
        """The evaluation at `now` is done."""
        if self._every is not None:
            self._period = now + self._every

    def reports(self, moves: Iterable[tuple[Content, Move]]) -> bool:
        """Whether the policies hold after these moves."""
        asked = set(self.query.times.report) - {Report.PERIODIC}
        return not asked or any(all(_holds(policy, *pair) for policy in asked) for pair in moves)

    @property
    def _every(self) -> int | None:
        return self.query.times.every if Report.PERIODIC in self.query.times.report else None

    @property
    def _triggering(self) -> Sequence[Content]:
        """Only windows with a step close."""
        if Report.ON_WINDOW_CLOSE not in self.query.times.report:
            return self.contents
        return [content for content in self.contents if content.window.step is not None]


def _holds(policy: Report, content: Content, move: Move) -> bool:
    if policy is Report.ON_WINDOW_CLOSE:
        return move.closed
    if policy is Report.ON_CONTENT_CHANGE:
        return move.changed
    return len(content.held) > 0
