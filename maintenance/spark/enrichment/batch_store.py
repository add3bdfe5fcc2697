"""State that survives a kill: snapshots, and a log of every micro-batch with its orders and deliveries.

A snapshot is written under another name and moved into place; the log is appended, record by record, and a record that
was cut off by a kill is as if it had never been written. Snapshots reach the disk before the work goes on, and so does
the log before anything is sent. A micro-batch whose log ends with what arrived is done: whoever has the snapshot before
it makes it again from the log. They are pickles: a state directory is as trustworthy as whoever may write into it.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.state.append_log import AppendLog

FORMAT = b"freshkeeper enrichment 10\n"
UNREADABLE = (OSError, AttributeError, ImportError, EOFError, KeyError, TypeError, pickle.UnpicklingError)


@dataclass(eq=False)
class Store:
    """The state directory of one query."""

    place: Path

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)

    def save(self, batch: int, state: object) -> None:
        """Write the state after a micro-batch."""
        with atomic_file(self._snapshot(batch), durable=True) as file, file.open("wb") as out:
            out.write(FORMAT)
            with pa.CompressedOutputStream(out, "lz4") as packed:
                pickle.dump(state, packed, pickle.HIGHEST_PROTOCOL)
        for old in self.batches()[:-1]:
            self._snapshot(old).unlink()
        for path in self.place.glob("*.log"):
            if int(path.stem) <= batch:
                path.unlink()

    def load(self) -> tuple[int, Any] | None:
        """Return the last micro-batch with a snapshot and the state after it; None at the very beginning."""
        known = self.batches()
        if not known:
            return None
        path = self._snapshot(known[-1])
        wrong = f"{path} is no state of this version of freshkeeper: go on with the version it is of"
        with path.open("rb") as file:
            if file.readline() != FORMAT:
                raise InputError(wrong)
            try:
                return known[-1], pickle.load(pa.CompressedInputStream(file, "lz4"))
            except UNREADABLE as error:
                raise InputError(f"{wrong} ({error})") from None

    def batches(self) -> list[int]:
        """Return the micro-batches that have a snapshot."""
        return sorted(int(path.stem) for path in self.place.glob("*.state") if path.stem.isdigit())

    def log(self, batch: int) -> "BatchLog":
        """Return the log of a micro-batch: what was requested from the source, and the responses."""
        return BatchLog(self.place / f"{batch}.log")

    def _snapshot(self, batch: int) -> Path:
        return self.place / f"{batch}.state"


@dataclass(eq=False)
class BatchLog:
    """The records of one micro-batch: pickled objects in an append log."""

    path: Path

    def __post_init__(self) -> None:
        self._log = AppendLog(self.path)

    def read(self) -> list[object]:
        """Read all records."""
        return [pickle.loads(body) for _, body in self._log.records()]

    def append(self, record: object, sync: bool = True) -> None:
        """Write a record; with `sync`, it and all before it have reached the disk when this returns."""
        self._log.append(b"", pickle.dumps(record), sync)
        self._log.close()  # a stopped query leaves no chance to close it later
