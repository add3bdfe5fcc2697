"""Reloading of a config while its service runs: on SIGHUP, or when its files have changed.

Queries, tokens, limits of requests, and new streams and sources take effect at once. Other changes wait for a restart,
and a message names them.
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

RELOADABLE_KEYS = (
    "queries",
    "token",
    "read_token",
    "largest_body",
    "longest_query",
    "most_queries",
    "most_listeners",
    "watch",
)
"""Keys whose changes need no restart."""
GROWING_KEYS = ("streams", "sources")
"""Keys whose new entries need no restart."""


@dataclass(eq=False)
class Reloading:
    """Reloads a config on request, and when its files have changed and were the same at two checks."""

    path: Path
    options: Mapping[str, Any]
    """keys that the command line gives"""
    config: ServeConfig
    context: AppContext
    host: str
    log: Callable[[str], None]
    more: Callable[[ServeConfig, Sequence[str], Mapping[str, Source]], None] = field(default=lambda *_: None)
    """is called with new streams and sources, once queries may name them"""
    directory_interval_s: float = 2.0
    """how often a directory of configs is checked for changes, where the config does not say it"""
    requested: Event = field(default_factory=Event)
    """set to reload now; a signal handler may do so"""
    _closed: bool = False
    _loaded: tuple[Stamp, ...] = ()
    _seen: tuple[Stamp, ...] = ()

    def __post_init__(self) -> None:
        self._loaded = self._seen = self._stamps()
        self._thread = Thread(target=self._run, name="reloading", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop checking for changes."""
        self._closed = True
        self.requested.set()
        self._thread.join()

    def read(self) -> None:
        """Reload the config; with a mistake in it nothing changes."""
        try:
            config = read_config(self.path, self.options)
            guard = Guard.of(self.host, config.token, config.read_token)
            done = self._take(config)
        except FreshkeeperError as error:
            self.log(f"nothing is reloaded: {error}")
            return
        self.context.guard = guard
        self.context.largest_body = config.largest_body
        self.context.most_listeners = config.most_listeners
        queries = self.context.service.queries
        queries.max_queries, queries.max_characters = config.most_queries, config.longest_query
        in_use = self._in_use(config)
        changed = [key for key in ServeConfig.model_fields if getattr(config, key) != getattr(in_use, key)]
        later = [key for key in changed if key not in RELOADABLE_KEYS]
        self.config = config.model_copy(update={key: getattr(in_use, key) for key in later})
        if later:
            done.append(f"after a restart: {', '.join(later)}")
        self.log("; ".join(["reloaded", *done]))

    def _take(self, config: ServeConfig) -> list[str]:
        """Add new streams and sources, and change queries; return what was done."""
        service = self.context.service
        new = {key: _new(self.config, config, key) for key in GROWING_KEYS}
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

    def _in_use(self, config: ServeConfig) -> ServeConfig:
        """Return the config in use, with the new streams and sources of a config that was read."""
        grown = {key: {**getattr(self.config, key)} for key in GROWING_KEYS}
        for key in GROWING_KEYS:
            grown[key] |= {name: getattr(config, key)[name] for name in _new(self.config, config, key)}
        sources = _new(self.config, config, "sources")
        volatile = {name: predicates for name, predicates in config.volatile.items() if name in sources}
        return self.config.model_copy(update={**grown, "volatile": {**self.config.volatile, **volatile}})

    def _run(self) -> None:
        while not self._closed:
            requested = self.requested.wait(self._interval_s)
            self.requested.clear()
            if self._closed:
                return
            now = self._stamps()
            if requested or (now != self._loaded and now == self._seen):
                self._loaded = now
                self.read()
            self._seen = now

    @property
    def _interval_s(self) -> float | None:
        """Seconds between two checks of the files; None: reload on request only."""
        if self.config.watch is not None:
            return self.config.watch / 1000
        return self.directory_interval_s if self.path.is_dir() else None

    def _stamps(self) -> tuple[Stamp, ...]:
        """Return the stamps of the config, and of the files with queries that it names."""
        files = [one.query for one in self.config.queries.values() if "{" not in one.query]
        places = dict.fromkeys([self.path, *map(Path, files), *(Path(file).parent for file in files)])
        return tuple(stamp_of(path) for path in places)


def _new(before: ServeConfig, now: ServeConfig, key: str) -> list[str]:
    """Return the names that a table of the new config has and that of the old one lacks."""
    return [name for name in getattr(now, key) if name not in getattr(before, key)]
