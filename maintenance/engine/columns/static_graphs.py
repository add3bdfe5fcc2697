"""Static graphs as columns, encoded once and shared by all queries of a run."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from pyoxigraph import DefaultGraph, Quad

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.rdf_files import load_graph
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ScannedLines
from freshkeeper.maintenance.engine.columns.graph_columns import GraphColumns, SmallInts
from freshkeeper.maintenance.engine.columns.join_inputs import Relation
from freshkeeper.maintenance.engine.columns.token_scan import NOT_UNDERSTOOD, SKIPPED

T = TypeVar("T")
Part = tuple[SmallInts, SmallInts, SmallInts]
Parts = list[Part]
CHUNK = 1 << 25
"""Bytes of a file that are scanned at a time."""
QUADS_AT_ONCE = 100_000
"""Quads that are encoded or decoded at a time."""


@dataclass(eq=False)
class StaticGraphs(Mapping[str, Iterable[Quad]]):
    """Graphs by IRI, as quads for the snapshot evaluator and as columns for native plans."""

    dictionary: Dictionary
    inputs: dict[str, Iterable[Quad] | Path] = field(default_factory=dict)
    """quads, or the file or directory that contains them"""
    _columns: dict[str, GraphColumns] = field(default_factory=dict)
    _watching: WeakKeyDictionary[Any, Callable[[Any], None]] = field(default_factory=WeakKeyDictionary)
    _following: WeakKeyDictionary[Any, Callable[..., None]] = field(default_factory=WeakKeyDictionary)
    _solved: dict[Hashable, Relation] = field(default_factory=dict)
    """solutions of sub-queries over the present graphs"""
    _lock: Lock = field(default_factory=Lock)
    _changing: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, graphs: Mapping[str, Iterable[Quad]], dictionary: Dictionary) -> "StaticGraphs":
        """Return graphs as shared columns, which are encoded on first use."""
        if isinstance(graphs, StaticGraphs) and graphs.dictionary is dictionary:
            return graphs
        again = (Collection, _Quads)
        return cls(dictionary, {name: each if isinstance(each, again) else [*each] for name, each in graphs.items()})

    def __post_init__(self) -> None:
        """Register with the dictionary, so that a sweep keeps the ids of loaded graphs."""
        self.dictionary.hold(self._mark)

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.inputs)

    def __getitem__(self, name: str) -> Iterable[Quad]:
        """Return the quads of a graph; those of a file are decoded anew at each call."""
        given = self.inputs[name]
        if isinstance(given, Path):
            return _Quads(self.columns(name), self.dictionary)
        return given

    def columns(self, name: str) -> GraphColumns:
        """Return a graph as columns, loaded on first use."""
        with self._lock:
            if name not in self._columns:
                self._columns[name] = self._load(self.inputs[name])
            return self._columns[name]

    def load(self) -> None:
        """Load all graphs now; raise InputError if one cannot be read."""
        for name in self.inputs:
            self.columns(name)

    def watch(self, owner: T, changed: Callable[[T], None]) -> None:
        """Call `changed(owner)` whenever a graph has changed, as long as the owner lives.

        `changed` must not refer to the owner itself, or the owner would never be freed.
        """
        with self._lock:
            self._watching[owner] = changed

    def follow(self, owner: T, changed: Callable[[T, str, list[Quad], list[Quad]], None]) -> None:
        """Call `changed(owner, name, removed, added)` with the quads of every change, as `watch` does without them."""
        with self._lock:
            self._following[owner] = changed

    def read(self, given: Iterable[Quad] | Path) -> GraphColumns:
        """Load a graph in the form that `change` takes."""
        found = self._load(given)
        self.dictionary.keep(found)
        return found

    def change(self, name: str, given: Iterable[Quad] | Path | GraphColumns | None = None) -> None:
        """Replace a graph, or read its file again, and solve again what depends on it.

        Queries use the old graph until this is done; call it in a thread of its own if they must not wait.
        """
        # One change at a time: `before` must be the graph that the followers know.
        with self._changing:
            before = self.columns(name) if self._following else None
            if before is not None:
                self.dictionary.keep(before)
            if not isinstance(given, GraphColumns):
                self.inputs[name] = self.inputs[name] if given is None else given
            if isinstance(given, GraphColumns):
                loaded = given
            else:
                loaded = self._load(self.inputs[name])
            with self._lock:
                self._columns[name] = loaded
                self._solved.clear()
                watching, following = list(self._watching.items()), list(self._following.items())
            for owner, changed in watching:
                changed(owner)
            if before is not None:
                gone, come = self._quads(before.without(loaded)), self._quads(loaded.without(before))
                for follower, follow in following:
                    follow(follower, name, gone, come)

    def solved(self, key: Hashable, solve: Callable[[], Relation]) -> Relation:
        """Return the solutions of a sub-query, computed once for all queries that have it."""
        found = self._solved.get(key)
        if found is None:
            found = solve()
            self.dictionary.keep(found)
            self._solved[key] = found
        return found

    def _load(self, given: Iterable[Quad] | Path) -> GraphColumns:
        loading = _Loading([])
        self.dictionary.keep(loading)
        if isinstance(given, Path):
            read = read_columns(given, self.dictionary)
        else:
            read = encoded(given, self.dictionary)
        while True:
            with self.dictionary.lock:  # released between parts, so that streams can be encoded meanwhile
                if (part := next(read, None)) is None:
                    return GraphColumns.of(loading.parts)
                loading.parts.append(part)

    def _quads(self, columns: GraphColumns) -> list[Quad]:
        return list(_Quads(columns, self.dictionary))

    def _mark(self, live: Bools) -> None:
        for graph in [*self._columns.values()]:
            graph.mark(live)


@dataclass(frozen=True, eq=False)
class _Loading:
    """The parts of a graph that have been read, whose ids must be kept."""

    parts: Parts

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of all parts."""
        for ids in (ids for part in self.parts for ids in part):
            live[ids] = True


