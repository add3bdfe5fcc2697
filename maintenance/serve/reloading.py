"""A config that is read again while its service runs: on SIGHUP, or when its files have changed.

Queries, words, and what limits requests are taken at once; what else has changed waits for a restart, and that is said.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from freshkeeper.maintenance.run.graph_watch import Stamp, stamp_of
from freshkeeper.maintenance.serve.door import Door
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import ServeConfig, read_config
from freshkeeper.maintenance.serve.starting import take_queries
from freshkeeper.policies.errors import FreshkeeperError

AT_ONCE = ("queries", "token", "read_token", "largest_body", "longest_query", "most_queries", "most_listeners", "watch")
"""Keys that need no restart."""
OF_DIRECTORY = 2_000
"""Milliseconds between two looks at a directory of configs."""


@dataclass(eq=False)
class Reloading:
    """Reads a config anew when it is asked to, or when it looks another way twice."""

    path: Path
    said: Mapping[str, Any]
    """what the command line says"""
    config: ServeConfig
    door: Door
    host: str
    tell: Callable[[str], None]
    asked: Event = field(default_factory=Event)
    """set by whoever wants it to be read now; a signal handler may"""
    _over: bool = False
    _taken: tuple[Stamp, ...] = ()
    _seen: tuple[Stamp, ...] = ()

    def __post_init__(self) -> None:
        self._taken = self._seen = self._stamps()
        self._thread = Thread(target=self._live, name="reloading", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """It is read no more."""
        self._over = True
        self.asked.set()
        self._thread.join()

    def read(self) -> None:
        """Take what the files say now; with a mistake in them everything stays as it is."""
        try:
            config = read_config(self.path, self.said)
            guard = Guard.of(self.host, config.token, config.read_token)
            done = take_queries(self.door.service, config)
        except FreshkeeperError as error:
            self.tell(f"nothing is reloaded: {error}")
            return
        self.door.guard, self.door.largest_body, self.door.most_listeners = (
            guard, config.largest_body, config.most_listeners,
        )  # fmt: skip
        queries = self.door.service.queries
        queries.most, queries.longest = config.most_queries, config.longest_query
        later = [key for key in ServeConfig.model_fields if getattr(config, key) != getattr(self.config, key)]
        waiting = ", ".join(key for key in later if key not in AT_ONCE)
        self.config = config.model_copy(update={key: getattr(self.config, key) for key in later if key not in AT_ONCE})
        self.tell(
            "reloaded" + "".join(f"; {one}" for one in done) + (f"; after a restart: {waiting}" if waiting else "")
        )

    def _live(self) -> None:
        while not self._over:
            asked = self.asked.wait(self._often)
            self.asked.clear()
            if self._over:
                return
            now = self._stamps()
            if asked or (now != self._taken and now == self._seen):
                self._taken = now
                self.read()
            self._seen = now

    @property
    def _often(self) -> float | None:
        """Seconds between two looks; None: only when asked."""
        if self.config.watch is not None:
            return self.config.watch / 1000
        return OF_DIRECTORY / 1000 if self.path.is_dir() else None

    def _stamps(self) -> tuple[Stamp, ...]:
        """Of the config, and of the files with queries that it names."""
        files = [one.query for one in self.config.queries.values() if "{" not in one.query]
        places = dict.fromkeys([self.path, *map(Path, files), *(Path(file).parent for file in files)])
        return tuple(stamp_of(path) for path in places)
