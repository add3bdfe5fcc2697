"""Files of static graphs that are written anew while queries run: what was made of them is made again beside the run.

A file counts as written when it looked the same at two looks, one after the other, and while it was read. One that
cannot be read leaves the graph as it was, and that is said once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from freshkeeper.maintenance.engine.native.static_graphs import StaticGraphs

Stamp = tuple[tuple[str, int, int, int], ...]
"""Of each file the name, the inode, the size and when it was written."""


@dataclass(eq=False)
class GraphWatch:
    """Looks at the files of graphs, when it is told to or every so many seconds."""

    graphs: StaticGraphs
    files: Mapping[str, Path]
    tell: Callable[[str], None]
    _loaded: dict[str, Stamp] = field(default_factory=dict)
    """what each graph was made of, or could not be made of"""
    _seen: dict[str, Stamp] = field(default_factory=dict)
    """at the last look"""
    _over: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        """The graphs are what the files have been so far; be made before they are loaded."""
        self._loaded = {name: stamp_of(path) for name, path in self.files.items()}

    def look(self) -> None:
        """Take what was written since the last look and has not changed since."""
        for name, path in self.files.items():
            stamp = stamp_of(path)
            if stamp != self._loaded[name] and stamp == self._seen.get(name):
                self._loaded[name] = stamp
                self._take(name, path, stamp)
            self._seen[name] = stamp

    def start(self, seconds: float) -> None:
        """Look every so often, in a thread, until `stop`."""
        Thread(target=self._go_on, args=(seconds,), name="graph watch", daemon=True).start()

    def stop(self) -> None:
        """There are no more looks; one that has begun ends by itself."""
        self._over.set()

    def _go_on(self, seconds: float) -> None:
        while not self._over.wait(seconds):
            self.look()

    def _take(self, name: str, path: Path, stamp: Stamp) -> None:
        if not stamp:
            self.tell(f"{path} is gone: the graph stays as it was")
            return
        try:
            loaded = self.graphs.read(path)
            if stamp_of(path) == stamp:  # or else it was being written, and is looked at again
                self.graphs.change(name, loaded)
                triples = "1 triple" if len(loaded) == 1 else f"{len(loaded):,} triples"
                self.tell(f"{path} has changed: the graph has {triples} now")
        except Exception as error:  # whatever it is, the next change of the file is looked at
            self.tell(f"the graph of {path} stays as it was: {error}")


def stamp_of(path: Path) -> Stamp:
    """What tells that a file, or one in a directory, is another one; empty where there is none."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [(file, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((file.name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for file, stat in found)
