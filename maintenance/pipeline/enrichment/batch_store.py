"""What must outlive a kill: a snapshot now and then, and a log of every micro-batch: what was asked, what came of it.

A snapshot is written under another name and moved into place; the log is appended, record by record, and a record that
was cut off by a kill is as if it had never been written. Snapshots reach the disk before the work goes on, and so does
the log before anything is sent. A micro-batch whose log ends with `Committed` is done: whoever has the snapshot before
it makes it again from the log. They are pickles: a state directory is as trustworthy as whoever may write into it.
"""

import io
import json
import os
import pickle
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from freshkeeper.maintenance.files import whole
from freshkeeper.policies.errors import InputError

FORMAT = b"freshkeeper enrichment 8\n"
KEPT = 2
"""Snapshots that stay: the last one, and the one before it for those who look."""
UNREADABLE = (OSError, AttributeError, ImportError, EOFError, KeyError, TypeError, pickle.UnpicklingError)
HEAD = struct.Struct("<II")


@dataclass(frozen=True)
class Committed:
    """The end of a micro-batch's log, with what arrived in it."""

    arrivals: Any


@dataclass(eq=False)
class Store:
    """The state directory of one query; `outside` are objects that a snapshot names instead of holding them."""

    place: Path
    outside: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)

    def save(self, batch: int, state: object) -> None:
        """The state after a micro-batch."""
        text = io.BytesIO()
        _Pickler(text, self.outside).dump(state)
        with whole(self._snapshot(batch), durable=True) as file, file.open("wb") as out:
            out.write(FORMAT)
            with pa.CompressedOutputStream(out, "lz4") as packed:
                packed.write(text.getbuffer())
        for old in self.batches()[:-KEPT]:
            self._snapshot(old).unlink()
        for path in self.place.glob("*.log"):
            if int(path.stem) <= batch:
                path.unlink()

    def commit(self, batch: int, arrivals: object) -> None:
        """A micro-batch is done, and can be made again from the snapshot before it, its log and what arrived."""
        self.log(batch).append(Committed(arrivals))

    def committed(self, batch: int) -> "Committed | None":
        """What ends the log of a micro-batch that is done."""
        *_, last = [None, *self.log(batch).read()]
        return last if isinstance(last, Committed) else None

    def tell(self, progress: Mapping[str, int | None]) -> None:
        """progress.json, for people who watch; nothing is read from it."""
        with whole(self.place / "progress.json") as file:
            file.write_text(json.dumps(progress) + "\n")

    def load(self) -> tuple[int, Any] | None:
        """The last micro-batch with a snapshot, and the state after it; None at the very beginning."""
        known = self.batches()
        if not known:
            return None
        path = self._snapshot(known[-1])
        wrong = f"{path} is no state of this version of freshkeeper: go on with the version it is of"
        with path.open("rb") as file:
            if file.readline() != FORMAT:
                raise InputError(wrong)
            try:
                return known[-1], _Unpickler(pa.CompressedInputStream(file, "lz4"), self.outside).load()
            except UNREADABLE as error:
                raise InputError(f"{wrong} ({error})") from None

    def batches(self) -> list[int]:
        """The micro-batches that have a snapshot."""
        return sorted(int(path.stem) for path in self.place.glob("*.state") if path.stem.isdigit())

    def log(self, batch: int) -> "Log":
        """What was asked of the source within a micro-batch."""
        return Log(self.place / f"{batch}.log")

    def _snapshot(self, batch: int) -> Path:
        return self.place / f"{batch}.state"


@dataclass(eq=False)
class Log:
    """Records with their length and checksum, one behind the other."""

    path: Path

    def read(self) -> list[object]:
        """All whole records; what is cut off behind them is removed."""
        if not self.path.exists():
            return []
        text, at, found = self.path.read_bytes(), 0, []
        while at + HEAD.size <= len(text):
            length, checksum = HEAD.unpack_from(text, at)
            record = text[at + HEAD.size : at + HEAD.size + length]
            if len(record) < length or zlib.crc32(record) != checksum:
                break
            found.append(pickle.loads(record))
            at += HEAD.size + length
        if at < len(text):
            with self.path.open("r+b") as file:
                file.truncate(at)
                _to_disk(file)
        return found

    def append(self, record: object, durable: bool = True) -> None:
        """One record more; one that is `durable` is on the disk when this returns, with all before it."""
        text = pickle.dumps(record)
        with self.path.open("ab") as file:
            file.write(HEAD.pack(len(text), zlib.crc32(text)) + text)
            if durable:
                _to_disk(file)


class _Pickler(pickle.Pickler):
    def __init__(self, file: BinaryIO, outside: Mapping[str, object]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names = {id(thing): name for name, thing in outside.items()}

    def reducer_override(self, thing: object) -> Any:
        """Of what has a class of its own; `persistent_id` would be asked for every number and text as well."""
        name = self._names.get(id(thing))
        return NotImplemented if name is None else (_named, (name,))


def _named(name: str) -> object:
    """What stands in a snapshot for an object outside it."""
    raise InputError(f"{name} is not in the snapshot, and only who loads it knows what it is")


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: pa.NativeFile, outside: Mapping[str, object]) -> None:
        super().__init__(file)
        self._outside = outside

    def find_class(self, module: str, name: str) -> Any:
        ours = (module, name) == (_named.__module__, _named.__name__)
        return self._outside.__getitem__ if ours else super().find_class(module, name)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
