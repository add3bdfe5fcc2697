"""Terms as numbers: an id stands for one term, and what the store calls equal is one term.

An id is never renumbered. One that nobody keeps any more is freed by a sweep and stands for another term later, so
that ids stay dense and memory stays flat where new terms never end. A spelling is read once by a parser; from then on
its bytes are enough.
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
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.native import plain_spellings
from freshkeeper.maintenance.engine.native.spelling_table import ID, NONE, UNKNOWN
from freshkeeper.maintenance.engine.native.spellings import Spellings
from freshkeeper.maintenance.engine.stored_literals import stored_terms

SMALL = 1 << 16
"""Spellings that are not worth a sweep."""
FEW_BYTES = 1 << 24
"""The same in bytes."""
FEW_HOLDERS = 1_000


class IdOwner(Protocol):
    """Something that keeps ids as long as somebody has it."""

    def mark(self, live: Bools) -> None:
        """Set live[id] for every id that is kept."""
        ...


@dataclass(eq=False)
class Dictionary:
    """The terms of one run, shared by its queries, streams, graphs and views."""

    width: int = 0
    """an array of this length has a place for every id"""
    sweeps: int = 0
    """how often ids were freed: what is remembered by id is of this many sweeps"""
    lock: RLock = field(default_factory=RLock)
    """held by a thread between the ids that it has got and the columns that keep them"""
    spellings: Spellings = field(default_factory=Spellings)
    row_of: Ids = field(default_factory=lambda: np.empty(1 << 10, np.int32))
    """of every id the spelling as the store writes it"""
    _decoded: dict[int, Term] = field(default_factory=dict)
    _free: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _holders: list[WeakMethod[Callable[[Bools], None]]] = field(default_factory=list)
    _alive: int = 0
    """holders that were left when they were looked through last"""
    _owners: WeakSet[IdOwner] = field(default_factory=WeakSet)
    _left: tuple[int, int] = (0, 0)
    """spellings and their bytes after the last sweep"""

    def __len__(self) -> int:
        """How many ids stand for a term."""
        return self.width - self._free.size

    def __bool__(self) -> bool:
        """One that knows no term yet is a dictionary as well."""
        return True

    def encode(self, terms: Iterable[Term]) -> Ints:
        """The ids of some terms."""
        with self.lock:
            wanted, first = list(terms), self.spellings.count
            rows = self.spellings.find_texts([text_of(term).encode() for term in wanted])
            if self.spellings.count > first:
                new, places = np.unique(rows, return_index=True)
                places = places[new >= first]
                self._learn(first + np.arange(places.size), [wanted[place] for place in places])
            return self.spellings.ids(rows)

    def id(self, term: Term) -> int:
        """The id of one term."""
        return int(self.encode([term])[0])

    def pattern(self, terms: tuple[Term | str, Term | str, Term | str]) -> tuple[int | str, int | str, int | str]:
        """A triple pattern over ids; variables keep their names."""
        s, p, o = (term if isinstance(term, str) else self.id(term) for term in terms)
        return s, p, o

    def encode_spans(self, words: Words, starts: Ints, sizes: Ints) -> Ints:
        """The ids of terms as a text spells them; negative where it spells none."""
        with self.lock:
            first = self.spellings.count
            rows = self.spellings.find(words, starts, sizes)
            if self.spellings.count > first:
                self._read(first)
            return self.spellings.ids(rows)

    def term(self, id: int) -> Term:
        """What an id stands for."""
        found = self._decoded.get(id)
        return self.terms(np.array([id]))[0] if found is None else found

    def terms(self, ids: Ints) -> list[Term]:
        """What some ids stand for."""
        wanted = ids.tolist()
        with self.lock:
            new = [id for id in dict.fromkeys(wanted) if id not in self._decoded]
            texts = self.texts(np.array(new, np.int64))
            self._decoded.update(zip(new, _parsed(texts, lenient=True), strict=True))
            return [self._decoded[id] for id in wanted]

    def texts(self, ids: Ints) -> list[bytes]:
        """What some ids stand for, as N-Triples."""
        assert ((ids >= 0) & (ids < self.width)).all(), "there is no such id"
        rows = self.row_of[ids]
        assert (rows != NONE).all(), "an id was freed"
        return self.spellings.texts(rows)

    def hold(self, mark: Callable[[Bools], None]) -> None:
        """A method of whoever keeps ids says which: `mark(live)` sets live[id] for each, as long as its owner lives."""
        with self.lock:
            if len(self._holders) > 2 * self._alive + FEW_HOLDERS:
                self._marks()
            self._holders.append(WeakMethod(mark))

    def keep(self, owner: IdOwner) -> None:
        """The same for what may go: it is asked as long as somebody else has it."""
        with self.lock:
            self._owners.add(owner)

    def sweep(self) -> None:
        """Free what nobody keeps, where there is twice as much as the last sweep left; between evaluations alone."""
        with self.lock:
            count, used = self._left
            if self.spellings.count <= max(SMALL, 2 * count) and self.spellings.used <= max(FEW_BYTES, 2 * used):
                return
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
        """Of the holders that still live."""
        found = [(one, mark) for one in self._holders if (mark := one()) is not None]
        self._holders, self._alive = [one for one, _ in found], len(found)
        return [mark for _, mark in found]

    def _read(self, first: int) -> None:
        """The rows from one on are new spellings: learn what they are."""
        spellings = self.spellings
        plain = plain_spellings.plain(spellings, first)
        right = plain_spellings.are_terms(spellings, first + np.flatnonzero(plain))
        if right:
            self._name(first + np.flatnonzero(plain))
        others = np.arange(first, spellings.count)[~plain] if right else np.arange(first, spellings.count)
        terms = _read_terms(spellings.texts(others))
        spellings.rows[others[[term is None for term in terms]], ID] = NONE
        known = [n for n, term in enumerate(terms) if term is not None]
        self._learn(others[known], [term for term in terms if term is not None])

    def _learn(self, rows: Ints, terms: Sequence[Term]) -> None:
        """These rows spell these terms: the ones that the store writes so get ids, the others are aliases."""
        stored = stored_terms(terms)
        written = self.spellings.find_texts([text_of(term).encode() for term in stored])
        self._name(np.unique(written[self.spellings.ids(written) == UNKNOWN]))
        self.spellings.rows[rows, ID] = self.spellings.ids(written)

    def _name(self, rows: Ints) -> None:
        """Give these rows an id each, for ever or until it is freed."""
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
    """What these spell; None where it is no term."""
    try:
        found = _parsed(texts)
    except (SyntaxError, ValueError):
        found = []
    return found if len(found) == len(texts) else [_read_term(text) for text in texts]


def _read_term(text: bytes) -> Term | None:
    try:
        found = _parsed([text])
    except (SyntaxError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def _parsed(texts: Iterable[bytes], lenient: bool = False) -> list[Term]:
    document = b"".join([b"_:a <a:> %b .\n" % text for text in texts])
    return [quad.object for quad in parse(document, format=RdfFormat.N_QUADS, lenient=lenient)]
