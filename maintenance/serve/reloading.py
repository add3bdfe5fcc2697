"""A config that is read again while its service runs: on SIGHUP, or when its files have changed.

Queries, words, what limits requests, and streams and sources that are new are taken at once; what else has changed
waits for a restart, and that is said.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.runtime.graph_watch import Stamp, stamp_of
from freshkeeper.maintenance.runtime.query_runtime import open_sources
from freshkeeper.maintenance.serve.app_context import AppContext
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import ServeConfig, read_config
from freshkeeper.maintenance.serve.starting import take_queries
from freshkeeper.maintenance.sources.sources import Source

AT_ONCE = ("queries", "token", "read_token", "largest_body", "longest_query", "most_queries", "most_listeners", "watch")
"""Keys that need no restart."""
GROWING = ("streams", "sources")
"""Keys of which what is new needs none."""
OF_DIRECTORY = 2_000
"""Milliseconds between two looks at a directory of configs."""


@dataclass(eq=False)
class Reloading:
    """Reads a config anew when it is asked to, or when it looks another way twice."""

    path: Path
    said: Mapping[str, Any]
    """what the command line says"""
    config: ServeConfig
    context: AppContext
    host: str
    tell: Callable[[str], None]
    more: Callable[[ServeConfig, Sequence[str], Mapping[str, Source]], None] = field(default=lambda *_: None)
    """is told of streams and sources that are new, once queries know them: who reads streams, who traces requests"""
    asked: Event = field(default_factory=Event)
    """set by whoever wants it to be read now; a signal handler may"""
    _over: bool = False
    _loaded: tuple[Stamp, ...] = ()
    _seen: tuple[Stamp, ...] = ()

    def __post_init__(self) -> None:
        self._loaded = self._seen = self._stamps()
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
            done = self._take(config)
        except FreshkeeperError as error:
            self.tell(f"nothing is reloaded: {error}")
            return
        self.context.guard, self.context.largest_body, self.context.most_listeners = (
            guard, config.largest_body, config.most_listeners,
        )  # fmt: skip
        queries = self.context.service.queries
        queries.max_queries, queries.max_characters = config.most_queries, config.longest_query
        later = [key for key in ServeConfig.model_fields if getattr(config, key) != getattr(self._known(config), key)]
        waiting = ", ".join(key for key in later if key not in AT_ONCE)
        known = {key: getattr(self._known(config), key) for key in later if key not in AT_ONCE}
        self.config = config.model_copy(update=known)
        self.tell(
            "reloaded" + "".join(f"; {one}" for one in done) + (f"; after a restart: {waiting}" if waiting else "")
        )

    def _take(self, config: ServeConfig) -> list[str]:
        """Streams and sources that are new, and queries; what was done."""
        service, new = self.context.service, {key: _new(self.config, config, key) for key in GROWING}
        sources = open_sources({name: config.sources[name] for name in new["sources"]}, config.volatile)
        delays = {name: config.streams[name].delay for name in new["streams"]}
        try:
            with service.queries.with_more(delays, sources):
                done = take_queries(service, config, lambda: service.add_streams(delays))
        except BaseException:
            for source in sources.values():
                source.transport.close()
            raise
        self.context.streams = {**self.context.streams, **{name: config.streams[name] for name in delays}}
        self.more(config, new["streams"], sources)
        return [*(f"new {key}: {', '.join(names)}" for key, names in new.items() if names), *done]

    def _known(self, config: ServeConfig) -> ServeConfig:
        """What is in use, with the streams and sources that are taken from a new config."""
        grown = {key: {**getattr(self.config, key)} for key in GROWING}
        for key, names in ((key, _new(self.config, config, key)) for key in GROWING):
            grown[key] |= {name: getattr(config, key)[name] for name in names}
        taken = {name: one for name, one in config.volatile.items() if name in _new(self.config, config, "sources")}
        return self.config.model_copy(update={**grown, "volatile": {**self.config.volatile, **taken}})

    def _live(self) -> None:
        while not self._over:
            asked = self.asked.wait(self._often)
            self.asked.clear()
            if self._over:
                return
            now = self._stamps()
            if asked or (now != self._loaded and now == self._seen):
                self._loaded = now
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


def _new(before: ServeConfig, now: ServeConfig, key: str) -> list[str]:
    """What is by name in one config and was in none before."""
    return [name for name in getattr(now, key) if name not in getattr(before, key)]
