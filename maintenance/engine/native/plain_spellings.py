"""Spellings that are as the store writes them if they are terms at all, so that a parser need only nod."""

import numpy as np
from pyoxigraph import RdfFormat, parse

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.native.spellings import Spellings
from freshkeeper.maintenance.engine.native.token_scan import BACKSLASH, OPEN, QUOTE, SPACE, ZERO

DELETE = 127
INTEGER, MOST_DIGITS = b'"^^<http://www.w3.org/2001/XMLSchema#integer>', 18


def plain(spellings: Spellings, first: int) -> Bools:
    """Which rows from one on nothing else spells: new ones, whose bytes lie behind each other."""
    heap, (starts, sizes) = spellings.heap, spellings.spans(np.arange(first, spellings.count)).T
    text = heap[starts[0] : spellings.used]
    escaped = np.add.reduceat((text == BACKSLASH) | (text < SPACE) | (text == DELETE), starts - starts[0]) > 0
    literal, short = heap[starts] == QUOTE, heap[starts + sizes - 1] == QUOTE
    found: Bools = ~escaped & (~literal | short)
    (others,) = np.nonzero(literal & ~short)
    found[others] = list(map(_one_way, spellings.texts(first + others)))
    return found


def _one_way(spelling: bytes) -> bool:
    """Whether nothing else spells this literal with a datatype or a language; a number or a tag, most are not."""
    if spelling.endswith(INTEGER):
        digits = spelling[1 : -len(INTEGER)].removeprefix(b"-")
        return digits.isdigit() and digits[0] != ZERO and len(digits) <= MOST_DIGITS
    return not spelling.endswith(b">") and spelling.rpartition(b'"')[2].islower()


def are_terms(spellings: Spellings, rows: Ints) -> bool:
    """Whether these rows spell terms, all of them: a document of them is right, IRIs being four to a line."""
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
