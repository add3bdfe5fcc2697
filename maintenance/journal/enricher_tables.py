"""The journal of an enricher as the tables of every journal: evaluations, refreshes, audits and run.json.

Segments of JSON lines become Parquet when a reader comes; an interval is an evaluation whose answers are the reads. A
torn last line of a process that was killed is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.enricher.enricher_journal import PATTERN, read_lines
from freshkeeper.maintenance.journal.journal import Buffer, write
from freshkeeper.maintenance.journal.run_json import NO_BOUND, About, BoundNote, Contender, Setting

POLICY = "enricher"
KNOWLEDGE = "learned"
WAITED = "(reads that waited)"
"""Stands for the key of a read that got what the source has."""


@dataclass(eq=False)
class _Interval:
    """An interval with the fetches since the one before it."""

    t_ms: int
    counts: dict[str, Any]
    name: str
    facts: dict[str, Any]
    fetches: list[list[Any]] = field(default_factory=list)

    @property
    def waited(self) -> int:
        """The number of reads that waited for a fetch that succeeded: they got what the source has."""
        misses = max(self.counts.get("misses", 0) - self.counts.get("failed", 0), 0)
        waited: int = self.counts.get("waited", 0)
        if self.facts["on_stale"] == "wait":
            waited = max(waited, self.counts.get("refreshed", 0) - self.counts.get("audited", 0))
        return int(misses + waited)


@dataclass(eq=False)
class _Tables:
    """The rows of the tables so far."""

    evaluations: Buffer = field(default_factory=lambda: Buffer("evaluations"))
    refreshes: Buffer = field(default_factory=lambda: Buffer("refreshes"))
    audits: Buffer = field(default_factory=lambda: Buffer("audits"))
    _numbers: dict[str, int] = field(default_factory=dict)
    _unaudited: dict[str, float] = field(default_factory=dict)

    def add(self, interval: _Interval) -> None:
        """Add the rows of an interval."""
        counts, name = interval.counts, interval.name
        k = self._numbers[name] = self._numbers.get(name, 0) + 1
        whose = {"setting": name, "policy": POLICY, "seed": 0, "k": k, "t_ms": interval.t_ms}
        misses, failed = counts.get("misses", 0), counts.get("failed", 0)
        self.evaluations.add(
            whose
            | {"case": "bgp", "knowledge": KNOWLEDGE, "warmup": False, "fresh": None, "stale": None}
            | {"decide_us": None, "fetch_ms": None, "marked": None, "missed": misses, "errors": failed}
            # A read of a key that was not there is right, unless its fetch failed.
            | {"results": float(counts.get("judged", 0) + misses)}
            | {"expected_fresh": counts.get("believed", 0.0) + max(misses - failed, 0)}
            | {"window_mappings": counts.get("hits", 0) + misses, "candidates": counts.get("rows", 0)}
            | {"budget": counts["available"] + counts["spent"], "spent": counts["spent"]}
            | {"carried": counts["available"], "requests": counts.get("requests", 0)}
        )
        audited = 0
        for _, key, changed, latency_ms, error, audit in interval.fetches:
            fetched = {"sr": key if changed is not None else f"miss {key}", "changed": changed, "error": error}
            self.refreshes.add(
                whose | fetched | {"requests": 1.0, "latency_ms": latency_ms, "gain": None, "late": False}
            )
            if audit is not None:
                self.audits.add(whose | {"sn": key, "fresh": audit})
                audited += 1
        self._add_certain(interval, audited, whose)

    def _add_certain(self, interval: _Interval, audited: int, whose: dict[str, Any]) -> None:
        """Add audits for reads that waited, as many for each as other reads have: audits choose among the others."""
        others = interval.counts.get("hits", 0) + interval.counts.get("misses", 0) - interval.waited
        due = self._unaudited.get(interval.name, 0.0) + audited * interval.waited / max(others, 1)
        for _ in range(int(due)):
            self.audits.add(whose | {"sn": WAITED, "fresh": True})
        self._unaudited[interval.name] = due - int(due)


def write_tables(directory: Path) -> None:
    """Write the tables of an enricher's journal, if there is one and they are not up to date."""
    segments = sorted(directory.glob(PATTERN))
    if not segments:
        return
    tables = directory / "evaluations.parquet"
    if tables.exists() and tables.stat().st_mtime >= max(segment.stat().st_mtime for segment in segments):
        return
    intervals = sorted(_intervals(directory), key=lambda interval: interval.t_ms)
    if not intervals:
        raise InputError(f"{directory}: nothing was read yet; the journal has no interval")
    rows = _Tables()
    for interval in intervals:
        rows.add(interval)
    for buffer in (rows.refreshes, rows.audits, rows.evaluations):  # the last one's time says that all are up to date
        if len(buffer):
            write(directory, buffer.name, [buffer.table()])
    _about(intervals).write(directory)


def _intervals(directory: Path) -> Iterator[_Interval]:
    name, facts = "", {}
    fetches: list[list[Any]] = []
    for kind, *rest in read_lines(directory):
        if kind == "enricher":
            _, name, facts = rest
            fetches = []
        elif kind == "fetch":
            fetches.append(rest)
        elif kind == "interval":
            yield _Interval(rest[0], rest[1], name, facts, fetches)
            fetches = []


def _about(intervals: list[_Interval]) -> About:
    """Describe the enrichers as a run."""
    dropped = sum({interval.name: interval.counts["dropped"] for interval in intervals}.values())
    about = About(
        command="Enricher(...)",
        complete=True,
        config={"title": "Enricher", "dropped_fetches": dropped},
        seeds=[0],
        bound=BoundNote(included=False, reason=NO_BOUND),
        policies={POLICY: Contender(name=POLICY)},
    )
    for interval in intervals:
        facts = interval.facts
        about.settings[interval.name] = Setting(
            budget=facts["rate"] * facts["interval_ms"],
            bank=facts["bank"],
            case="bgp",
            knowledge=KNOWLEDGE,
            range_ms=int(facts["interval_ms"]),
            step_ms=int(facts["interval_ms"]),
            start="cold",
        )
        about.config[interval.name] = facts
    return about
