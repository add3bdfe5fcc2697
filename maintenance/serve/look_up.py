"""Look-ups of single keys in the views of queries, from any thread and without waiting for the engine.

The probabilities that copies are fresh are computed after evaluations, at most once a second, and fade by the clock
from there. The time of a copy is read before its value, so that a copy is never reported younger than it is.
"""

import asyncio
import math
import re
import time
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import ConfigError, UnknownNameError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.terms import term_json
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.fetching.endpoint import EntryId
from freshkeeper.maintenance.serve.registrations import Registrations
from freshkeeper.maintenance.sources.transport import Term, Terms
from freshkeeper.policies.base import NEVER

LAYOUT_INTERVAL_S = 1.0
"""The shortest time between two computations of the beliefs of a view."""
POLL_INTERVAL_S = 0.02
"""How often a look-up that waits checks whether its key was fetched."""
NO_LONGER_MISSING = 2**62
"""The read time of a lookup key whose entries are known by now: later than any other."""
FADING_MS = 1_000
"""The time over which the rate is measured at which beliefs fade."""
XSD = "http://www.w3.org/2001/XMLSchema#"
PART = re.compile(r'<[^<>"{}|^`\\\x00-\x20]*>|"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^<>"{}|^`\\\x00-\x20]*>)?|\S+')
NUMBERS = {
    re.compile(r"[+-]?\d+"): "integer",
    re.compile(r"[+-]?\d*\.\d+"): "decimal",
    re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)[eE][+-]?\d+"): "double",
    re.compile(r"true|false"): "boolean",
}
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Layout:
    """The probabilities that the copies of a view are fresh at an instant, and the rates at which they fade."""

    now: int
    """in event time"""
    wall: float
    """the same instant on the monotonic clock, in seconds"""
    fresh: Floats
    rates: Floats
    """per millisecond"""
    usual_rate: float
    """the rate of entries that the view did not have then"""

    def instant(self, wall: float) -> int:
        """Return the event time at a time of the monotonic clock."""
        return self.now + int(max(0.0, wall - self.wall) * 1000)

    def probability(self, slot: int, read: int, now: int) -> float:
        """Return the probability that a copy is fresh now, which was read at an instant."""
        known = slot < self.rates.size
        rate = float(self.rates[slot]) if known else self.usual_rate
        since, fresh = read, 1.0
        if known and read < self.now:
            since, fresh = self.now, float(self.fresh[slot])
        return fresh * math.exp(-rate * max(0, now - since))


@dataclass(eq=False)
class LookUps:
    """The beliefs about the copies of all views."""

    clock: Callable[[], float] = time.monotonic
    _layouts: WeakKeyDictionary[Manager, Layout] = field(default_factory=WeakKeyDictionary)

    def observe(self, _: str, manager: Manager, evaluation: Evaluation) -> None:
        """Compute the beliefs about a view after an evaluation; the engine's thread calls this."""
        before, wall = self._layouts.get(manager), self.clock()
        if before is not None and wall < before.wall + LAYOUT_INTERVAL_S:
            return
        now, read = evaluation.record.t_ms, manager.view.last_refresh
        beliefs = manager.model.beliefs(np.array([now, now + FADING_MS]), read, False)
        with np.errstate(divide="ignore"):
            rates = np.minimum(-np.log(np.maximum(beliefs.refreshed[:, 1], 1e-12)), 20.0) / FADING_MS
        cached = read != NEVER
        usual = float(rates[cached].mean()) if cached.any() else 0.0
        self._layouts[manager] = Layout(now, wall, beliefs.kept[:, 0].copy(), rates, usual)

    def find(self, queries: Registrations, source: str, text: str, query: str = "") -> list[Json]:
        """Return what each view of a source holds of a key; UnknownKeyError if none holds it."""
        views = self._views(queries, source, query)
        keys = keys_of(text)
        entries = [self._entries_of(view, users, keys) for view, users in views]
        found = [one for one in entries if one is not None]
        if found:
            return found
        for view, _ in views:
            if any(key in view.manager.view.misses for key in keys):
                raise UnknownKeyError(f"{text} is asked for by a window, and was not fetched from <{source}> yet")
        raise UnknownKeyError(f"no view of <{source}> holds {text}{_like(views)}")

    async def fetch(self, queries: Registrations, source: str, text: str, query: str, seconds: float) -> bool:
        """Have a key fetched first in the next evaluations, within their budgets; return whether it was in time."""
        keys, until = keys_of(text), time.monotonic() + seconds
        views = [view for view, _ in self._views(queries, source, query)]
        requests = [(view, key) for view in views for key in _requests_for(view, keys)]
        waiting = {request: _read_at(*request) for request in requests}
        requested_at: dict[ServiceView, int | None] = {}
        while waiting and time.monotonic() < until:
            for view, key in waiting:
                if requested_at.get(view, NEVER) != view.now:  # every evaluation forgets what was wanted before
                    view.prioritise(key)
            requested_at = {view: view.now for view, _ in waiting}
            await asyncio.sleep(POLL_INTERVAL_S)
            waiting = {request: read for request, read in waiting.items() if _read_at(*request) == read}
        return bool(requests) and not waiting

    def _views(self, queries: Registrations, source: str, query: str) -> list[tuple[ServiceView, list[str]]]:
        if source not in queries.sources:
            raise UnknownNameError("source", source, queries.sources)
        if query:
            queries.find(query)
        found: dict[ServiceView, list[str]] = {}
        for name in [query] if query else list(queries.running):
            for of, view in queries.views_of(name):
                if of == source:
                    found.setdefault(view, []).append(name)
        if not found:
            if query:
                raise UnknownKeyError(f"the query {query} has no view of <{source}>")
            raise UnknownKeyError(f"no running query has a view of <{source}>")
        return list(found.items())

    def _entries_of(self, view: ServiceView, users: list[str], keys: Sequence[Terms]) -> Json | None:
        for key in keys:
            entries = list(self._entries(view, key))
            if entries:
                return {"queries": users, "entries": entries}
        return None

    def _entries(self, view: ServiceView, key: Terms) -> Iterator[Json]:
        """Yield the entries that a lookup key needs with their rows, or the cached entry of a key."""
        split, endpoint = view.source.split, view.source
        edges = endpoint.edges.get(key) if len(key) == len(split.sn) else None
        if edges is not None:
            for entry in list(edges):
                copy = self._copy(view, entry)
                if copy is not None:
                    value, state = copy
                    rows = endpoint.rows(key, entry, value)
                    yield state | {"rows": [_row(endpoint.variables, row) for row in rows]}
        elif len(key) == len(split.key):
            copy = self._copy(view, key)
            if copy is not None:
                value, state = copy
                rows = [(*key, *row) for row in value]
                yield state | {"rows": [_row((*split.key, *split.values), row) for row in rows]}

    def _copy(self, view: ServiceView, key: Terms) -> tuple[Sequence[Terms], Json] | None:
        """Return the value of an entry and its state; None if the view has no copy of it."""
        layout = self._layouts.get(view.manager)
        copies = view.manager.view
        slot = copies.srs.numbers.get(key)
        if slot is None:
            return None
        read = int(copies.last_refresh[slot])
        value: Any = copies.values[slot]
        # The engine may give the slot to another key meanwhile.
        if read == NEVER or value is None or copies.srs.keys[slot] != key:
            return None
        now, freshness = read, None
        if layout is not None:
            now = max(layout.instant(self.clock()), read)
            freshness = round(layout.probability(slot, read, now), 6)
        state = {
            "entry": key_text(key),
            "age_ms": now - read,
            "fetched_ms": read,
            "freshness": freshness,
            "refreshing": view.fetcher.is_fetching((Kind.COPY, key)),
        }
        return value, state


