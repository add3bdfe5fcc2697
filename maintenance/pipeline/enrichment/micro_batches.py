"""One micro-batch after the other, each of them once: the order of steps that makes a kill harmless.

    read ─▶ for every evaluation that is due: intend ─▶ fetch ─▶ record ─▶ then: answer ─▶ write ─▶ commit

Killed anywhere, the query gets the same micro-batch again and starts from the state before it. All up to `commit` is a
function of that state, of the elements and of what the log has of the source, so it comes out the same. That is why a
micro-batch need not end with a snapshot: its elements are put into its log, and the state is the last snapshot with
the micro-batches since made again, without asking or writing anything. So what is written grows with what came.

The watermark is the latest event time minus the allowed delay, over all micro-batches, the present one included. An
evaluation is due when the watermark has passed its instant: at the instant itself one more element may have that time.
Spark's own watermark is not used: it moves one micro-batch later, and `foreachBatch` is not told of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

import pyarrow as pa

from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Record, Refreshes
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Arrivals, Tabular
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.policies.errors import ConfigError, InputError

MOST_DUE = 1_000_000
"""Evaluations that one micro-batch may make due; more is a mistake in the unit of time."""


@dataclass(eq=False)
class Due:
    """Hands out evaluations in order, each with the elements that first take part in it."""

    window: WindowSpec
    delay: int
    latest: int | None = None
    k: int | None = None
    """the last evaluation that was handed out"""
    elements: int = 0
    late: int = 0
    """elements that came when the first evaluation of theirs was over; they take part in what is still to come"""
    _waiting: dict[int, list[Arrivals]] = field(default_factory=dict)

    @property
    def watermark(self) -> int | None:
        """No evaluation up to this instant waits for elements any more."""
        return None if self.latest is None else self.latest - self.delay

    def progress(self) -> dict[str, int | None]:
        """For people who watch."""
        return {"evaluation": self.k, "watermark_ms": self.watermark, "elements": self.elements, "late": self.late}

    def take(self, arrivals: Arrivals) -> None:
        """The elements of one micro-batch."""
        if not arrivals.first.size:
            return
        self.elements += arrivals.size
        latest = int(arrivals.latest.max())
        self.latest = latest if self.latest is None else max(self.latest, latest)
        for first, part in arrivals.by_evaluation():
            if self.k is not None and first <= self.k:
                self.late += part.size
            self._waiting.setdefault(max(first, 1 if self.k is None else self.k + 1), []).append(part)

    def evaluations(self) -> Iterator[tuple[int, list[Arrivals]]]:
        """The evaluations that are due now."""
        if self.watermark is None:
            return
        after = min(self._waiting) if self.k is None else self.k + 1
        until = -(-(self.watermark - self.window.start) // self.window.step)  # the first t_k at or behind the watermark
        if until - after > MOST_DUE:
            raise InputError(
                f"{until - after:,} evaluations are due at once, at {self.window.step} ms from one to the next up to "
                f"{self.watermark}: are the event times milliseconds?"
            )
        for k in range(after, until):
            self.k = k
            yield k, self._waiting.pop(k, [])


class Step(NamedTuple):
    """What one evaluation did and answered."""

    record: Record
    refreshes: Refreshes
    answers: pa.Table | None
    """None where shards have written them"""


Write: TypeAlias = Callable[[Sequence[Step], int], None]
"""Writes the steps of a micro-batch under its number, in place of what is there: after a kill it is called again."""


@dataclass(eq=False)
class Evaluator(ABC):
    """Evaluates what is due; a snapshot has all of it."""

    manager: Manager
    due: Due
    source: Once = field(init=False)
    replayed: ClassVar[int] = 0
    """Evaluations that a restart may have to make again, or micro-batches without one; 0: a snapshot ends each."""

    @abstractmethod
    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """The elements of a micro-batch, counted."""

    @abstractmethod
    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step:
        """One evaluation, with the elements that are new in it."""

    def go_on(self, arrivals: Arrivals, reached: Callable[[str], None] = lambda _: None) -> list[Step]:
        """The evaluations that are due with what arrived."""
        self.due.take(arrivals)
        reached("read")
        return [self.evaluate(k, own) for k, own in self.due.evaluations()]

    def tidy(self) -> None:
        """A micro-batch is committed: what no restart needs any more may go."""
        return


Begin: TypeAlias = Callable[[Evaluator | None], Evaluator]
"""Before the first micro-batch, or with the one of a snapshot, which holds nothing of the world outside."""


@dataclass(eq=False)
class Batches:
    """The query's state between micro-batches, in memory and on the disk."""

    store: Store
    source: Once
    begin: Begin
    write: Write
    _now: tuple[int, Evaluator] | None = None
    _since: int = 0
    """evaluations since the last snapshot, and micro-batches that had none"""

    def process(self, batch: int, counts: Tabular) -> None:
        """One micro-batch; nothing where it was committed before."""
        (last, evaluator), reached = self.committed(), self.source.reached
        if batch == last:
            return
        if batch != last + 1:
            raise ConfigError(
                f"the state in {self.store.place} is that of micro-batch {last}, and this is micro-batch {batch}: "
                "state and checkpoint belong together, so keep both or remove both"
            )
        self._now = None  # until it is committed, what is in memory is of no use after an error
        self.source.begin(self.store.log(batch))
        arrivals = evaluator.arrive(counts, batch)
        steps = evaluator.go_on(arrivals, reached)
        reached("answered")
        if steps:
            self.write(steps, batch)
        reached("written")
        self._since += max(1, len(steps))
        if last < 0 or self._since >= evaluator.replayed:
            self.store.save(batch, evaluator)
            self._since = 0
        else:
            self.store.log(batch).append(arrivals)
        self._now = batch, evaluator
        self.store.tell({"batch": batch, **evaluator.due.progress()})
        reached("committed")
        evaluator.tidy()

    def committed(self) -> tuple[int, Evaluator]:
        """The last micro-batch that was, −1 at the very beginning, and what is known after it.

        As it is in memory, or else as snapshot and logs have it.
        """
        if self._now is not None:
            return self._now
        last, known = self.store.load() or (-1, None)
        evaluator, self._since = self.begin(known), 0
        evaluator.source = evaluator.manager.endpoint = self.source
        while isinstance(done := [None, *self.store.log(last + 1).read()][-1], Arrivals):
            last += 1
            self.source.begin(self.store.log(last), replay=True)
            self._since += max(1, len(evaluator.go_on(done)))
        return last, evaluator
