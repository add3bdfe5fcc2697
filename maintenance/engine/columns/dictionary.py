"""Terms as integers: an id stands for one term, and terms that the store treats as equal have one id.

An id is never renumbered. A sweep frees the ids that nothing keeps any more; they are used again for other terms, so
that ids stay dense and memory stays bounded on streams with ever new terms. A spelling is parsed once; afterwards its
bytes are enough.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Protocol
from weakref import WeakMethod, WeakSet

import numpy as np
from pyoxigraph import RdfFormat, parse

from freshkeeper.maintenance.base.arrays import Bools, Ids, Ints, Words, grown
from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.engine.columns.spelling_table import ID, NONE, UNKNOWN
from freshkeeper.maintenance.engine.columns.spellings import Spellings, are_terms, plain_rows
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.stored_literals import stored_terms

SWEEP_FROM_SPELLINGS = 1 << 16
"""No sweep runs below this number of spellings."""
SWEEP_FROM_BYTES = 1 << 24
"""No sweep runs below this many bytes of spellings, unless there are too many spellings."""
PRUNE_HOLDERS_FROM = 1_000


class IdOwner(Protocol):
    """Keeps ids for as long as it is referenced."""

    def mark(self, live: Bools) -> None:
        """Set live[id] for every id that it keeps."""
        ...


@dataclass(eq=False)
class Dictionary:
    """The terms of one run, shared by its queries, streams, graphs and views."""

    width: int = 0
    """the length of an array with a place for every id"""
    sweeps: int = 0
    """how often ids were freed; anything cached by id is valid for one such number"""
    lock: RLock = field(default_factory=RLock)
    """held by a thread from encoding terms until the columns that keep the ids exist"""
    spellings: Spellings = field(default_factory=Spellings)
    row_of: Ids = field(default_factory=lambda: np.empty(1 << 10, np.int32))
    """by id: the row of the spelling that the store writes"""
    _decoded: dict[int, Term] = field(default_factory=dict)
    _free: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _holders: list[WeakMethod[Callable[[Bools], None]]] = field(default_factory=list)
    _alive: int = 0
    """holders that were alive at the last count"""
    _owners: WeakSet[IdOwner] = field(default_factory=WeakSet)
    _left: tuple[int, int] = (0, 0)
    """spellings and their bytes after the last sweep"""

    def __len__(self) -> int:
        """Return how many ids stand for a term."""
        return self.width - self._free.size

    def __bool__(self) -> bool:
        """Return True: an empty dictionary is a dictionary too."""
        return True

    def encode(self, terms: Iterable[Term]) -> Ints:
        """Return the ids of terms."""
        with self.lock:
            wanted, first = list(terms), self.spellings.count
            rows = self.spellings.find_texts([text_of(term).encode() for term in wanted])
            if self.spellings.count > first:
                new, places = np.unique(rows, return_index=True)
                places = places[new >= first]
                self._learn(first + np.arange(places.size), [wanted[place] for place in places])
            return self.spellings.ids(rows)

    def id(self, term: Term) -> int:
        """Return the id of one term."""
        return int(self.encode([term])[0])

    def pattern(self, terms: tuple[Term | str, Term | str, Term | str]) -> tuple[int | str, int | str, int | str]:
        """Return a triple pattern with ids for terms; variables keep their names."""
        s, p, o = (term if isinstance(term, str) else self.id(term) for term in terms)
        return s, p, o

    def encode_spans(self, words: Words, starts: Ints, sizes: Ints) -> Ints:
        """Return the ids of terms by their position in a text; negative if the bytes are not a term."""
        with self.lock:
            first = self.spellings.count
            rows = self.spellings.find(words, starts, sizes)
            if self.spellings.count > first:
                self._read(first)
            return self.spellings.ids(rows)

    def term(self, id: int) -> Term:
        """Return the term of an id."""
        found = self._decoded.get(id)
        return self.terms(np.array([id]))[0] if found is None else found

    def terms(self, ids: Ints) -> list[Term]:
        """Return the terms of ids."""
        wanted = ids.tolist()
        with self.lock:
            new = [id for id in dict.fromkeys(wanted) if id not in self._decoded]
            texts = self.texts(np.array(new, np.int64))
            self._decoded.update(zip(new, _parsed(texts, lenient=True), strict=True))
            return [self._decoded[id] for id in wanted]

    def texts(self, ids: Ints) -> list[bytes]:
        """Return the terms of ids as N-Triples."""
        assert ((ids >= 0) & (ids < self.width)).all(), "there is no such id"
        rows = self.row_of[ids]
        assert (rows != NONE).all(), "an id was freed"
        return self.spellings.texts(rows)

    def hold(self, mark: Callable[[Bools], None]) -> None:
        """Register a bound method that sets live[id] for the ids its owner keeps, as long as the owner lives."""
        with self.lock:
            if len(self._holders) > 2 * self._alive + PRUNE_HOLDERS_FROM:
                self._marks()
            self._holders.append(WeakMethod(mark))

    def keep(self, owner: IdOwner) -> None:
        """Register an owner of ids that may be dropped at any time; only a weak reference is held."""
        with self.lock:
            self._owners.add(owner)

    def sweep(self) -> None:
        """Free unused ids if spellings have doubled since the last sweep; call it between evaluations only."""
        with self.lock:
            count, used = self._left
            if self.spellings.count <= max(SWEEP_FROM_SPELLINGS, 2 * count) and self.spellings.used <= max(
                SWEEP_FROM_BYTES, 2 * used
            ):
                return
            # Mark and sweep: every holder marks its ids, everything else is freed.
            live = np.zeros(self.width, np.bool_)
            for mark in [*self._marks(), *(owner.mark for owner in self._owners)]:
                mark(live)
            self.spellings.compact(live, self.row_of)
            self.row_of[: self.width][~live] = NONE
            self._free = np.flatnonzero(~live)[::-1]
            self._left = self.spellings.count, self.spellings.used
            self._decoded.clear()
            self.sweeps += 1

    def _marks(self) -> list[Callable[[Bools], None]]:
        """Return the methods of holders that are still alive, and forget the others."""
        found = [(one, mark) for one in self._holders if (mark := one()) is not None]
        self._holders, self._alive = [one for one, _ in found], len(found)
        return [mark for _, mark in found]

    def _read(self, first: int) -> None:
        """Learn the new spellings, which are the rows from `first` on."""
        spellings = self.spellings
        plain = plain_rows(spellings, first)
        # One parse of all plain spellings together tells whether all are terms, without building one Python object for
        # each.
        right = are_terms(spellings, first + np.flatnonzero(plain))
        if right:
            self._name(first + np.flatnonzero(plain))
        if right:
            others = np.arange(first, spellings.count)[~plain]
        else:
            others = np.arange(first, spellings.count)
        terms = _read_terms(spellings.texts(others))
        spellings.rows[others[[term is None for term in terms]], ID] = NONE
        known = [n for n, term in enumerate(terms) if term is not None]
        self._learn(others[known], [term for term in terms if term is not None])

    def _learn(self, rows: Ints, terms: Sequence[Term]) -> None:
        """Record that these rows spell these terms.

        The spelling that the store writes gets an id; other spellings of the same term become aliases of it.
        """
        stored = stored_terms(terms)
        written = self.spellings.find_texts([text_of(term).encode() for term in stored])
        self._name(np.unique(written[self.spellings.ids(written) == UNKNOWN]))
        self.spellings.rows[rows, ID] = self.spellings.ids(written)

    def _name(self, rows: Ints) -> None:
        """Give each of these rows an id, a free one if possible."""
        reused = min(rows.size, self._free.size)
        keep = self._free.size - reused
        fresh = np.arange(self.width, self.width + rows.size - reused)
        ids = np.concatenate([self._free[keep:][::-1], fresh])
        self._free, self.width = self._free[:keep], self.width + fresh.size
        if self.width > self.row_of.size:
            self.row_of = grown(self.row_of, self.width)
        self.spellings.rows[rows, ID] = ids
        self.row_of[ids] = rows


def _read_terms(texts: Sequence[bytes]) -> Sequence[Term | None]:
    """Return the terms of spellings, None for what is not a term."""
    try:
        found = _parsed(texts)
    except (SyntaxError, ValueError):
        found = []
    if len(found) == len(texts):
        return found
    return [_read_term(text) for text in texts]


def _read_term(text: bytes) -> Term | None:
    try:
        found = _parsed([text])
    except (SyntaxError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def _parsed(texts: Iterable[bytes], lenient: bool = False) -> list[Term]:
    document = b"".join([b"_:a <a:> %b .\n" % text for text in texts])
    return [quad.object for quad in parse(document, format=RdfFormat.N_QUADS, lenient=lenient)]
