"""Which evaluations are due: the watermark of one stream, and what waits for evaluations to come.

The watermark is the latest event time minus the allowed delay, over all micro-batches, the present one included. An
evaluation is due when the watermark has passed its instant: at the instant itself one more element may have that time.
Spark's own watermark is not used: it moves one micro-batch later, and `foreachBatch` is not told of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Arrivals
from freshkeeper.policies.errors import InputError

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
        if not arrivals.keys:
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
