"""Sources as a run names them: a file or directory of RDF in this process, with its volatile predicates and its price.

`changes` is a stream of timestamped statements: at its time a statement takes the place of those with the same subject
and predicate. It makes a source that changes in event time, for tests, demonstrations and replays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pyoxigraph import DefaultGraph, Quad, QuerySolutions, Store

from maintenance.engine.graphs import load_graph
from maintenance.service.endpoint import Price
from maintenance.service.transport import AtOnce, Bound, Transport
from maintenance.streams.lines import TimedLines
from policies.errors import ConfigError, EndpointError, InputError, nearest

KEYS = ("data", "volatile", "changes", "batch", "per_request", "per_key")


@dataclass(eq=False)
class EmbeddedSource:
    """A source inside the process: its data, and the changes that come."""

    data: list[Quad]
    changes: list[tuple[int, Quad]] = field(default_factory=list)
    requests: int = 0
    _next: int = 0

    def __post_init__(self) -> None:
        """Load the data; changes come in the order of their times."""
        self.store = Store()
        self.store.extend(self.data)
        self.changes.sort(key=lambda change: change[0])

    def __call__(self, query: str, now: int) -> list[Bound]:
        """Ask the source as it is at `now`."""
        self.requests += 1
        self._catch_up(now)
        try:
            found = self.store.query(query)
        except (SyntaxError, OSError) as error:
            raise EndpointError(f"the source refused the query: {error}") from None
        if not isinstance(found, QuerySolutions):
            raise EndpointError("the source gave no solutions")
        names = [variable.value for variable in found.variables]
        return [{n: term for n, term in zip(names, row, strict=True) if term is not None} for row in found]

    def _catch_up(self, now: int) -> None:
        while self._next < len(self.changes) and self.changes[self._next][0] <= now:
            _, quad = self.changes[self._next]
            for old in list(self.store.quads_for_pattern(quad.subject, quad.predicate, None, DefaultGraph())):
                self.store.remove(old)
            self.store.add(quad)
            self._next += 1


@dataclass(frozen=True, eq=False)
class Source:
    """A source with what the operator says of it."""

    transport: Transport
    volatile: tuple[str, ...] = ()
    price: Price = field(default_factory=Price)


def load_source(written: str) -> Source:
    """A source from a file or directory of RDF, or from a YAML file that says more."""
    path = Path(written)
    if path.suffix.lower() not in (".yaml", ".yml"):
        return Source(AtOnce(EmbeddedSource(load_graph(path))))
    config = _read(path)
    changes = config.get("changes")
    source = EmbeddedSource(
        load_graph(_beside(path, config["data"])), _changes(_beside(path, changes)) if changes else []
    )
    volatile = config.get("volatile", [])
    price = Price(float(config.get("per_request", 1)), float(config.get("per_key", 0)), config.get("batch", 1))
    return Source(AtOnce(source), tuple([volatile] if isinstance(volatile, str) else volatile), price)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the source {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no YAML: {error}") from None
    if not isinstance(config, dict) or "data" not in config:
        raise ConfigError(f"{path}: a source needs the key data, a file or directory of RDF")
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"{path}: unknown key {key}; {nearest(str(key), list(KEYS))}")
    return config


def _beside(path: Path, written: str) -> Path:
    return path.parent / written


def _changes(path: Path) -> list[tuple[int, Quad]]:
    batches = TimedLines.file(path).batches()
    return [pair for batch in batches for pair in zip(batch.times, batch.quads, strict=True)]