def _requests_for(view: ServiceView, keys: Sequence[Terms]) -> list[EntryId]:
    """Return the keys to request from a source to renew what a view holds of a key."""
    copies = view.manager.view
    for key in keys:
        if key in copies.misses:
            return [(Kind.MISS, key)]
        if edges := view.source.edges.get(key):
            return [(Kind.COPY, entry) for entry in list(edges) if entry in copies.srs.numbers]
        if key in copies.srs.numbers:
            return [(Kind.COPY, key)]
    return []


def _read_at(view: ServiceView, request: EntryId) -> int:
    """Return when a key was read; a lookup key that is no longer missing counts as read last."""
    kind, key = request
    slot = view.manager.view.srs.by_kind[kind].get(key)
    return NO_LONGER_MISSING if slot is None else int(view.manager.view.last_refresh[slot])


class UnknownKeyError(ConfigError):
    """A look-up of a key that no view holds."""


def tag_of(found: Sequence[Json]) -> str:
    """Return an ETag that changes with the values, not when they are merely fetched again."""
    views = [[(entry["entry"], entry["rows"]) for entry in view["entries"]] for view in found]
    values = repr([(view["queries"], entries) for view, entries in zip(found, views, strict=True)])
    return f'W/"{zlib.crc32(values.encode()):08x}-{len(values):x}"'


def key_text(key: Hashable) -> str:
    """Return a key as look-ups take it: its terms as in SPARQL, a lone IRI without brackets."""
    if not isinstance(key, tuple):
        return str(key)
    if len(key) == 1:
        return str(getattr(key[0], "value", key[0]))
    return " ".join("UNDEF" if term is None else str(term) for term in key)


def keys_of(text: str) -> list[Terms]:
    """Return all keys that a text may mean: IRIs or literals as in N-Triples, or bare, separated by spaces."""
    whole = [(term,) for term in _terms(text)]
    parts = PART.findall(text)
    if len(parts) < 2:
        return list(whole)
    several: list[Terms] = [()]
    for part in parts:
        several = [(*before, term) for before in several for term in _terms(part)][:64]
    return [*several, *whole]


def _terms(text: str) -> list[Term | None]:
    if text == "UNDEF":
        return [None]
    if text.startswith(("<", '"')):
        try:
            (quad,) = parse(f"<a:a> <a:a> {text} .", format=RdfFormat.N_TRIPLES)
        except (SyntaxError, ValueError):
            return [Literal(text)]
        return [quad.object]
    found: list[Term | None] = []
    if ":" in text:
        with suppress(ValueError):
            found.append(NamedNode(text))
    for number, kind in NUMBERS.items():
        if number.fullmatch(text):
            found.append(Literal(text, datatype=NamedNode(XSD + kind)))
    return [*found, Literal(text)]


def _row(names: Sequence[str], row: Terms) -> Json:
    return {name: term_json(term) for name, term in zip(names, row, strict=True) if term is not None}


def _like(views: Sequence[tuple[ServiceView, list[str]]]) -> str:
    """Return a hint that shows a key of these views."""
    for view, _ in views:
        if (first := next(iter(view.source.edges.copy()), None)) is not None:
            return f"; a key looks like {key_text(first)}"
    return ""
