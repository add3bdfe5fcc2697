"""Data of which a part changes: elements with validity intervals, served with annotations in some style.

Future elements are known from a file, as in a timetable, so the server can say exactly when a page changes. Expirations
keep only the last value; with `history` past elements stay, as intervals allow, and the current data can be requested
on its own. Live elements may arrive at any time, so the validity of a page is then limited to the notice with which
each of them arrives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from pathlib import Path

from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse

from freshkeeper.maintenance.annotated.page_writer import PagePosition
from freshkeeper.maintenance.annotated.served_data import FragmentSlices
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationStyle, TimedTriple
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

SHORT_NOTICE = "it arrived with less than the promised notice, so clients may still hold older pages"
ELEMENT = "urn:freshkeeper:element:"
MAX_TIME_MS = 253_402_300_799_999
"""The end of the year 9999, the last instant that xsd:dateTime can express here."""


@dataclass(eq=False)
class AnnotatedData:
    """Static quads, and elements that begin and end."""

    static: Sequence[Quad]
    elements: Sequence[TimedTriple]
    style: AnnotationStyle = field(default_factory=AnnotationStyle)
    base: str = ""
    """the address of the fragments, which implicit annotations refer to"""
    history: bool = False
    """keep elements that have ended"""
    notice: int | None = None
    """for live elements: how many milliseconds before it begins each of them arrives; None: there are none"""
    _version: int = 0
    _names: Iterator[int] = field(default_factory=count)
    _coming: list[tuple[int, int, TimedTriple]] = field(default_factory=list)
    """a heap of (begin, number, element)"""
    _there: dict[int, TimedTriple] = field(default_factory=dict)
    """the current elements, by number"""
    _ends: list[tuple[int, int]] = field(default_factory=list)
    """a heap of (end, number) of the current elements"""

    def __post_init__(self) -> None:
        self._coming = [(held.since, next(self._names), held) for held in self.elements]
        heapify(self._coming)
        dynamic = {held.triple.predicate for held in self.elements}
        self._unchanging = {quad.predicate for quad in self.static} - dynamic
        self._store = Store()
        self._store.extend(self.static)
        self._slices = FragmentSlices(self._store)
        self.holding: CurrentData | None = None
        if self.history:
            self.holding = CurrentData(self)

    def add(self, held: TimedTriple, now: int) -> str:
        """Add a live element; return why it was refused or is late, or ""."""
        if held.until <= now:
            return "it has ended already"
        if held.triple.predicate in self._unchanging:
            return f"{held.triple.predicate} was served as static until now: name it in --elements"
        heappush(self._coming, (held.since, next(self._names), held))
        if self.notice and held.since < now + self.notice:
            return SHORT_NOTICE
        return ""

    def version(self, now: int) -> int:
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
        self.version(now)
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """Return when the next element begins or ends, if the fragment may contain any."""
        if pattern.predicate in self._unchanging:
            return DISTANT_FUTURE
        self.version(now)
        known = min(
            [self._ends[0][0] if self._ends else DISTANT_FUTURE, self._coming[0][0] if self._coming else DISTANT_FUTURE]
        )
        if self.notice is None:
            return known
        return min(known, now + self.notice) if self.notice else None

    def _change(self, number: int, held: TimedTriple, added: bool) -> None:
        quads = self._quads(number, held)
        if self.holding is not None:
            self.holding.change(quads, added)
        if added:
            self._store.extend(quads)
        elif not self.history:
            for quad in quads:
                self._store.remove(quad)

    def _quads(self, number: int, held: TimedTriple) -> list[Quad]:
        return list(self.style.quads(held, f"{ELEMENT}{number}", self._address))

    def _address(self, pattern: QuadPattern) -> str:
        return PagePosition(self.base, pattern, 1, 1, 0).fragment


@dataclass(eq=False)
class CurrentData:
    """The current part of data with a history."""

    history: AnnotatedData
    holding: None = None

    def __post_init__(self) -> None:
        self._store = Store()
        self._store.extend(self.history.static)
        self._slices = FragmentSlices(self._store)

    def change(self, quads: Sequence[Quad], added: bool) -> None:
        """Add quads that hold from now on, or remove quads that no longer hold."""
        self._slices.forget()
        if added:
            self._store.extend(quads)
            return
        for quad in quads:
            self._store.remove(quad)

    def version(self, now: int) -> int:
        return self.history.version(now)

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        self.history.version(now)
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        return self.history.until(pattern, now)


def read_elements_file(path: Path, shift: int = 0) -> list[TimedTriple]:
    """Return the elements of a file with lines of since, until and a statement, separated by tabs.

    Times are in milliseconds and are moved by `shift`.
    """
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            found.append(read_element(line, f"{path}, line {number}", shift))
    return found


def read_element(line: str, where: str, shift: int = 0) -> TimedTriple:
    parts = line.split("\t", 2)
    if len(parts) != 3 or not all(part.strip().lstrip("-").isdigit() for part in parts[:2]):
        raise InputError(f"{where}: {line[:80]!r} is not <since ms>, a tab, <until ms>, a tab, and a statement")
    since, until = int(parts[0]) + shift, int(parts[1]) + shift
    if not 0 < since < until <= MAX_TIME_MS:
        raise InputError(
            f"{where}: the element begins at {parts[0]} and ends at {parts[1]}; it must end after it begins"
        )
    try:
        quads = list(parse(parts[2], format=RdfFormat.N_TRIPLES))
    except SyntaxError as error:
        raise InputError(f"{where}: {error.msg}") from None
    if len(quads) != 1 or not isinstance(quads[0].subject, NamedNode):
        raise InputError(f"{where}: expected exactly one statement about an IRI")
    return TimedTriple(quads[0].triple, since, until)
