"""Standard streams that may be closed, full, or without a reader."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from freshkeeper.maintenance.base.errors import ConfigError, ReaderGoneError
from freshkeeper.maintenance.base.files import writing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Output(io.FileIO):
    """Standard output: a failed write raises one error, and is not repeated when Python exits."""

    failed = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much as the stream takes; raise one error for a full disk or a closed pipe."""
        if self.failed:
            return memoryview(data).nbytes
        try:
            with writing("standard output"):
                return super().write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.failed = True
            raise ReaderGoneError("nobody reads the output any more") from None
        except ConfigError:
            self.failed = True
            raise


class ErrorOutput(io.FileIO):
    """Standard error: a failed write is lost, and the command goes on."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much as the stream takes; discard the data if that fails."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare() -> None:
    """Replace Python's standard streams; raise ConfigError if standard output is closed."""
    news, out = sys.stderr, sys.stdout
    if news is None:  # Python would print to standard output what is meant for it
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    elif _same(news, sys.__stderr__):
        sys.stderr = _through(ErrorOutput(news.fileno(), "w", closefd=False), news, True)
    if out is None:
        raise ConfigError("standard output is closed: let it go somewhere, as > answers.ndjson or > /dev/null")
    if _same(out, sys.__stdout__):
        sys.stdout = _through(Output(out.fileno(), "w", closefd=False), out, out.isatty())


def _through(raw: io.FileIO, text: TextIO, by_line: bool) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(raw), text.encoding, text.errors, line_buffering=by_line)


def _same(now: TextIO, at_first: TextIO | None) -> bool:
    return now is at_first  # and not what a test reads
