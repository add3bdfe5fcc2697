"""The evaluation times (ET) of a query, and its report policies.

Windows and COMPUTED EVERY determine the times of evaluations; report policies decide which evaluations report. A query
reports if one of its windows satisfies all of its policies: it closed, it changed, or it is not empty.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.held_triples import WindowMove
from freshkeeper.maintenance.engine.window_content import WindowState
from freshkeeper.maintenance.query.model import Query, Report


@dataclass(eq=False)
class EvaluationClock:
    """The evaluation times of one query, in order."""

    query: Query
    contents: Sequence[WindowState]
    start: int
    """t0 of the run, from which COMPUTED EVERY counts, in milliseconds"""
    begun: bool = False
    _period: int = DISTANT_PAST

    def begin(self, first: int) -> None:
        """Start with the time of the first element of the query's streams."""
        self.begun = True
        for content in self.contents:
            content.begin(first)
        if self._every is not None:
            # The smallest k ≥ 1 with start + k · every ≥ first; -(-a // b) rounds up.
            k = max(1, -(-(first - self.start) // self._every))
            self._period = self.start + k * self._every

    def next(self) -> int | None:
        """Return the next evaluation time, or None if it is not known yet."""
        if not self.begun:
            return None
        if self._every is not None:
            return self._period
        triggers = [content.trigger() for content in self._triggering]
        return min((t for t in triggers if t is not None), default=None)

    def next_triggered(self) -> int | None:
        """Return the next evaluation time that an element which has arrived calls for, or None."""
        if self.begun and self._every is None:
            waiting = [c for c in self._triggering if c.window.step is None]
        else:
            waiting = []
        return min((t for t in (content.trigger() for content in waiting) if t is not None), default=None)

    def advance_past(self, now: int) -> None:
        """Record that the evaluation at `now` is done."""
        if self._every is not None:
            self._period = now + self._every

    def reports(self, moves: Iterable[tuple[WindowState, WindowMove]]) -> bool:
        """Return True if the report policies hold for these moves."""
        policies = set(self.query.times.report) - {Report.PERIODIC}
        if not policies:
            return True
        return any(_all_hold(policies, content, move) for content, move in moves)

    @property
    def _every(self) -> int | None:
        if Report.PERIODIC in self.query.times.report:
            return self.query.times.every
        return None

    @property
    def _triggering(self) -> Sequence[WindowState]:
        """The windows that cause evaluations: with ON_WINDOW_CLOSE only those with a step, as others never close."""
        if Report.ON_WINDOW_CLOSE not in self.query.times.report:
            return self.contents
        return [content for content in self.contents if content.window.step is not None]


def _all_hold(policies: Iterable[Report], content: WindowState, move: WindowMove) -> bool:
    return all(_holds(policy, content, move) for policy in policies)


def _holds(policy: Report, content: WindowState, move: WindowMove) -> bool:
    if policy is Report.ON_WINDOW_CLOSE:
        return move.closed
    if policy is Report.ON_CONTENT_CHANGE:
        return move.changed
    return len(content.store) > 0
