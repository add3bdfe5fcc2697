"""Recognises spellings that are normal forms if they are valid terms, so that parsing only has to validate them."""

import numpy as np
from pyoxigraph import RdfFormat, parse

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.native.spellings import Spellings
from freshkeeper.maintenance.engine.native.token_scan import BACKSLASH, OPEN, QUOTE, SPACE, ZERO

DELETE = 127
INTEGER, MOST_DIGITS = b'"^^<http://www.w3.org/2001/XMLSchema#integer>', 18


def plain(spellings: Spellings, first: int) -> Bools:
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
