"""The spellings of terms: the bytes of every spelling that was read, and the id of its term.

Most spellings are normal forms if they are valid terms, so that parsing only has to validate them.
"""

from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import RdfFormat, parse

from freshkeeper.maintenance.base.arrays import Bools, Bytes, Ids, Ints, Words, grown
from freshkeeper.maintenance.engine.columns import spelling_table as kernels
from freshkeeper.maintenance.engine.columns.spelling_table import ID, START, USED
from freshkeeper.maintenance.engine.columns.token_scan import BACKSLASH, OPEN, PAD, QUOTE, SPACE, ZERO, words_of

INITIAL_ROWS = 1 << 10
"""Initial room in rows, with 32 bytes of text for each."""


URI, NODE, END = b'{"type": "uri", "value": "', b'{"type": "bnode", "value": "', b'"}'
BETWEEN = b"_:a <a:> .\n" + URI + NODE + END
"""The constant pieces of text that are joined with spellings; every heap starts with them."""


@dataclass(eq=False)
class Spellings:
    """A table of rows (hash, start, size, id) over one heap of bytes."""

    count: int = 0
    used: int = USED
    """bytes of the heap that are in use"""
    rows: Ints = field(default_factory=lambda: np.empty((INITIAL_ROWS, 4), np.int64))
    heap: Bytes = field(default_factory=lambda: np.zeros(32 * INITIAL_ROWS, np.uint8))
    _table: Ids = field(default_factory=lambda: np.full(2 * INITIAL_ROWS, -1, np.int32))

    def __post_init__(self) -> None:
        self.heap[: len(BETWEEN)] = np.frombuffer(BETWEEN, np.uint8)

    def find(self, words: Words, starts: Ints, sizes: Ints) -> Ids:
        """Return the row of every span, -1 for an empty one; new spellings have no id yet."""
        self._make_room(starts.size, int(sizes.sum()))
        found = np.empty(starts.size, np.int32)
        self.count, self.used = kernels.find(
            words, starts, sizes, self._table, self.rows, self.count, words_of(self.heap), self.used, found
        )
        return found

    def find_texts(self, texts: list[bytes]) -> Ids:
        """Return the row of every spelling."""
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        text = np.frombuffer(b"".join([*texts, PAD]), np.uint8)
        return self.find(words_of(text), np.cumsum(sizes) - sizes, sizes)

    def joined(self, count: int, *pieces: bytes | Ints) -> bytes:
        """Return `count` repetitions of all pieces in a row: constant bytes, or another span each time."""
        spans = np.empty((count, len(pieces), 2), np.int64)
        for n, piece in enumerate(pieces):
            if isinstance(piece, bytes):
                spans[:, n] = (BETWEEN.index(piece), len(piece))
            else:
                spans[:, n] = piece
        starts, sizes = spans.reshape(-1, 2).T.copy()
        out = np.empty(int(sizes.sum()), np.uint8)
        kernels.gather(self.heap, starts, sizes, out)
        return out.tobytes()

    def spans(self, rows: Ints | Ids) -> Ints:
        """Return start and size of the spellings of rows."""
        found: Ints = self.rows[rows][:, START:ID]
        return found

    def texts(self, rows: Ints | Ids) -> list[bytes]:
        """Return the spellings of rows."""
        return self.joined(rows.size, self.spans(rows), b"\n").split(b"\n")[:-1]

    def ids(self, found: Ids) -> Ints:
        """Return the ids of rows; 0 for the row -1, whose result is never used."""
        ids: Ints = np.where(found >= 0, self.rows[found, ID], 0)
        return ids

    def compact(self, live: Bools, row_of: Ids) -> None:
        """Forget the spellings of ids that are not live, and update `row_of` for the others."""
        self._table.fill(-1)
        self.count, self.used = kernels.compact(self.rows, self.count, self.heap, live, row_of, self._table)

    def _make_room(self, rows: int, size: int) -> None:
        needed = self.count + rows
        self.rows = grown(self.rows, needed)
        self.heap = grown(self.heap, self.used + size + 2 * len(PAD))
        if 2 * needed > self._table.size:
            self._table = np.full(1 << (2 * needed).bit_length(), -1, np.int32)
            kernels.fill(self._table, self.rows, self.count)


DELETE = 127
INTEGER, MOST_DIGITS = b'"^^<http://www.w3.org/2001/XMLSchema#integer>', 18


def plain_rows(spellings: Spellings, first: int) -> Bools:
    """Return which of the rows from `first` on have no other spelling; they must be new and adjacent in the heap."""
    heap, (starts, sizes) = spellings.heap, spellings.spans(np.arange(first, spellings.count)).T
    text = heap[starts[0] : spellings.used]
    escaped = np.add.reduceat((text == BACKSLASH) | (text < SPACE) | (text == DELETE), starts - starts[0]) > 0
    literal, short = heap[starts] == QUOTE, heap[starts + sizes - 1] == QUOTE
    found: Bools = ~escaped & (~literal | short)
    (others,) = np.nonzero(literal & ~short)
    found[others] = list(map(_one_way, spellings.texts(first + others)))
    return found


def _one_way(spelling: bytes) -> bool:
    """Return True if no other spelling exists for a literal with a datatype or language.

    For integers and lower-case tags.
    """
    if spelling.endswith(INTEGER):
        digits = spelling[1 : -len(INTEGER)].removeprefix(b"-")
        return digits.isdigit() and digits[0] != ZERO and len(digits) <= MOST_DIGITS
    return not spelling.endswith(b">") and spelling.rpartition(b'"')[2].islower()


def are_terms(spellings: Spellings, rows: Ints) -> bool:
    """Return True if all these rows spell valid terms, by parsing a document of them with four IRIs per line."""
    spans = spellings.spans(rows)
    iris = spellings.heap[spans[:, 0]] == OPEN
    some, others = spans[iris], spans[~iris]
    some = np.concatenate([some, np.repeat(some[:1], -len(some) % 4, axis=0)])
    lines, pieces = len(some) // 4, [piece for n in range(4) for piece in (some[n::4], b" ")]
    text = spellings.joined(lines, *pieces, b".\n") + spellings.joined(len(others), b"_:a <a:> ", others, b" .\n")
    try:
        return len(list(parse(text, format=RdfFormat.N_QUADS))) == lines + len(others)
    except (SyntaxError, ValueError):
        return False
