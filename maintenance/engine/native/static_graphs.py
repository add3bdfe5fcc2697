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
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.graph_columns import GraphColumns, Small
from freshkeeper.maintenance.engine.native.join_inputs import Relation
from freshkeeper.maintenance.engine.native.scanned_lines import ScannedLines
from freshkeeper.maintenance.engine.native.token_scan import OTHER, SKIPPED

T = TypeVar("T")
"""Is told of a graph's name, the triples that it has no more, and those that are new."""
Part = tuple[Small, Small, Small]
Parts = list[Part]
CHUNK = 1 << 25
"""Bytes of a file that are scanned at a time."""
MANY = 100_000
"""Quads that are encoded at a time."""


@dataclass(eq=False)
class StaticGraphs(Mapping[str, Iterable[Quad]]):
    """Graphs by IRI; whoever wants quads is given them, and whoever has a plan the columns."""

    dictionary: Dictionary
    inputs: dict[str, Iterable[Quad] | Path] = field(default_factory=dict)
    """quads, or the file or directory that has them"""
    _columns: dict[str, GraphColumns] = field(default_factory=dict)
    _watching: WeakKeyDictionary[Any, Callable[[Any], None]] = field(default_factory=WeakKeyDictionary)
    _following: WeakKeyDictionary[Any, Callable[..., None]] = field(default_factory=WeakKeyDictionary)
    _solved: dict[Hashable, Relation] = field(default_factory=dict)
    """what was made of the graphs as they are"""
    _lock: Lock = field(default_factory=Lock)
    _changing: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, graphs: Mapping[str, Iterable[Quad]], dictionary: Dictionary) -> "StaticGraphs":
        """Graphs that are shared already, or the same as columns when they are first asked for."""
        if isinstance(graphs, StaticGraphs) and graphs.dictionary is dictionary:
            return graphs
        again = (Collection, _Quads)
        return cls(dictionary, {name: each if isinstance(each, again) else [*each] for name, each in graphs.items()})

    def __post_init__(self) -> None:
        """What is loaded keeps its ids."""
        self.dictionary.hold(self._mark)

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.inputs)

    def __getitem__(self, name: str) -> Iterable[Quad]:
        """The quads of a graph, made anew each time they are asked for."""
        given = self.inputs[name]
        return _Quads(self.columns(name), self.dictionary) if isinstance(given, Path) else given

    def columns(self, name: str) -> GraphColumns:
        """A graph as columns, loaded when it is first asked for."""
        with self._lock:
            if name not in self._columns:
                self._columns[name] = self._load(self.inputs[name])
            return self._columns[name]

    def load(self) -> None:
        """All graphs, now; what cannot be read is an error."""
        for name in self.inputs:
            self.columns(name)

    def watch(self, owner: T, told: Callable[[T], None]) -> None:
        """Whoever has made something of graphs is told when one has changed; it must not forget it was told.

        `told` gets the owner and has no other hold on it, so that a query that is no more goes.
        """
        with self._lock:
            self._watching[owner] = told

    def follow(self, owner: T, told: Callable[[T, str, list[Quad], list[Quad]], None]) -> None:
        """Whoever has a graph's triples is told which have gone and come when it has changed; else as `watch`."""
        with self._lock:
            self._following[owner] = told

    def read(self, given: Iterable[Quad] | Path) -> GraphColumns:
        """What `change` may be given."""
        found = self._load(given)
        self.dictionary.keep(found)
        return found

    def change(self, name: str, given: Iterable[Quad] | Path | GraphColumns | None = None) -> None:
        """A graph is another one now, or its file was written anew; what was made of it is made again.

        Queries go on with what they have until that is done: call it in a thread where they should not wait.
        """
        with self._changing:
            before = self.columns(name) if self._following else None
            if before is not None:
                self.dictionary.keep(before)
            if not isinstance(given, GraphColumns):
                self.inputs[name] = self.inputs[name] if given is None else given
            loaded = given if isinstance(given, GraphColumns) else self._load(self.inputs[name])
            with self._lock:
                self._columns[name] = loaded
                self._solved.clear()
                watching, following = list(self._watching.items()), list(self._following.items())
            for owner, told in watching:
                told(owner)
            if before is not None:
                gone, come = self._quads(before.without(loaded)), self._quads(loaded.without(before))
                for follower, follow in following:
                    follow(follower, name, gone, come)

    def solved(self, key: Hashable, solve: Callable[[], Relation]) -> Relation:
        """The solutions of a sub-query, found once for all queries that have it."""
        found = self._solved.get(key)
        if found is None:
            found = solve()
            self.dictionary.keep(found)
            self._solved[key] = found
        return found

    def _load(self, given: Iterable[Quad] | Path) -> GraphColumns:
        loading = _Loading([])
        self.dictionary.keep(loading)
        read = read_columns(given, self.dictionary) if isinstance(given, Path) else encoded(given, self.dictionary)
        while True:
            with self.dictionary.lock:  # streams are encoded between two parts
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
    """What was read of a graph so far."""

    parts: Parts

    def mark(self, live: Bools) -> None:
        """Its ids are kept."""
        for ids in (ids for part in self.parts for ids in part):
            live[ids] = True


@dataclass(frozen=True, eq=False)
class _Quads:
    """The triples of columns as quads."""

    columns: GraphColumns
    dictionary: Dictionary

    def __iter__(self) -> Iterator[Quad]:
        columns = self.columns
        for first in range(0, len(columns), MANY):
            here = slice(first, first + MANY)
            terms = (self.dictionary.terms(each[here].astype(np.int64)) for each in (columns.s, columns.p, columns.o))
            yield from (Quad(s, p, o, DefaultGraph()) for s, p, o in zip(*terms, strict=True))


def encoded(quads: Iterable[Quad], dictionary: Dictionary) -> Iterator[Part]:
    """Quads as columns, part by part."""
    rest = iter(quads)
    while some := list(islice(rest, MANY)):
        ids = dictionary.encode(term for quad in some for term in (quad.subject, quad.predicate, quad.object))
        s, p, o = ids.astype(np.int32).reshape(-1, 3).T
        yield s, p, o


def read_columns(path: Path, dictionary: Dictionary) -> Iterator[Part]:
    """A file as columns; N-Triples without blank nodes are scanned, all else is parsed as it always was."""
    if path.suffix != ".nt" or not path.is_file():
        yield from encoded(load_graph(path), dictionary)
        return
    try:
        with path.open("rb") as file:
            for text in _chunks(file):
                if (part := _scanned(text, dictionary)) is None:  # what was read before is read again: it is a set
                    yield from encoded(load_graph(path), dictionary)
                    return
                yield part
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _scanned(text: bytes, dictionary: Dictionary) -> Part | None:
    """The triples of some lines; None where the scan does not understand them all."""
    if b"_:" in text or b"<<" in text:
        return None
    scanned = ScannedLines.of(text, timed=False)
    ids: Ints = scanned.terms(dictionary)
    if (scanned.kinds == OTHER).any() or scanned.sizes[3, scanned.kinds != SKIPPED].any():
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
