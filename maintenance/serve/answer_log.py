"""The answers of a service: a line of JSON for each evaluation, in a file for each query and to its listeners.

Lines are identified by their instants: a client that was disconnected requests those after the last one it has. A file
that has reached its maximal size is rotated, and one older file is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.formats import NdJson, chunks
from freshkeeper.maintenance.state.append_log import last_line_end, truncate_partial_line

MAX_FILE_BYTES = 1 << 26
"""The size of an answer file after which it is rotated."""

Listener: TypeAlias = Callable[[int, bytes], None]
"""Is called with the instant of every line and the line; it must not wait."""


@dataclass(eq=False)
class AnswerLog:
    """The answer files of one directory, and who listens to new lines."""

    directory: Path
    max_bytes: int = MAX_FILE_BYTES
    _writer: NdJson = field(default_factory=NdJson)
    _listeners: dict[str, dict[Listener, None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)

    def put(self, result: Result) -> None:
        """Write the line of an evaluation, then hand it to the listeners of its query."""
        text = b"".join(map(bytes, chunks(self._writer, result)))
        path = self._path(result.query)
        with self._lock:
            with writing(path), path.open("ab") as file:
                file.write(text)
                size = file.tell()
            if size > self.max_bytes:
                path.replace(self._before(result.query))
            listeners = list(self._listeners.get(result.query, ()))
        for listener in listeners:
            listener(result.t, text)

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

    def listen(self, query: str, after: int | None, listener: Listener) -> list[tuple[int, bytes]]:
        """Call `listener` with every new line from now on; return the lines after an instant, none for None."""
        with self._lock:
            self._listeners.setdefault(query, {})[listener] = None
            return [] if after is None else [line for line in self._lines(query) if line[0] > after]

    def leave(self, query: str, listener: Listener) -> None:
        """Remove a listener."""
        with self._lock:
            self._listeners.get(query, {}).pop(listener, None)

    def forget(self, query: str) -> None:
        """Remove the files of a query."""
        with self._lock:
            for path in (self._path(query), self._before(query)):
                path.unlink(missing_ok=True)

    def files(self, query: str) -> tuple[Path, Path]:
        """Return the rotated file of a query and the current one."""
        return self._before(query), self._path(query)

    def _lines(self, query: str) -> Iterator[tuple[int, bytes]]:
        for path in (self._before(query), self._path(query)):
            if path.exists():
                with path.open("rb") as file:
                    yield from ((instant(line), line) for line in file)

    def _path(self, query: str) -> Path:
        return self.directory / f"{query}.ndjson"

    def _before(self, query: str) -> Path:
        return self.directory / f"{query}.before.ndjson"


def instant(line: bytes) -> int:
    """Return the instant that a line begins with."""
    return int(line[len(b'{"t": ') : line.index(b",")])
