"""What the views of a query did, as the journal's tables: every analysis of simulations works on them.

Rows wait in memory until there are enough for a part, or until they have waited long enough. With a state they are in
its database as well, in the transaction that writes the copies they speak of, and may wait longer: what a killed run
had said becomes a part when the next one begins, so the journal and the view never disagree.
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
from freshkeeper.maintenance.cache.evaluation import Answers, Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.journal.earlier_runs import keep_earlier
from freshkeeper.maintenance.journal.journal import Buffer, read, remove, write, write_part
from freshkeeper.maintenance.journal.retention import Retention
from freshkeeper.maintenance.journal.rows import Rows, plain, written
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.runtime.scripted_truth import Truth
from freshkeeper.maintenance.state.run_state import State

TABLES = ("evaluations", "refreshes", "answers", "audits")
PART_ROWS = 200_000
PART_SECONDS = 60.0
LONGEST_WAIT = 3600.0


@dataclass(eq=False)
class QueryJournal:
    """Collects rows and writes them in parts; without a directory it does nothing. The setting is the source."""

    seed: int
    directory: Path | None
    state: State | None = None
    about: About | None = None
    retention: Retention = field(default_factory=Retention)
    _tables: dict[str, Buffer] = field(default_factory=dict)
    _lock: IO[str] | None = None
    _goes_on: bool = False
    _parts: int = 0
    _since: float | None = None
    _truths: WeakKeyDictionary[Manager, tuple[str, Truth]] = field(default_factory=WeakKeyDictionary)
    _reading: RLock = field(default_factory=RLock)
    _began: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        """There is a place for it; what an earlier run left in the state goes to it first."""
        self._tables = {name: Buffer(name) for name in TABLES}
        if self.directory is None:
            return
        with writing(self.directory):
            make_directory(self.directory)
            self._lock = lock(self.directory / ".lock", f"--journal {self.directory}")
        if self.state is not None:
            try:
                self._go_on(self.directory, self.state)
            except BaseException:
                self.release()
                raise

    def observe(self, source: str, manager: Manager, evaluation: Evaluation, fresh: float | None = None) -> None:
        """One evaluation of one view, with the number of fresh answers where somebody knows it."""
        if self.directory is None:
            return
        self._begin(self.directory)
        answers = manager.answers_of(evaluation)
        self._know(source, manager).see(evaluation.record.t_ms, answers)
        for name, columns in _columns(source, self.seed, manager, evaluation, answers, fresh).items():
            with self._reading:
                self._tables[name].extend(columns)
            if self.state is not None:
                self.state.pend(name, columns)

    def read(self, name: str) -> "pa.Table":
        """The rows of a table so far, those that wait included; from any thread."""
        if self.directory is None:
            raise ConfigError("there is no journal: give the directory of one")
        if name not in TABLES:
            raise UnknownNameError("table", name, TABLES)
        with self._reading:
            waiting, written = self._tables[name].table(), read(self.directory, name)
        return waiting if written is None else pa.concat_tables([written, waiting], promote_options="permissive")

    def tick(self) -> None:
        """Between evaluations: write parts if it is time."""
        if self.directory is None:
            return
        waited = 0.0 if self._since is None else time.monotonic() - self._since
        if waited >= self._patience() or max(map(len, self._tables.values())) >= PART_ROWS:
            self._write_parts()

    def close(self) -> None:
        """Write what is left, and let others have the directory."""
        try:
            if self.directory is not None:
                self._finish(self.directory)
        finally:
            self.release()

    def release(self) -> None:
        """Let others have the directory."""
        if self._lock is not None:
            self._lock.close()

    def _finish(self, directory: Path) -> None:
        """Whole tables, where there are no parts."""
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

    def _patience(self) -> float:
        """How long rows may wait; where the state has them too, longer as the run grows, so that its parts stay few."""
        if self.state is None:
            return PART_SECONDS
        return min(max(PART_SECONDS, (time.monotonic() - self._began) / 100), LONGEST_WAIT)

    def _go_on(self, directory: Path, state: State) -> None:
        pending = state.pending()
        self._goes_on = state.begun
        if self._goes_on and any((directory / f"{name}.parquet").is_file() for name in TABLES):
            raise ConfigError(f"{directory} holds the journal of a run that had no state: give another directory")
        for name, columns in pending:
            self._tables[name].extend(columns)
        self._write_parts()

    def _begin(self, directory: Path) -> None:
        """A run that does not go on with an earlier one leaves that one's journal where it can be found."""
        self._since = time.monotonic() if self._since is None else self._since
        if not self._goes_on:
            self._goes_on = True
            keep_earlier(directory)

    def _know(self, source: str, manager: Manager) -> Truth:
        """What is known of a source; run.json has every view from its first evaluation on."""
        if manager not in self._truths:
            self._truths[manager] = source, Truth.of(manager)
        if self.about is not None and self.directory is not None and self.about.add(source, manager):
            self.about.write(self.directory)
        return self._truths[manager][1]

    def _write_truth(self, directory: Path) -> None:
        """changes.parquet, if all sources are known: a reader takes an SR that is not in it for one without changes."""
        remove(directory, "changes")
        if not self._truths or not all(truth.known for _, truth in self._truths.values()):
            return
        rows = Buffer("changes")
        for source, truth in self._truths.values():
            for key, t in truth.changes():
                rows.add({"setting": source, "seed": self.seed, "sr": written(key), "t_ms": t})
        write(directory, "changes", [rows.table()], PRIVATE)

    def _write_parts(self) -> None:
        """One part of each table that has rows; killed before the state knows of them, they are written again."""
        assert self.directory is not None
        self._parts += 1
        first, last = (self._parts, 0) if self.state is None else self.state.waiting()
        with self._reading:
            for name, buffer in self._tables.items():
                if len(buffer):
                    write_part(self.directory, name, first, buffer.table())
                    self._tables[name] = Buffer(name)
            self.retention.drop(self.directory, TABLES)
        if self.state is not None:
            self.state.settled(last)
        self._since = None


def _columns(
    source: str, seed: int, manager: Manager, evaluation: Evaluation, answers: Answers, fresh: float | None
) -> dict[str, dict[str, list[object]]]:
    """The rows of one evaluation, by table."""
    record, audits = evaluation.record, evaluation.audits
    rows = Rows(source, manager.policy.name, seed, manager.case.value, manager.model.knowledge.value)
    found = {
        "evaluations": plain({name: [value] for name, value in rows.evaluation(record, fresh).items()}),
        "refreshes": plain(rows.refreshes(evaluation.refreshes)),
        "answers": plain(rows.answers(record, answers)),
        "audits": plain(rows.audits(record, audits)),
    }
    return {name: columns for name, columns in found.items() if any(map(len, columns.values()))}
