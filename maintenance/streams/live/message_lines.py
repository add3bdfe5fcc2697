"""Complete lines of bytes that arrive in pieces."""

from dataclasses import dataclass

from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE

TOO_LONG = b"a line is longer than %d bytes\n" % LONGEST_LINE
"""Replaces a line that is too long: it is no element, so that its reader reports it."""


@dataclass(eq=False)
class LineSplitter:
    """A buffer for the incomplete line at the end."""

    _rest: bytes = b""
    _skipping: bool = False

    def take(self, chunk: bytes) -> bytes:
        """Return all lines that are complete now."""
        if self._skipping:
            _, newline, chunk = chunk.partition(b"\n")
            self._skipping = not newline
        complete, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
            self._skipping = True
            return complete + newline + TOO_LONG
        return complete + newline

    def rest(self) -> bytes:
        """Return the incomplete line at the end, as a line."""
        rest, self._rest = self._rest, b""
        if not rest:
            return b""
        return rest + b"\n"


def stamped(value: bytes, time: int | None) -> bytes:
    """Return the lines of a message; statements without a time get that of the message."""
    if not value.strip():
        return b""
    if time is not None and value[:1] in (b"<", b"_"):
        at = b"%d\t" % time
        return b"".join(at + line + b"\n" for line in value.splitlines() if line.strip())
    if value.endswith(b"\n"):
        return value
    return value + b"\n"
