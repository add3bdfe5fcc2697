"""The answers of a service: a line of JSON for each evaluation, in a file for each query and to its listeners.

Lines are identified by their instants: a client that was disconnected requests those after the last one it has. A file
that has reached its maximal size is rotated, and one older file is kept.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeAlias

from freshkeeper.maintenance.base.files import PRIVATE, make_directory, writing
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.formats import NdJson, chunks
from freshkeeper.maintenance.serve.answer_tail import AnswerTail, instant
from freshkeeper.maintenance.state.append_log import last_line_end, truncate_partial_line

MAX_FILE_BYTES = 1 << 26
"""The size of an answer file after which it is rotated."""
MAX_LINES_AT_ONCE = 1_000
"""Lines that a client who catches up gets at once."""

Listener: TypeAlias = Callable[[int, bytes], None]
"""Is called with the instant of every line and the line; it must not wait."""


@dataclass(eq=False)
class AnswerLog:
    """The answer files of one directory, which stay open, and who listens to new lines."""

    directory: Path
    max_bytes: int = MAX_FILE_BYTES
    _writer: NdJson = field(default_factory=NdJson)
    _listeners: dict[str, dict[Listener, None]] = field(default_factory=dict)
    _files: dict[str, BinaryIO] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    """held for short: nobody reads a file under it who does not know that little is left to read"""

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)

    def put(self, result: Result) -> None:
        """Write the line of an evaluation, then hand it to the listeners of its query.

        Raises ConfigError if the disk takes no more; nothing of the line is left then.
        """
        text = b"".join(map(bytes, chunks(self._writer, result)))
        with self._lock:
            self._append(result.query, text)
            listeners = list(self._listeners.get(result.query, ()))
        for listener in listeners:
            listener(result.t, text)

    def _append(self, query: str, text: bytes) -> None:
        path = self._path(query)
        with writing(path):
            if query not in self._files:
                path.touch(PRIVATE)
                self._files[query] = path.open("ab", buffering=0)
            file = self._files[query]
            size = os.fstat(file.fileno()).st_size
            if size > self.max_bytes:
                path.replace(self._before(query))
                self._close(query)
                return self._append(query, text)
            try:
                rest = memoryview(text)
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise

    def truncate_partial_line(self, query: str, unsure: int | None = None) -> int | None:
        """Remove a partial last line, and the line of an unsure instant; return the instant of the last line left."""
        path = self._path(query)
        if not path.exists():
            return None
        end = truncate_partial_line(path)
        with writing(path), path.open("rb+") as file:
            while end:
                start = last_line_end(file, end - 1)
                file.seek(start)
                last = instant(file.read(end - start))
                if last != unsure:
                    return last
                file.truncate(start)
                end = start
        return None

    def listen(self, query: str, listener: Listener) -> None:
        """Call `listener` with every new line from now on."""
        with self._lock:
            self._listeners.setdefault(query, {})[listener] = None

    def catch_up(self, query: str, tail: AnswerTail, listener: Listener) -> list[tuple[int, bytes]]:
        """Return the next lines of a tail; if there are none, call `listener` with every new line from now on."""
        lines = tail.read(MAX_LINES_AT_ONCE)
        if not lines:
            with self._lock:
                lines = tail.read(MAX_LINES_AT_ONCE)  # what was written since the look without the lock
                if not lines:
                    self._listeners.setdefault(query, {})[listener] = None
        return lines

    def tail(self, query: str, after: int) -> AnswerTail:
        """Return a reader of the lines of a query after an instant."""
        return AnswerTail(self._path(query), self._before(query), after)

    def leave(self, query: str, listener: Listener) -> None:
        """Remove a listener."""
        with self._lock:
            self._listeners.get(query, {}).pop(listener, None)

    def forget(self, query: str) -> None:
        """Remove the files of a query."""
        with self._lock:
            self._close(query)
            for path in (self._path(query), self._before(query)):
                path.unlink(missing_ok=True)

    def keep(self, query: str, name: str, text: str) -> Path:
        """Link the answers of a query and write its text into a directory of removed queries; return its path."""
        place = self.directory.parent / "removed" / name
        with writing(place):
            make_directory(place)
            file = place / "query.rq"
            file.touch(PRIVATE)
            file.write_text(text, encoding="utf-8")
            for path in (self._path(query), self._before(query)):
                kept = place / path.name
                if path.exists() and not kept.exists():
                    kept.hardlink_to(path)
        return place

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for query in list(self._files):
                self._close(query)

    def _close(self, query: str) -> None:
        file = self._files.pop(query, None)
        if file is not None:
            file.close()

    def _path(self, query: str) -> Path:
        return self.directory / f"{query}.ndjson"

    def _before(self, query: str) -> Path:
        # No query can be called so that its own file has this name: the files of queries end in .ndjson.
        return self.directory / f"{query}.ndjson.1"
