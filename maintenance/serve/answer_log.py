"""The answers of a service's queries: a line of JSON for each evaluation, in a file for each query, and to who listens.

The instant of an evaluation is the number of its line: who was away asks for those after the last one it has seen.
Old lines go when a file has reached its size: the one before it is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.output import NdJson, chunks
from freshkeeper.maintenance.state.append_log import last_line_end, truncate_partial_line

LARGEST = 1 << 26
"""Bytes of a file of answers before a new one begins."""

Listener: TypeAlias = Callable[[int, bytes], None]
"""Is told of every line, and of which instant it is; it must not wait."""


@dataclass(eq=False)
class AnswerLog:
    """The files of one directory."""

    directory: Path
    largest: int = LARGEST
    _writer: NdJson = field(default_factory=NdJson)
    _listeners: dict[str, dict[Listener, None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)

    def put(self, result: Result) -> None:
        """One evaluation: in its file, then told."""
        text = b"".join(map(bytes, chunks(self._writer, result)))
        path = self._path(result.query)
        with self._lock:
            with writing(path), path.open("ab") as file:
                file.write(text)
                size = file.tell()
            if size > self.largest:
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
        """The lines after an instant, and from now on every new one to `listener`; nothing before where it is None."""
        with self._lock:
            self._listeners.setdefault(query, {})[listener] = None
            return [] if after is None else [line for line in self._lines(query) if line[0] > after]

    def leave(self, query: str, listener: Listener) -> None:
        """Nobody listens here any more."""
        with self._lock:
            self._listeners.get(query, {}).pop(listener, None)

    def forget(self, query: str) -> None:
        """A query is no more: its files go."""
        with self._lock:
            for path in (self._path(query), self._before(query)):
                path.unlink(missing_ok=True)

    def files(self, query: str) -> tuple[Path, Path]:
        """Where its answers are: the older ones, and those that come."""
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
    """The instant of a line: it begins with it."""
    return int(line[len(b'{"t": ') : line.index(b",")])
