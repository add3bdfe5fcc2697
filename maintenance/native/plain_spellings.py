"""Spellings that are as the store writes them if they are terms at all, so that a parser need only nod: compiled."""

import numpy as np
from numba import njit

from freshkeeper.maintenance.native.spelling_table import SIZE, START
from freshkeeper.maintenance.native.token_scan import BACKSLASH, CARET, DASH, NINE, OPEN, QUOTE, SPACE, ZERO
from freshkeeper.policies.arrays import Bools, Bytes, Ints

DELETE, CAPITALS = 127, (65, 90)
LONGEST_NUMBER = 18
INTEGER = np.frombuffer(b"^^<http://www.w3.org/2001/XMLSchema#integer>", np.uint8)
ROOM = 16
"""Bytes that a line of the document needs beside its terms, at most."""


@njit(cache=True, nogil=True)
def without(text: Bytes, at: int, end: int, low: int, high: int) -> bool:
    """Whether no byte is one of these."""
    while at < end and not low <= text[at] <= high:
        at += 1
    return at >= end


@njit(cache=True, nogil=True)
def is_number(text: Bytes, at: int, end: int) -> bool:
    """Whether digits are an integer in its only form."""
    if text[at] == DASH:
        at += 1
        if text[at] == ZERO:
            return False
    if not 0 < end - at <= LONGEST_NUMBER or (text[at] == ZERO and end - at > 1):
        return False
    return without(text, at, end, 0, ZERO - 1) and without(text, at, end, NINE + 1, 255)


@njit(cache=True, nogil=True)
def is_integer(text: Bytes, at: int, end: int) -> bool:
    """Whether a literal ends in the datatype of integers, and in nothing else."""
    n = 0
    while n < INTEGER.size and n < end - at and text[at + n] == INTEGER[n]:
        n += 1
    return n == INTEGER.size


@njit(cache=True, nogil=True)
def is_plain(text: Bytes, at: int, end: int) -> bool:
    """Whether nothing of a spelling can be written in another way."""
    if text[at] != QUOTE:
        return without(text, at, end, BACKSLASH, BACKSLASH)
    quote = at + 1
    while text[quote] != QUOTE:
        if text[quote] == BACKSLASH or text[quote] < SPACE or text[quote] == DELETE:
            return False
        quote += 1
    if quote + 1 < end and text[quote + 1] == CARET:
        return is_number(text, at + 1, quote) and is_integer(text, quote + 1, end)
    return without(text, quote, end, *CAPITALS)


@njit(cache=True, nogil=True)
def plain(rows: Ints, heap: Bytes, found: Bools) -> None:
    """Which of some rows are plain."""
    for row in range(len(rows)):
        start = rows[row, START]
        found[row] = is_plain(heap, start, start + rows[row, SIZE])


@njit(cache=True, nogil=True)
def put(out: Bytes, at: int, text: Bytes, start: int, size: int) -> int:
    """Copy some bytes; gives where they end."""
    for n in range(size):
        out[at + n] = text[start + n]
    return at + size


LINE_START, IRI, LINE_END = (np.frombuffer(text, np.uint8) for text in (b"_:a <a:> ", b"<a:> ", b" .\n"))


@njit(cache=True, nogil=True)
def document(rows: Ints, heap: Bytes, out: Bytes) -> tuple[int, int]:
    """N-Quads that are right where all rows are terms: IRIs four to a line; gives the bytes and the lines."""
    at = lines = column = 0
    for row in range(len(rows)):
        start, size = rows[row, START], rows[row, SIZE]
        if heap[start] == OPEN:
            at = put(out, put(out, at, heap, start, size), LINE_END, 0, 1)
            column = (column + 1) % 4
            if not column:
                at, lines = put(out, at, LINE_END, 1, 2), lines + 1
    while column:
        at, column = put(out, at, IRI, 0, 5), (column + 1) % 4
        if not column:
            at, lines = put(out, at, LINE_END, 1, 2), lines + 1
    for row in range(len(rows)):
        start, size = rows[row, START], rows[row, SIZE]
        if heap[start] != OPEN:
            at = put(out, put(out, at, LINE_START, 0, 9), heap, start, size)
            at, lines = put(out, at, LINE_END, 0, 3), lines + 1
    return at, lines
