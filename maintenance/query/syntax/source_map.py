"""Texts that know from which place of their source every character comes, for error messages."""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple


class Edit(NamedTuple):
    """A replacement of text[start:end] by `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class SourceMap:
    """A text made of copied and new pieces.

    Every piece is (offset in this text, offset in the source, whether it was copied), in order.
    """

    text: str
    pieces: tuple[tuple[int, int, bool], ...]

    def origin(self, offset: int) -> int:
        """Return the offset in the source from which an offset of this text comes.

        A new piece comes from the place where it was put in.
        """
        index = bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        if index < 0:
            return 0
        here, source, copied = self.pieces[index]
        if not copied:
            return source
        return source + offset - here


@dataclass
class Weaver:
    """A builder that puts a traced text together piece by piece."""

    source: str
    _parts: list[str] = field(default_factory=list)
    _pieces: list[tuple[int, int, bool]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, at: int) -> None:
        """Append new text in place of what stands at the source's offset `at`."""
        self._put(text, at, copied=False)

    def copy(self, start: int, end: int, edits: list[Edit] | None = None) -> None:
        """Append source[start:end] with the edits in it, which are sorted and do not overlap."""
        for edit in edits or []:
            # callers pass the edits of the whole text, of which some lie elsewhere
            if start <= edit.start and edit.end <= end:
                self._put(self.source[start : edit.start], start, copied=True)
                self._put(edit.new, edit.start, copied=False)
                start = edit.end
        self._put(self.source[start:end], start, copied=True)

    def finish(self) -> SourceMap:
        """Return the text so far."""
        return SourceMap("".join(self._parts), tuple(self._pieces))

    def _put(self, text: str, at: int, *, copied: bool) -> None:
        if text:
            self._parts.append(text)
            self._pieces.append((self.length, at, copied))
            self.length += len(text)
