"""A directory that grows, as a stream."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from freshkeeper.maintenance.streams.batch import Stream, Timed

POLL_S = 0.2
"""How often a directory is looked at."""


@dataclass(eq=False)
class Directory:
    """The files of a directory by name; with `follow`, also those that come later (with names that sort later)."""

    path: Path
    open_file: Callable[[Path], Stream]
    follow: bool = False
    wait: Callable[[], bool] = field(default=lambda: _pause())
    """called when there is nothing new; False ends the stream"""

    def batches(self) -> Iterator[Timed]:
        """File by file; one that is still written should have another name until it is whole, or begin with a dot."""
        last = ""
        while True:
            new = sorted(f for f in self.path.iterdir() if f.name > last and f.is_file() and not f.name.startswith("."))
            for file in new:
                yield from self.open_file(file).batches()
                last = file.name
            if not new and not (self.follow and self.wait()):
                return


def _pause() -> bool:
    time.sleep(POLL_S)
    return True
