"""Data of which a part changes: elements with the time in which they hold, served annotated in some style.

What will come is known from the file, as in a timetable, so a page can say exactly when it is another one. Expirations
keep the last value only; with `history` what is over stays, as intervals allow, and what holds now can be asked for
alone.
Live elements may come at any time, so pages then tell no more than the notice with which each of them comes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from pathlib import Path

from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse

from freshkeeper.maintenance.annotated.page_writer import Place
from freshkeeper.maintenance.annotated.served_data import FOREVER, Slices
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.sources.fragments.annotation_style import Held, Style
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

SHORT = "it came later than the notice that was promised: pages may have been kept meanwhile"
ELEMENT = "urn:freshkeeper:element:"
LAST = 253_402_300_799_999
"""The end of the year 9999, which dates can say."""


@dataclass(eq=False)
class AnnotatedData:
    """Static quads, and elements that come and go."""

    static: Sequence[Quad]
    elements: Sequence[Held]
    style: Style = field(default_factory=Style)
    base: str = ""
    """the address of the fragments, of which implicit annotations speak"""
    history: bool = False
    """whether what is over stays"""
    notice: int | None = None
    """for live elements: how long before it begins each of them comes, in milliseconds; None: none come"""
    _version: int = 0
    _names: Iterator[int] = field(default_factory=count)
    _coming: list[tuple[int, int, Held]] = field(default_factory=list)
    """a heap: since when, the number of the element, the element"""
    _there: dict[int, Held] = field(default_factory=dict)
    """what is there now, by number"""
    _ends: list[tuple[int, int]] = field(default_factory=list)
    """a heap: when each of these ends, and its number"""

    def __post_init__(self) -> None:
        self._coming = [(held.since, next(self._names), held) for held in self.elements]
        heapify(self._coming)
        dynamic = {held.triple.predicate for held in self.elements}
        self._unchanging = {quad.predicate for quad in self.static} - dynamic
        self._store = Store()
        self._store.extend(self.static)
        self._slices = Slices(self._store)
        self.holding: HoldingNow | None = None
        if self.history:
            self.holding = HoldingNow(self)

    def add(self, held: Held, now: int) -> str:
        """An element that was not known before; says why it cannot be, or nothing."""
        if held.until <= now:
            return "it is over already"
        if held.triple.predicate in self._unchanging:
            return f"{held.triple.predicate} was served as what never changes: name it in --elements"
        heappush(self._coming, (held.since, next(self._names), held))
        return SHORT if self.notice and held.since < now + self.notice else ""

    def version(self, now: int) -> int:
        """How often anything changed until now."""
        if not (self._ends and self._ends[0][0] <= now) and not (self._coming and self._coming[0][0] <= now):
            return self._version
        while self._ends and self._ends[0][0] <= now:
            _, number = heappop(self._ends)
            self._change(number, self._there.pop(number), added=False)
        while self._coming and self._coming[0][0] <= now:
            _, number, held = heappop(self._coming)
            if held.until > now:
                self._there[number] = held
                heappush(self._ends, (held.until, number))
                self._change(number, held, added=True)
            elif self.history:
                self._store.extend(self._quads(number, held))
        self._slices.forget()
        self._version += 1
        return self._version

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """As the data are now."""
        self.version(now)
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """Until the next element comes or goes, where the fragment may have any; live ones come with their notice."""
        if pattern.predicate in self._unchanging:
            return FOREVER
        self.version(now)
        known = min([self._ends[0][0] if self._ends else FOREVER, self._coming[0][0] if self._coming else FOREVER])
        if self.notice is None:
            return known
        return min(known, now + self.notice) if self.notice else None

    def _change(self, number: int, held: Held, added: bool) -> None:
        quads = self._quads(number, held)
        if self.holding is not None:
            self.holding.change(quads, added)
        if added:
            self._store.extend(quads)
        elif not self.history:
            for quad in quads:
                self._store.remove(quad)

    def _quads(self, number: int, held: Held) -> list[Quad]:
        return list(self.style.written(held, f"{ELEMENT}{number}", self._address))

    def _address(self, pattern: QuadPattern) -> str:
        return Place(self.base, pattern, 1, 1, 0).fragment


@dataclass(eq=False)
class HoldingNow:
    """Of data with a history, what holds now."""

    whole: AnnotatedData
    holding: None = None

    def __post_init__(self) -> None:
        self._store = Store()
        self._store.extend(self.whole.static)
        self._slices = Slices(self._store)

    def change(self, quads: Sequence[Quad], added: bool) -> None:
        """Quads that hold from now on, or no longer."""
        self._slices.forget()
        if added:
            self._store.extend(quads)
            return
        for quad in quads:
            self._store.remove(quad)

    def version(self, now: int) -> int:
        """That of the data with their history: what holds now changes with it."""
        return self.whole.version(now)

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """As the data are now."""
        self.whole.version(now)
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """Until when the fragment stays as it is, as the data with their history know."""
        return self.whole.until(pattern, now)


def read_elements_file(path: Path, shift: int = 0) -> list[Held]:
    """Lines of since, until and a statement, with tabs between; times in milliseconds, later by `shift`."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            found.append(read_element(line, f"{path}, line {number}", shift))
    return found


def read_element(line: str, where: str, shift: int = 0) -> Held:
    """The element of a line."""
    parts = line.split("\t", 2)
    if len(parts) != 3 or not all(part.strip().lstrip("-").isdigit() for part in parts[:2]):
        raise InputError(f"{where}: {line[:80]!r} is not <since ms>, a tab, <until ms>, a tab, and a statement")
    since, until = int(parts[0]) + shift, int(parts[1]) + shift
    if not 0 < since < until <= LAST:
        raise InputError(f"{where}: it would end at {parts[1]}, and begins at {parts[0]}: an element holds for a while")
    try:
        quads = list(parse(parts[2], format=RdfFormat.N_TRIPLES))
    except SyntaxError as error:
        raise InputError(f"{where}: {error.msg}") from None
    if len(quads) != 1 or not isinstance(quads[0].subject, NamedNode):
        raise InputError(f"{where}: one statement about an IRI belongs on a line")
    return Held(quads[0].triple, since, until)
