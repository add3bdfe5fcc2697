"""What one evaluation of a query may take: rows, which are counted, and time, which another process is given.

The SPARQL library cannot be interrupted: an aggregate over an endless product of triple patterns gives no row to count
and comes back never. So an evaluation with a time limit is made in a child process, which has all the data as they are
at this moment (fork), writes what it finds into a pipe, and is killed when its time is up. A query without a time limit
is evaluated in this process.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
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
"""What the library gives"""
CHUNK = 1 << 20


class EvaluationLimitError(FreshkeeperError):
    """An evaluation took longer, or gave more, than its query may."""


@dataclass(frozen=True)
class Limits:
    """Of one evaluation; None is no limit."""

    rows: int | None = None
    ms: int | None = None

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self.rows is not None or self.ms is not None

    def counted(self, rows: Iterable[T]) -> list[T]:
        """These rows, if they are not too many; no more are looked at than it takes to know."""
        found = list(rows if self.rows is None else islice(rows, self.rows + 1))
        if self.rows is not None and len(found) > self.rows:
            raise EvaluationLimitError(f"an evaluation has more than {self.rows:,} rows; --most-rows says how many")
        return found

    def in_time(self, evaluate: Callable[[], Results]) -> Results | list[Triple]:
        """What an evaluation gives, in this process or, with a time limit, in one that can be killed."""
        if self.ms is None:
            return evaluate()
        data = _from_child(evaluate, self.ms)
        if data[:1] == ERROR:
            raise EvaluationLimitError(f"an evaluation failed: {data[1:].decode()}")
        if data[:1] == TRIPLES:
            return [quad.triple for quad in parse(data[1:], format=RdfFormat.N_TRIPLES, lenient=True)]
        read = parse_query_results(data[1:], format=QueryResultsFormat.JSON)
        assert isinstance(read, QuerySolutions | QueryBoolean)
        return read


ERROR, TRIPLES, ROWS = b"e", b"t", b"r"
"""What comes from the child."""


def _from_child(evaluate: Callable[[], Results], ms: int) -> bytes:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _give(evaluate, writing)
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
        raise EvaluationLimitError(f"an evaluation ended its process with {signal.Signals(os.WTERMSIG(ended)).name}")
    return data


def _give(evaluate: Callable[[], Results], writing: int) -> None:
    """In the child: evaluate, write, and end without anything that belongs to the parent."""
    try:
        with os.fdopen(writing, "wb") as out:
            _write(evaluate, out)
    finally:
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
        part = os.read(reading, CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
    raise EvaluationLimitError(f"an evaluation took longer than {to_iso(ms)}; --limit says how long it may")
