"""Data of which a part changes: elements with the time in which they hold, served annotated in some style.

What will come is known from the file, as in a timetable, so a page can say exactly when it is another one. Expirations
keep the last value only; with `history` what is over stays, as intervals allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse

from freshkeeper.maintenance.fragments.annotation_style import Held, Style
from freshkeeper.maintenance.fragments.page_writer import Place
from freshkeeper.maintenance.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.fragments.served_data import FOREVER, Slices
from freshkeeper.policies.errors import InputError

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
    _version: int = 0
    _next: int = 0
    _there: dict[int, int] = field(default_factory=dict)
    """when each element that is there ends, by number"""

    def __post_init__(self) -> None:
        self.elements = sorted(self.elements, key=lambda held: held.since)
        self.dynamic = {held.triple.predicate for held in self.elements}
        static = {quad.predicate for quad in self.static}
        self._unchanging = static - self.dynamic
        self._store = Store()
        self._store.extend(self.static)
        self._slices = Slices(self._store)

    def version(self, now: int) -> int:
        """How often anything changed until now."""
        gone = [number for number, until in self._there.items() if until <= now]
        come = self._next < len(self.elements) and self.elements[self._next].since <= now
        if not gone and not come:
            return self._version
        for number in gone:
            del self._there[number]
            if not self.history:
                self._change(number, self._store.remove)
        while self._next < len(self.elements) and self.elements[self._next].since <= now:
            held = self.elements[self._next]
            if held.until > now or self.history:
                self._change(self._next, self._store.add)
            if held.until > now:
                self._there[self._next] = held.until
            self._next += 1
        self._slices.forget()
        self._version += 1
        return self._version

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """As the data are now."""
        self.version(now)
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """Until the next element comes or goes, where the fragment may have any."""
        if pattern.predicate in self._unchanging:
            return FOREVER
        self.version(now)
        coming = [self.elements[self._next].since] if self._next < len(self.elements) else []
        return min([*self._there.values(), *coming], default=FOREVER)

    def _change(self, number: int, change: object) -> None:
        assert callable(change)
        for quad in self.style.written(self.elements[number], f"{ELEMENT}{number}", self._address):
            change(quad)

    def _address(self, pattern: QuadPattern) -> str:
        return Place(self.base, pattern, 1, 1, 0).fragment


def read_elements_file(path: Path, shift: int = 0) -> list[Held]:
    """Lines of since, until and a statement, with tabs between; times in milliseconds, later by `shift`."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            found.append(_element(line, f"{path}, line {number}", shift))
    return found


def _element(line: str, where: str, shift: int) -> Held:
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
