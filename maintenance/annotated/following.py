"""Evaluates a query again exactly when its answers expire, by the source's clock."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from freshkeeper.maintenance.annotated.annotated_patterns import PredicateSplit
from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery, CurrentAnswers
from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.fetching.fetch_errors import NotSentError
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.maintenance.sources.transport import Bound, Term


@dataclass(frozen=True)
class Pauses:
    """The waits between evaluations, in milliseconds."""

    skew: int = 100
    """after an expiry, until the source has the new value"""
    jitter: int = 0
    """maximum of a random addition, so that clients do not all return at once"""
    gap: int = 1_000
    """first pause while nothing holds; doubles each time"""
    longest: int = 60_000
    """maximum, and the pause if the source does not say until when its data hold"""
    twice: bool = False
    """while nothing holds, wait twice as long as the last answers held, as the client of paper 004 does"""


@dataclass(frozen=True)
class DeliveredAnswers:
    """Current answers; for ISTREAM and DSTREAM only those that came or went."""

    moment: CurrentAnswers
    rows: list[Bound]


@dataclass(eq=False)
class FollowedQuery:
    """A query that is evaluated repeatedly."""

    query: AnnotatedQuery
    operator: Operator = Operator.RSTREAM
    pauses: Pauses = field(default_factory=Pauses)
    random: Random = field(default_factory=Random)
    late: int = 0
    """evaluations whose answers had expired on completion and were not delivered"""
    evaluations: int = 0
    _before: Counter[tuple[tuple[str, Term], ...]] = field(default_factory=Counter)
    report: Callable[[str], None] = lambda _: None
    """called with the reason when an evaluation fails"""
    failed: int = 0
    """evaluations for which the source did not answer or the budget did not suffice"""
    parts: PredicateSplit | None = None
    """the split of the query, once known"""
    _fails: int = 0
    _gaps: int = 0
    _lasted: int = 0

    def run(self, sleep: Callable[[float], bool]) -> Iterator[DeliveredAnswers]:
        """Evaluate, yield the answers, sleep until they expire. `sleep` returns False to stop."""
        while True:
            try:
                moment = self._evaluated()
            except EndpointError as error:
                if not self.evaluations and not isinstance(error, NotSentError):
                    raise  # a source that has never answered is probably misconfigured; others may recover
                self.report(str(error))
                if not sleep(self._back_off() / 1000):
                    return
                continue
            self.evaluations, self._fails = self.evaluations + 1, 0
            if moment.until > self.query.latest():
                yield DeliveredAnswers(moment, self._selected(moment.rows))
            else:
                self.late += 1
            if not self._changing() or not sleep(self._wait(moment) / 1000):
                return

    def _evaluated(self) -> CurrentAnswers:
        """Return one evaluation within its budget; the split is determined again until the style is known."""
        if self.query.ledger is not None:
            self.query.ledger.open()
        before = self.query.requests
        if self.parts is None or (self.parts.changing and not self.parts.styles):
            self.parts = self.query.parts()
        return replace(self.query.evaluate(self.parts), requests=self.query.requests - before)

    def _changing(self) -> bool:
        return self.parts is not None and self.parts.changing

    def _back_off(self) -> int:
        self.failed, self._fails = self.failed + 1, self._fails + 1
        return min(self.pauses.longest, max(1, self.pauses.gap) << min(self._fails - 1, 20))

    def _wait(self, moment: CurrentAnswers) -> int:
        pauses, extra = self.pauses, self.random.randint(0, self.pauses.jitter)
        left = moment.until - self.query.now()
        if moment.gap:
            self._gaps += 1
            if pauses.twice:
                back_off = 2 * self._lasted
            else:
                back_off = pauses.gap << min(self._gaps - 1, 20)
            return max(1, min(left + pauses.skew, back_off, pauses.longest)) + extra
        self._gaps = 0
        if moment.until == DISTANT_FUTURE:
            return pauses.longest + extra
        self._lasted = max(1, moment.until - max(moment.since, moment.at))
        return max(0, left) + pauses.skew + extra

    def _selected(self, rows: list[Bound]) -> list[Bound]:
        """Return the answers that the operator selects."""
        if self.operator is Operator.RSTREAM:
            return rows
        now = Counter(_key(row) for row in rows)
        if self.operator is Operator.ISTREAM:
            changed = now - self._before
        else:
            changed = self._before - now
        self._before = now
        return [dict(key) for key in changed.elements()]


def _key(row: Bound) -> tuple[tuple[str, Term], ...]:
    return tuple(sorted(row.items(), key=lambda item: item[0]))
