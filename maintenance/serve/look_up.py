"""What views hold of one key, for whoever asks beside the queries: read while the engine works, without waiting for it.

How likely copies are fresh is laid out after evaluations, once a second at most, and goes on by the clock from there. A
copy is read in an order in which it is never told to be younger than it is: its time first, then its value.
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

OFTEN = 1.0
"""Seconds between two times at which beliefs are laid out."""
LOOK = 0.02
"""Seconds between two looks at whether what is wanted is there."""
FOREVER = 2**62
AHEAD = 1_000
"""Milliseconds over which it is seen how fast beliefs fade."""
XSD = "http://www.w3.org/2001/XMLSchema#"
PART = re.compile(r'<[^<>"{}|^`\\\x00-\x20]*>|"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^<>"{}|^`\\\x00-\x20]*>)?|\S+')
NUMBERS = {
    re.compile(r"[+-]?\d+"): "integer",
    re.compile(r"[+-]?\d*\.\d+"): "decimal",
    re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)[eE][+-]?\d+"): "double",
    re.compile(r"true|false"): "boolean",
}
Told: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Layout:
    """At an instant how likely each copy is fresh, and the rates at which that fades."""

    now: int
    """in event time"""
    wall: float
    """by the clock that nobody sets"""
    kept: Floats
    rates: Floats
    usual: float
    """the rate of an entry that has come since"""

    def instant(self, wall: float) -> int:
        """Event time as it goes on by the clock."""
        return self.now + int(max(0.0, wall - self.wall) * 1000)

    def chance(self, slot: int, read: int, now: int) -> float:
        """How likely a copy is fresh that was read at an instant."""
        known = slot < self.rates.size
        rate = float(self.rates[slot]) if known else self.usual
        since, chance = (self.now, float(self.kept[slot])) if known and read <= self.now else (read, 1.0)
        if read == self.now:
            chance = 1.0
        return chance * math.exp(-rate * max(0, now - since))


@dataclass(eq=False)
class LookUps:
    """The beliefs of all views."""

    clock: Callable[[], float] = time.monotonic
    _layouts: WeakKeyDictionary[Manager, Layout] = field(default_factory=WeakKeyDictionary)

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        """One evaluation of a view, from the thread that evaluates."""
        del source
        before, wall = self._layouts.get(manager), self.clock()
        if before is not None and wall < before.wall + OFTEN:
            return
        now, read = evaluation.record.t_ms, manager.view.last_refresh
        beliefs = manager.model.beliefs(np.array([now, now + AHEAD]), read, False)
        with np.errstate(divide="ignore"):
            rates = np.minimum(-np.log(np.maximum(beliefs.refreshed[:, 1], 1e-12)), 20.0) / AHEAD
        held = read != NEVER
        usual = float(rates[held].mean()) if held.any() else 0.0
        self._layouts[manager] = Layout(now, wall, beliefs.kept[:, 0].copy(), rates, usual)

    def find(self, queries: Registrations, source: str, text: str, query: str = "") -> list[Told]:
        """What each view of a source holds of a key; UnknownNameError where none does."""
        views = self._views(queries, source, query)
        keys = keys_of(text)
        found = [told for view, users in views if (told := self._held(view, users, keys)) is not None]
        if found:
            return found
        for view, _ in views:
            if any(key in view.manager.view.misses for key in keys):
                raise UnknownKeyError(f"{text} is asked for by a window, and was not fetched from <{source}> yet")
        raise UnknownKeyError(f"no view of <{source}> holds {text}{_like(views)}")

    async def fetch(self, queries: Registrations, source: str, text: str, query: str, seconds: float) -> bool:
        """Want a key first in the next evaluations, within their budgets, until it was fetched; whether it was."""
        keys, until = keys_of(text), time.monotonic() + seconds
        views = [view for view, _ in self._views(queries, source, query)]
        before = {(view, asked): _read_at(view, asked) for view in views for asked in _asked(view, keys)}
        waiting, told = dict(before), dict[ServiceView, int | None]()
        while waiting and time.monotonic() < until:
            for view, asked in waiting:
                if told.get(view, NEVER) != view.now:
                    view.want(asked)
            told = {view: view.now for view, _ in waiting}
            await asyncio.sleep(LOOK)
            waiting = {one: read for one, read in waiting.items() if _read_at(*one) == read}
        return bool(before) and not waiting

    def _views(self, queries: Registrations, source: str, query: str) -> list[tuple[ServiceView, list[str]]]:
        if source not in queries.sources:
            raise UnknownNameError("source", source, queries.sources)
        if query:
            queries.named(query)
        found: dict[ServiceView, list[str]] = {}
        for name in [query] if query else list(queries.running):
            for of, view in queries.views_of(name):
                if of == source:
                    found.setdefault(view, []).append(name)
        if not found:
            whose = f"the query {query} has" if query else "no running query has"
            raise UnknownKeyError(f"{whose} {'no view' if query else 'a view'} of <{source}>")
        return list(found.items())

    def _held(self, view: ServiceView, users: list[str], keys: Sequence[Terms]) -> Told | None:
        for key in keys:
            entries = list(self._entries(view, key))
            if entries:
                return {"queries": users, "entries": entries}
        return None

    def _entries(self, view: ServiceView, key: Terms) -> Iterator[Told]:
        """Of a lookup key the rows of all entries that it needs, or else of a cached entry its own."""
        split, endpoint = view.source.split, view.source
        edges = endpoint.edges.get(key) if len(key) == len(split.sn) else None
        if edges is not None:
            for entry in list(edges):
                if (held := self._copy(view, entry)) is not None:
                    value, told = held
                    rows = endpoint.rows(key, entry, value)
                    yield told | {"rows": [_row(endpoint.variables, row) for row in rows]}
        elif len(key) == len(split.key) and (held := self._copy(view, key)) is not None:
            value, told = held
            rows = [(*key, *row) for row in value]
            yield told | {"rows": [_row((*split.key, *split.values), row) for row in rows]}

    def _copy(self, view: ServiceView, key: Terms) -> tuple[Sequence[Terms], Told] | None:
        """The value of an entry, and what is known of it."""
        manager, layout = view.manager, self._layouts.get(view.manager)
        held = manager.view
        slot = held.srs.numbers.get(key)
        if slot is None or (read := int(held.last_refresh[slot])) == NEVER:
            return None
        value: Any = held.values[slot]
        if held.srs.keys[slot] != key or value is None:
            return None
        now = read if layout is None else max(layout.instant(self.clock()), read)
        told = {
            "entry": key_text(key),
            "age_ms": now - read,
            "fetched_ms": read,
            "freshness": None if layout is None else round(layout.chance(slot, read, now), 6),
            "refreshing": view.fetcher.is_fetching((Kind.COPY, key)),
        }
        return value, told


def _asked(view: ServiceView, keys: Sequence[Terms]) -> list[EntryId]:
    """What a source is asked for to renew what a view holds of a key."""
    held = view.manager.view
    for key in keys:
        if key in held.misses:
            return [(Kind.MISS, key)]
        if edges := view.source.edges.get(key):
            return [(Kind.COPY, entry) for entry in list(edges) if entry in held.srs.numbers]
        if key in held.srs.numbers:
            return [(Kind.COPY, key)]
    return []


def _read_at(view: ServiceView, asked: EntryId) -> int:
    """When it was read; a lookup key that is no more missing was, at no time that could be before."""
    kind, key = asked
    slot = view.manager.view.srs.by_kind[kind].get(key)
    return FOREVER if slot is None else int(view.manager.view.last_refresh[slot])


class UnknownKeyError(ConfigError):
    """A key that no view holds."""


def tag_of(found: Sequence[Told]) -> str:
    """What changes when a value does, and not when it was merely fetched again."""
    values = repr([(one["queries"], [(entry["entry"], entry["rows"]) for entry in one["entries"]]) for one in found])
    return f'W/"{zlib.crc32(values.encode()):08x}-{len(values):x}"'


def key_text(key: Hashable) -> str:
    """A key for people, and for the look-up door: its terms as SPARQL writes them, but a lone IRI without brackets."""
    if not isinstance(key, tuple):
        return str(key)
    if len(key) == 1:
        return str(getattr(key[0], "value", key[0]))
    return " ".join("UNDEF" if term is None else str(term) for term in key)


def keys_of(text: str) -> list[Terms]:
    """What a text may mean: an IRI or a literal as N-Triples has it, or bare; several with spaces between them."""
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


def _row(names: Sequence[str], row: Terms) -> Told:
    return {name: term_json(term) for name, term in zip(names, row, strict=True) if term is not None}


def _like(views: Sequence[tuple[ServiceView, list[str]]]) -> str:
    """What keys are like here."""
    for view, _ in views:
        if (first := next(iter(view.source.edges.copy()), None)) is not None:
            return f"; a key looks like {key_text(first)}"
    return ""
