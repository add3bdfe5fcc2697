"""Three elements as timestamped N-Quads, and how streams are read in tests."""

import io
import re
from collections.abc import Callable

import pytest

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors
from freshkeeper.maintenance.streams.timed_lines import TimedLines

LINES = (
    '1\t<http://e/a> <http://e/p> "x\\ty" .\n2\t<http://e/b> <http://e/p> _:n .\n'
    "3\t_:n <http://e/p> <http://e/c> <http://e/g> .\n"
)
SCOPE = re.compile(r"_:d[0-9a-f]{10}\.")
EXPECTED = [(1, '<http://e/a> "x\\ty"'), (2, "<http://e/b> _:n"), (3, "_:n <http://e/c>")]


@pytest.fixture
def three() -> str:
    """The text."""
    return LINES


@pytest.fixture
def expected() -> list[tuple[int, str]]:
    """What it says."""
    return EXPECTED


@pytest.fixture
def read() -> Callable[[Stream], list[tuple[int, str]]]:
    """Every element of a stream, as its time, subject and object, with labels of blank nodes as they were written."""

    def every(stream: Stream) -> list[tuple[int, str]]:
        batches = [zip(b.times, b.quads, strict=True) for b in stream.batches()]
        return [(at, SCOPE.sub("_:", f"{q.subject} {q.object}")) for pairs in batches for at, q in pairs]

    return every


@pytest.fixture(params=["quads", "columns"])
def lines(request: pytest.FixtureRequest) -> Callable[..., TimedLines | ColumnLines]:
    """A stream of timestamped N-Quads, read as quads or as columns."""

    def made(text: str, policy: OnError = OnError.FAIL, heard: list[str] | None = None) -> TimedLines | ColumnLines:
        tell = (heard if heard is not None else []).append
        stream = TimedLines("cars.nq", lambda: io.BytesIO(text.encode()), ReadErrors(policy, notify=tell))
        return stream if request.param == "quads" else ColumnLines(stream, Dictionary())

    return made
