"""A summary of the log so far: a new segment begins with it, so that older segments can be removed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.serve.registrations import Registrations
from freshkeeper.maintenance.serve.service_log import LogRecord, ServiceLog
from freshkeeper.maintenance.streams.inputs import Inputs

MAX_PRODUCERS = 10_000
"""Producers whose last sequence number is kept; the one that has not pushed for longest is forgotten."""


@dataclass(frozen=True)
class SegmentStart:
    """The beginning of a segment of the log."""

    segment: int
    latest: int
    """no element of the segments before it has a later time"""
    counts: Mapping[str, int]
    """elements of each stream in them"""


@dataclass(eq=False)
class History:
    """The producers, positions and element counts of a log, and where its segments begin."""

    producers: dict[str, int] = field(default_factory=dict)
    """the last sequence number of each, the one that pushed last at the end"""
    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, Mapping[str, int | str]] = field(default_factory=dict)
    """the positions of streams that the service reads"""
    starts: list[SegmentStart] = field(default_factory=list)

    def pushed(self, head: Mapping[str, Any], count: int) -> None:
        """Count the elements of a record of the log."""
        stream = head["stream"]
        self.counts[stream] = self.counts.get(stream, 0) + count
        producer = head.get("producer")
        if producer:
            # Every snapshot of the log repeats all producers: without a bound, clients with new names fill the disk.
            self.producers.pop(producer, None)
            self.producers[producer] = head["number"]
            if len(self.producers) > MAX_PRODUCERS:
                del self.producers[next(iter(self.producers))]
        if head.get("place"):
            self.places[stream] = head["place"]

    def roll(self, log: ServiceLog, queries: Registrations, inputs: Inputs) -> None:
        """Begin a segment of the log, and remove segments without an element of an open window."""
        latest = max((one.order.latest for one in inputs), default=DISTANT_PAST)
        counts = {one.name: self.counts.get(one.name, 0) - one.order.late for one in inputs}
        start = SegmentStart(log.last + 1, latest, counts)
        passed = {one.name: one.order.watermark for one in inputs}
        idle = [one.name for one in inputs if one.idle]
        head = {
            "do": "snapshot",
            "segment": start.segment,
            "latest": latest,
            "counts": counts,
            "passed": passed,
            "silent": idle,
            "queries": queries.records,
            "next": queries.next_numbers,
            "producers": self.producers,
            "places": self.places,
        }
        log.roll(LogRecord(head))
        self.starts.append(start)
        since, last = queries.needed(latest)

        def is_over(one: SegmentStart) -> bool:
            """Return whether no window needs the segments before this start."""
            enough = all(counts[name] - one.counts.get(name, 0) >= n for name, n in last.items())
            return one.latest <= since and enough

        over = [one.segment for one in self.starts if is_over(one)]
        if over:
            log.drop(over[-1])
            self.starts = [one for one in self.starts if one.segment >= over[-1]]

    def load(self, snapshot: Mapping[str, Any]) -> None:
        """Take over the snapshot that a segment begins with."""
        self.starts.append(SegmentStart(snapshot["segment"], snapshot["latest"], snapshot["counts"]))
        self.producers |= snapshot["producers"]
        self.places |= snapshot.get("places", {})
        self.counts = {name: max(count, self.counts.get(name, 0)) for name, count in snapshot["counts"].items()}
