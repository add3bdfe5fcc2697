"""Limits on one evaluation: on rows, which are counted, and on time, which needs a child process.

pyoxigraph cannot be interrupted: an aggregate over a huge product of triple patterns yields no row to count and may
never return. An evaluation with a time limit therefore runs in a forked child, which sees all data as they are now,
writes its results into a pipe, and is killed when the time is up. Without a time limit the evaluation runs in this
process.
"""

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from pyoxigraph import (
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    QueryTriples,
    RdfFormat,
    Triple,
    parse,
    parse_query_results,
)

from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.base.errors import FreshkeeperError

T = TypeVar("T")
Results = QuerySolutions | QueryBoolean | QueryTriples
"""The results of a pyoxigraph query"""
PIPE_CHUNK_BYTES = 1 << 20
"""Bytes read from the pipe at once."""


class EvaluationLimitError(FreshkeeperError):
    """An evaluation took longer, or returned more rows, than its query allows."""


@dataclass(frozen=True)
class EvaluationLimits:
    """The limits of one evaluation; None means unlimited."""

    rows: int | None = None
    ms: int | None = None
    """milliseconds of wall-clock time"""
    memory: int | None = None
    """bytes beside those of this process, where there is a time limit"""

    def __bool__(self) -> bool:
        """Return True if there is any limit."""
        return self.rows is not None or self.ms is not None

    def counted(self, rows: Iterable[T]) -> list[T]:
        """Return the rows as a list; raise EvaluationLimitError without reading more than one row too many."""
        found = list(rows if self.rows is None else islice(rows, self.rows + 1))
        if self.rows is not None and len(found) > self.rows:
            raise EvaluationLimitError(
                f"an evaluation has more than {self.rows:,} rows; raise --most-rows to allow more"
            )
        return found

    def in_time(self, evaluate: Callable[[], Results]) -> Results | list[Triple]:
        """Run an evaluation in this process or, with a time limit, in a child that can be killed."""
        if self.ms is None:
            return evaluate()
        data = _from_child(evaluate, self.ms, self.memory)
        if data[:1] == ERROR:
            raise EvaluationLimitError(f"an evaluation failed: {data[1:].decode()}")
        if data[:1] == TRIPLES:
            return [quad.triple for quad in parse(data[1:], format=RdfFormat.N_TRIPLES, lenient=True)]
        read = parse_query_results(data[1:], format=QueryResultsFormat.JSON)
        assert isinstance(read, QuerySolutions | QueryBoolean)
        return read


ERROR, TRIPLES, ROWS = b"e", b"t", b"r"
"""The first byte that the child writes: which kind of data follows."""


def _from_child(evaluate: Callable[[], Results], ms: int, memory: int | None) -> bytes:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        if memory is not None:
            _limit_memory(memory)
        _run_child(evaluate, writing)
    os.close(writing)
    ended: int | None = None
    try:
        data = _read_all(reading, time.monotonic() + ms / 1000, ms)
        ended = os.waitpid(child, 0)[1]
    finally:
        os.close(reading)
        if ended is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if ended:
        name = signal.Signals(os.WTERMSIG(ended)).name
        likely = "" if memory is None else f", which happens when it needs more than {memory:,} bytes of memory"
        raise EvaluationLimitError(f"an evaluation ended its process with {name}{likely}")
    return data


def _limit_memory(more: int) -> None:
    """Limit the memory of this process to what it has now and some bytes more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _run_child(evaluate: Callable[[], Results], writing: int) -> None:
    """Evaluate in the child, write the results, and exit without running any cleanup of the parent."""
    try:
        with os.fdopen(writing, "wb") as out:
            _write(evaluate, out)
    finally:
        # Not sys.exit(): exit handlers and buffered files belong to the parent.
        os._exit(0)


def _write(evaluate: Callable[[], Results], out: BinaryIO) -> None:
    try:
        found = evaluate()
        out.write(TRIPLES if isinstance(found, QueryTriples) else ROWS)
        if isinstance(found, QueryTriples):
            found.serialize(out, format=RdfFormat.N_TRIPLES)
        else:
            found.serialize(out, format=QueryResultsFormat.JSON)
    except BaseException as error:
        out.write(ERROR + f"{type(error).__name__}: {error}".encode())


def _read_all(reading: int, until: float, ms: int) -> bytes:
    parts, poll = list[bytes](), select.poll()
    poll.register(reading, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        part = os.read(reading, PIPE_CHUNK_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)
    raise EvaluationLimitError(f"an evaluation took longer than {to_iso(ms)}; raise --limit to allow more time")
