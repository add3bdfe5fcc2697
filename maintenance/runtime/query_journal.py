"""The journal of queries: what their views did, in the same tables as those of simulations.

Rows are buffered until there are enough for a part, or until they have waited long enough. With a state they are also
in its database, in the transaction that writes the copies they are about, and may wait longer: rows of a run that
crashed become a part when the next one begins, so that journal and views always agree.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import IO
from weakref import WeakKeyDictionary

import pyarrow as pa

from freshkeeper.maintenance.base.errors import ConfigError, UnknownNameError
from freshkeeper.maintenance.base.files import PRIVATE, lock, make_directory, writing
from freshkeeper.maintenance.base.term_text import key_as_text
from freshkeeper.maintenance.cache.evaluation import Answers, Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.journal.journal import Buffer, Retention, keep_earlier, read, remove, write, write_part
from freshkeeper.maintenance.journal.rows import JournalRows, plain
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.runtime.scripted_truth import Truth
from freshkeeper.maintenance.state.run_state import State

TABLES = ("evaluations", "refreshes", "answers", "audits")
ROWS_PER_PART = 200_000
PART_INTERVAL_S = 60.0
MAX_WAIT_S = 3600.0


@dataclass(eq=False)
class QueryJournal:
    """Buffers rows and writes them in parts; does nothing without a directory. The setting of a row is its source."""

    seed: int
    directory: Path | None
    state: State | None = None
    about: About | None = None
    retention: Retention = field(default_factory=Retention)
    _tables: dict[str, Buffer] = field(default_factory=dict)
    _lock: IO[str] | None = None
    _has_begun: bool = False
    _parts: int = 0
    _since: float | None = None
    _truths: WeakKeyDictionary[Manager, tuple[str, Truth]] = field(default_factory=WeakKeyDictionary)
    _reading: RLock = field(default_factory=RLock)
    _created: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        """Open the directory, and write the rows first that an earlier run left in the state."""
        self._tables = {name: Buffer(name) for name in TABLES}
        if self.directory is None:
            return
        with writing(self.directory):
            make_directory(self.directory)
            self._lock = lock(self.directory / ".lock", f"--journal {self.directory}")
        if self.state is not None:
            try:
                self._resume(self.directory, self.state)
            except BaseException:
                self.release()
                raise

    def observe(self, source: str, manager: Manager, evaluation: Evaluation, fresh: float | None = None) -> None:
        """Add the rows of an evaluation, with the number of fresh answers if it is known."""
        if self.directory is None:
            return
        self._begin(self.directory)
        answers = manager.answers_of(evaluation)
        self._truth_of(source, manager).see(evaluation.record.t_ms, answers)
        for name, columns in _columns(source, self.seed, manager, evaluation, answers=answers, fresh=fresh).items():
            with self._reading:
                self._tables[name].extend(columns)
            if self.state is not None:
                self.state.add_rows(name, columns)

    def read(self, name: str) -> "pa.Table":
        """Return all rows of a table so far, with those that are buffered; any thread may call this."""
        if self.directory is None:
            raise ConfigError("there is no journal: give the directory of one")
        if name not in TABLES:
            raise UnknownNameError("table", name, TABLES)
        with self._reading:
            buffered, parts = self._tables[name].table(), read(self.directory, name)
        if parts is None:
            return buffered
        return pa.concat_tables([parts, buffered], promote_options="permissive")

    def tick(self) -> None:
        """Write parts if they are due; call this between evaluations."""
        if self.directory is None:
            return
        waited = 0.0 if self._since is None else time.monotonic() - self._since
        if waited >= self._max_wait_s() or max(map(len, self._tables.values())) >= ROWS_PER_PART:
            self._write_parts()

    def close(self) -> None:
        """Write what is left, and release the directory."""
        try:
            if self.directory is not None:
                self._finish(self.directory)
        finally:
            self.release()

    def release(self) -> None:
        """Release the directory for other processes."""
        if self._lock is not None:
            self._lock.close()

    def _finish(self, directory: Path) -> None:
        """Write the last part, or single files if there are no parts yet."""
        self._begin(directory)
        self._write_truth(directory)
        if self.about is not None:
            self.about.complete = True
            self.about.write(directory)
        if self._parts or self.state is not None:
            self._write_parts()
            return
        for name, buffer in self._tables.items():
            if name != "audits" or len(buffer):
                write(directory, name, [buffer.table()], PRIVATE)

    def _max_wait_s(self) -> float:
        """Return how long rows may wait: with a state longer as the run grows, so that its parts stay few."""
        if self.state is None:
            return PART_INTERVAL_S
        return min(max(PART_INTERVAL_S, (time.monotonic() - self._created) / 100), MAX_WAIT_S)

    def _resume(self, directory: Path, state: State) -> None:
        buffered = state.buffered_rows()
        self._has_begun = state.begun
        if self._has_begun and any((directory / f"{name}.parquet").is_file() for name in TABLES):
            raise ConfigError(f"{directory} holds the journal of a run that had no state: give another directory")
        for name, columns in buffered:
            self._tables[name].extend(columns)
        self._write_parts()

    def _begin(self, directory: Path) -> None:
        """Keep the journal of an earlier run, unless this run resumes it."""
        if self._since is None:
            self._since = time.monotonic()
        if not self._has_begun:
            self._has_begun = True
            keep_earlier(directory)

    def _truth_of(self, source: str, manager: Manager) -> Truth:
        """Return the truth about a view, and add the view to run.json at its first evaluation."""
        if manager not in self._truths:
            self._truths[manager] = source, Truth.of(manager)
        if self.about is not None and self.directory is not None and self.about.add(source, manager):
            self.about.write(self.directory)
        return self._truths[manager][1]

    def _write_truth(self, directory: Path) -> None:
        """Write changes.parquet if all sources are known; entries that are not in it count as unchanged."""
        remove(directory, "changes")
        if not self._truths or not all(truth.is_known for _, truth in self._truths.values()):
            return
        rows = Buffer("changes")
        for source, truth in self._truths.values():
            for key, t in truth.changes():
                rows.add({"setting": source, "seed": self.seed, "sr": key_as_text(key), "t_ms": t})
        write(directory, "changes", [rows.table()], PRIVATE)

    def _write_parts(self) -> None:
        """Write a part of each table with rows; after a crash before the state notes it, the part is written again."""
        assert self.directory is not None
        self._parts += 1
        first, last = self._parts, 0
        if self.state is not None:
            first, last = self.state.buffered_numbers()
        with self._reading:
            for name, buffer in self._tables.items():
                if len(buffer):
                    write_part(self.directory, name, first, buffer.table())
                    self._tables[name] = Buffer(name)
            self.retention.drop(self.directory, TABLES)
        if self.state is not None:
            self.state.delete_rows(last)
        self._since = None


def _columns(
    source: str, seed: int, manager: Manager, evaluation: Evaluation, answers: Answers, fresh: float | None
) -> dict[str, dict[str, list[object]]]:
    """Return the rows of an evaluation as columns, by table."""
    record, audits = evaluation.record, evaluation.audits
    case, knowledge = manager.case.value, manager.model.knowledge.value
    rows = JournalRows(source, manager.policy.name, seed, case=case, knowledge=knowledge)
    found = {
        "evaluations": plain({name: [value] for name, value in rows.evaluation(record, fresh).items()}),
        "refreshes": plain(rows.refreshes(evaluation.refreshes)),
        "answers": plain(rows.answers(record, answers)),
        "audits": plain(rows.audits(record, audits)),
    }
    return {name: columns for name, columns in found.items() if any(map(len, columns.values()))}