@dataclass(frozen=True, eq=False)
class _Quads:
    """The triples of columns, as quads."""

    columns: GraphColumns
    dictionary: Dictionary

    def __iter__(self) -> Iterator[Quad]:
        columns = self.columns
        for first in range(0, len(columns), QUADS_AT_ONCE):
            here = slice(first, first + QUADS_AT_ONCE)
            terms = (self.dictionary.terms(each[here].astype(np.int64)) for each in (columns.s, columns.p, columns.o))
            yield from (Quad(s, p, o, DefaultGraph()) for s, p, o in zip(*terms, strict=True))


def encoded(quads: Iterable[Quad], dictionary: Dictionary) -> Iterator[Part]:
    """Yield quads as columns, in parts."""
    rest = iter(quads)
    while some := list(islice(rest, QUADS_AT_ONCE)):
        ids = dictionary.encode(term for quad in some for term in (quad.subject, quad.predicate, quad.object))
        s, p, o = ids.astype(np.int32).reshape(-1, 3).T
        yield s, p, o


def read_columns(path: Path, dictionary: Dictionary) -> Iterator[Part]:
    """Yield a file as columns, in parts; N-Triples without blank nodes are scanned, everything else is parsed."""
    if path.suffix != ".nt" or not path.is_file():
        yield from encoded(load_graph(path), dictionary)
        return
    try:
        with path.open("rb") as file:
            for text in _chunks(file):
                if (part := _scanned(text, dictionary)) is None:
                    # Start again with the parser; triples that come twice do no harm, because a graph is a set.
                    yield from encoded(load_graph(path), dictionary)
                    return
                yield part
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _scanned(text: bytes, dictionary: Dictionary) -> Part | None:
    """Return the triples of some lines, or None if the scanner does not understand all of them."""
    if b"_:" in text or b"<<" in text:
        return None
    scanned = ScannedLines.of(text, timed=False)
    ids: Ints = scanned.terms(dictionary)
    if (scanned.kinds == NOT_UNDERSTOOD).any() or scanned.sizes[3, scanned.kinds != SKIPPED].any():
        return None
    s, p, o = ids[:, scanned.kinds != SKIPPED].astype(np.int32)
    return s, p, o


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    for text in iter(partial(file.read, CHUNK), b""):
        lines, end, after = (rest + text).rpartition(b"\n")
        rest = after
        if end:
            yield lines
    if rest:
        yield rest
