"""Reloading of static graphs whose files are written while queries run.

A file is reloaded when it has changed, was the same at two checks in a row, and did not change while it was read. If it
cannot be read, the graph stays as it was, and one message says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs

Stamp = tuple[tuple[str, int, int, int], ...]
"""The name, inode, size and modification time of each file."""


@dataclass(eq=False)
class GraphWatch:
    """Checks the files of graphs, on request or periodically."""

    graphs: StaticGraphs
    files: Mapping[str, Path]
    log: Callable[[str], None]
    _loaded: dict[str, Stamp] = field(default_factory=dict)
    """the files that each graph was loaded from, or that could not be read"""
    _seen: dict[str, Stamp] = field(default_factory=dict)
    """the files at the last check"""
    _stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        """Take the files as they are for those of the graphs: create the watch before they are loaded."""
        self._loaded = {name: stamp_of(path) for name, path in self.files.items()}

    def check(self) -> None:
        """Reload the graphs whose files have changed and were the same at the last check."""
        for name, path in self.files.items():
            stamp = stamp_of(path)
            if stamp != self._loaded[name] and stamp == self._seen.get(name):
                self._loaded[name] = stamp
                self._reload(name, path, stamp)
            self._seen[name] = stamp

    def start(self, seconds: float) -> None:
        """Check every so many seconds, in a thread, until `stop`."""
        Thread(target=self._run, args=(seconds,), name="graph watch", daemon=True).start()

    def stop(self) -> None:
        """Stop checking; a check that has begun ends by itself."""
        self._stopped.set()

    def _run(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            self.check()

    def _reload(self, name: str, path: Path, stamp: Stamp) -> None:
        if not stamp:
            self.log(f"{path} is gone: the graph stays as it was")
            return
        try:
            loaded = self.graphs.read(path)
            if stamp_of(path) == stamp:  # otherwise it was being written, and the next check reads it
                self.graphs.change(name, loaded)
                triples = "1 triple" if len(loaded) == 1 else f"{len(loaded):,} triples"
                self.log(f"{path} has changed: the graph has {triples} now")
        except Exception as error:  # of any kind: the next change of the file is read again
            self.log(f"the graph of {path} stays as it was: {error}")


def stamp_of(path: Path) -> Stamp:
    """Return what changes when a file, or one in a directory, is written; empty if there is none."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [(file, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((file.name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for file, stat in found)
