"""Whole lines of bytes that come in pieces."""

from dataclasses import dataclass

from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE

TOO_LONG = b"a line is longer than %d bytes\n" % LONGEST_LINE
"""Stands for such a line: it is no element, which whoever reads it says."""


@dataclass(eq=False)
class LineSplitter:
    """Keeps what is not whole yet."""

    _rest: bytes = b""
    _skipping: bool = False

    def take(self, chunk: bytes) -> bytes:
        """All lines that are whole now."""
        if self._skipping:
            _, newline, chunk = chunk.partition(b"\n")
            self._skipping = not newline
        whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest, self._skipping = b"", True
            return whole + newline + TOO_LONG
        return whole + newline

    def rest(self) -> bytes:
        """What is left at the end, as a line."""
        rest, self._rest = self._rest, b""
        return rest + b"\n" if rest else b""
