"""A query that is asked again exactly when its answer expires, by the source's clock."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from freshkeeper.maintenance.annotated.annotated_patterns import Parts
from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery, Moment
from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.fetching.fetch_errors import NotSentError
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.maintenance.sources.fragments.annotation_style import END
from freshkeeper.maintenance.sources.transport import Bound, Term


@dataclass(frozen=True)
class Pauses:
    """How long to wait, in milliseconds."""

    skew: int = 100
    """after an expiry, for the source to have its new value"""
    jitter: int = 0
    """more, drawn between none and this, so that clients do not all come at once"""
    gap: int = 1_000
    """while nothing holds: at first, and twice as long each time"""
    longest: int = 60_000
    """between two evaluations, where the source does not say until when its data hold"""
    twice: bool = False
    """while nothing holds: as 004's client does, twice as long as the last answers held"""


@dataclass(frozen=True)
class Delivered:
    """Answers that hold now, those that are new or gone where only these are wanted."""

    moment: Moment
    rows: list[Bound]


@dataclass(eq=False)
class Following:
    """One query, asked again and again."""

    query: AnnotatedQuery
    operator: Operator = Operator.RSTREAM
    pauses: Pauses = field(default_factory=Pauses)
    random: Random = field(default_factory=Random)
    late: int = 0
    """evaluations that had expired when they were there, and were not delivered"""
    evaluations: int = 0
    _before: Counter[tuple[tuple[str, Term], ...]] = field(default_factory=Counter)
    tell: Callable[[str], None] = lambda _: None
    """why an evaluation brought nothing"""
    failed: int = 0
    """evaluations for which the source did not answer, or that could not be paid"""
    parts: Parts | None = None
    """the split, once it is known"""
    _fails: int = 0
    _gaps: int = 0
    _lasted: int = 0

    def run(self, sleep: Callable[[float], bool]) -> Iterator[Delivered]:
        """Evaluate, deliver, sleep until the answers expire; `sleep` says whether to go on."""
        while True:
            try:
                moment = self._evaluated()
            except EndpointError as error:
                if not self.evaluations and not isinstance(error, NotSentError):
                    raise  # what never worked is a mistake, what worked may work again
                self.tell(str(error))
                if not sleep(self._back_off() / 1000):
                    return
                continue
            self.evaluations, self._fails = self.evaluations + 1, 0
            if moment.until > self.query.latest():
                yield Delivered(moment, self._shown(moment.rows))
            else:
                self.late += 1
            if not self._changing() or not sleep(self._wait(moment) / 1000):
                return

    def _evaluated(self) -> Moment:
        """One evaluation, within what it is paid; who did not say yet until when things hold is asked again."""
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

    def _wait(self, moment: Moment) -> int:
        """Milliseconds until the next evaluation."""
        pauses, extra = self.pauses, self.random.randint(0, self.pauses.jitter)
        left = moment.until - self.query.now()
        if moment.gap:
            self._gaps += 1
            back_off = 2 * self._lasted if pauses.twice else pauses.gap << min(self._gaps - 1, 20)
            return max(1, min(left + pauses.skew, back_off, pauses.longest)) + extra
        self._gaps = 0
        if moment.until == END:
            return pauses.longest + extra
        self._lasted = max(1, moment.until - max(moment.since, moment.at))
        return max(0, left) + pauses.skew + extra

    def _shown(self, rows: list[Bound]) -> list[Bound]:
        """By the operator: all, what is new, or what is gone."""
        if self.operator is Operator.RSTREAM:
            return rows
        now = Counter(_key(row) for row in rows)
        changed = now - self._before if self.operator is Operator.ISTREAM else self._before - now
        self._before = now
        return [dict(key) for key in changed.elements()]


def _key(row: Bound) -> tuple[tuple[str, Term], ...]:
    return tuple(sorted(row.items(), key=lambda item: item[0]))
