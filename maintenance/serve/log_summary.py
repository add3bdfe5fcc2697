"""What a log has told so far, in few words: with it a new segment of the log begins, and old ones may go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.serve.registrations import Registrations
from freshkeeper.maintenance.serve.service_log import LogRecord, ServiceLog
from freshkeeper.maintenance.streams.event_order import NEVER
from freshkeeper.maintenance.streams.inputs import Inputs


@dataclass(frozen=True)
class Start:
    """Where a segment begins."""

    segment: int
    latest: int
    """no element of the segments before it has a later time"""
    counts: Mapping[str, int]
    """elements of each stream in them"""


@dataclass(eq=False)
class History:
    """Who has sent what, and where segments begin."""

    producers: dict[str, int] = field(default_factory=dict)
    """the last number of each"""
    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, Mapping[str, int | str]] = field(default_factory=dict)
    """where streams that are read by the service go on"""
    starts: list[Start] = field(default_factory=list)

    def pushed(self, head: Mapping[str, Any], count: int) -> None:
        """So many elements more, as a record of the log has them."""
        stream = head["stream"]
        self.counts[stream] = self.counts.get(stream, 0) + count
        if head.get("producer"):
            self.producers[head["producer"]] = head["number"]
        if head.get("place"):
            self.places[stream] = head["place"]

    def roll(self, log: ServiceLog, queries: Registrations, inputs: Inputs) -> None:
        """Begin a segment of the log, and let go of those in which nothing is that fills a window again."""
        latest = max((one.order.latest for one in inputs), default=NEVER)
        counts = {one.name: self.counts.get(one.name, 0) - one.order.late for one in inputs}
        start = Start(log.last + 1, latest, counts)
        head = {
            "do": "snapshot",
            "segment": start.segment,
            "latest": latest,
            "counts": counts,
            "passed": {one.name: one.order.watermark for one in inputs},
            "silent": [one.name for one in inputs if one.idle],
            "queries": queries.records,
            "next": queries.next_numbers,
            "producers": self.producers,
            "places": self.places,
        }
        log.roll(LogRecord(head))
        self.starts.append(start)
        since, last = queries.needed(latest)
        over = [
            one
            for one in self.starts
            if one.latest <= since and all(counts[name] - one.counts.get(name, 0) >= n for name, n in last.items())
        ]
        if over:
            log.drop(over[-1].segment)
            self.starts = [one for one in self.starts if one.segment >= over[-1].segment]

    def load(self, snapshot: Mapping[str, Any]) -> None:
        """A segment begins here."""
        self.starts.append(Start(snapshot["segment"], snapshot["latest"], snapshot["counts"]))
        self.producers |= snapshot["producers"]
        self.places |= snapshot.get("places", {})
        self.counts = {name: max(count, self.counts.get(name, 0)) for name, count in snapshot["counts"].items()}
