"""A log of reads by key, with the changes of the rows: what an Enricher and other caches are played on."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.enricher.enricher_journal import PATTERN, read_lines
from freshkeeper.simulator.trace.event_files import NO_CHANGES, Events, NamedFile, columns_of, read_events

UNCOVERED_SHARE = 0.1
"""A history of changes that leaves out more of the time of the reads than this is worth a note."""


@dataclass(eq=False)
class ReadLog:
    """Reads in the order of time, and the times of changes by key."""

    times: Sequence[float]
    """in ms since the epoch"""
    keys: Sequence[str]
    changes: dict[str, Sequence[float]]
    notes: list[str] = field(default_factory=list)
    versions: Sequence[int] = field(init=False)
    """how often the key of each read had changed by then"""

    def __post_init__(self) -> None:
        nothing: Sequence[float] = ()
        changes = self.changes
        at = zip(self.times, self.keys, strict=True)
        self.versions = array("l", (bisect_right(changes.get(key, nothing), now) for now, key in at))

    @property
    def span(self) -> float:
        """The time from the first read to the last, in ms."""
        return max(self.times[-1] - self.times[0], 1.0)

    def version(self, key: str, now: float) -> int:
        """Return how often a key had changed by a time."""
        return bisect_right(self.changes.get(key, ()), now)

    def between(self, start: float, end: float) -> "ReadLog":
        """Return the reads of a part of the time, up to `end`, with all changes."""
        first, last = (bisect_right(self.times, at - 1e-9) for at in (start, end))
        return ReadLog(self.times[first:last], self.keys[first:last], self.changes)

    def note_coverage(self, history: Events) -> None:
        """Add a note if a history of changes does not cover the time of the reads."""
        lacking = max(self.times[-1] - history.times[-1], 0.0) + max(history.times[0] - self.times[0], 0.0)
        if lacking > UNCOVERED_SHARE * self.span:
            share = f"{100 * min(lacking / self.span, 1):.0f} %"
            self.notes.append(f"{history.path} has no changes in {share} of the time of the reads: is it all of them?")

    @classmethod
    def read(
        cls,
        reads: NamedFile,
        changes: NamedFile | None,
        unit: str = "",
        skip_bad_rows: bool = False,
        progress: Callable[[str, float], None] | None = None,
    ) -> "ReadLog":
        """Read both files; a directory of changes is a journal, whose refreshes saw them."""
        if changes is None:
            raise InputError(NO_CHANGES)

        def events(file: NamedFile, other: NamedFile, meanings: tuple[str, ...]) -> Events:
            also = [] if file.columns or other.columns or other.path.is_dir() else columns_of(other.path)
            told = None if progress is None else (lambda share: progress(f"reading {file.path}", share))
            return read_events(file, meanings, unit, also, skip_bad_rows=skip_bad_rows, progress=told)

        came = events(reads, changes, ("time", "key"))
        if changes.path.is_dir():
            history = _seen_in_journal(changes.path)
        else:
            history = events(changes, reads, ("time", "entry", "value"))
        times = changes_of(history)
        wanted = set(came.keys)
        if times and wanted.isdisjoint(times):
            raise InputError(
                f"{history.path}: nothing that changes is ever read: it has {next(iter(times))!r}, and what is read is "
                f"like {came.keys[0]!r}; the same entry must have the same id in both"
            )
        notes = [came.note, history.note]
        if changes.columns[2:]:
            notes.append(f"{history.path}: {changes.columns[1]} changed when {changes.columns[2]} differs.")
        elif not changes.path.is_dir():
            notes.append(
                f"{history.path}: every row counts as a change; if rows are observations, name the column of the "
                f"value, as in {history.path.name}:TIME,ENTRY,VALUE."
            )
        for each in (came, history):
            if each.left_out:
                notes.append(f"{each.path}: {each.left_out:,} rows were left out.")
        found = cls(came.times, came.keys, {key: at for key, at in times.items() if key in wanted}, notes)
        found.note_coverage(history)
        return found


def changes_of(history: Events) -> dict[str, Sequence[float]]:
    """Return the times of changes by key: every row, or the rows whose value differs from the one before."""
    found: dict[str, array[float]] = {}
    if history.values is None:
        for at, key in zip(history.times, history.keys, strict=True):
            found.setdefault(key, array("d")).append(at)
        return dict(found)
    latest: dict[str, str] = {}
    for at, key, value in zip(history.times, history.keys, history.values, strict=True):
        if latest.get(key, value) != value:
            found.setdefault(key, array("d")).append(at)
        latest[key] = value
    return dict(found)


def _seen_in_journal(place: Path) -> Events:
    rows = []
    for kind, *rest in read_lines(place):
        if kind == "fetch" and rest[2]:  # it had changed
            rows.append((rest[0], rest[1]))
    if not any(place.glob(PATTERN)):
        from freshkeeper.simulator.trace.recorded_trace import changes_seen  # needs pyarrow

        table = changes_seen(place).data
        rows = list(zip(table["t_ms"].to_pylist(), map(str, table["sr"].to_pylist()), strict=True))
    rows.sort()
    if not rows:
        raise InputError(f"{place}: its refreshes saw no changes")
    note = f"{place}: {len(rows):,} changes that refreshes saw; those that none saw are missing."
    times, keys = zip(*rows, strict=True)
    return Events(place, array("d", times), list(keys), None, note)
