"""The streams that a command is started with: they may be closed, full, or read by nobody."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from freshkeeper.maintenance.base.errors import ConfigError, ReaderGoneError
from freshkeeper.maintenance.base.files import writing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Output(io.FileIO):
    """Standard output: what it does not take is one error of ours, and nothing is tried again when Python ends."""

    failed = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """As much as it takes."""
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


class News(io.FileIO):
    """Standard error: what it does not take is lost, and the command goes on."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """As much as it takes, or all of it to nowhere."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare() -> None:
    """Put them between Python and the system; without a standard output nothing is begun."""
    news, out = sys.stderr, sys.stdout
    if news is None:  # Python would print to standard output what is meant for it
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    elif _same(news, sys.__stderr__):
        sys.stderr = _through(News(news.fileno(), "w", closefd=False), news, True)
    if out is None:
        raise ConfigError("standard output is closed: let it go somewhere, as > answers.ndjson or > /dev/null")
    if _same(out, sys.__stdout__):
        sys.stdout = _through(Output(out.fileno(), "w", closefd=False), out, out.isatty())


def _through(raw: io.FileIO, text: TextIO, by_line: bool) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(raw), text.encoding, text.errors, line_buffering=by_line)


def _same(now: TextIO, at_first: TextIO | None) -> bool:
    return now is at_first  # and not what a test reads
