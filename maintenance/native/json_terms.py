"""Terms as bytes of JSON, made of their N-Triples: compiled."""

import numpy as np
from numba import njit

from freshkeeper.maintenance.native.plain_spellings import put
from freshkeeper.maintenance.native.spelling_table import SIZE, START
from freshkeeper.maintenance.native.token_scan import AT, BACKSLASH, DASH, OPEN, QUOTE, UNDERSCORE
from freshkeeper.policies.arrays import Bytes, Ids, Ints

URI, NODE, LITERAL, LANGUAGE, DATATYPE, END = (
    np.frombuffer(text, np.uint8)
    for text in (
        b'{"type": "uri", "value": "',
        b'{"type": "bnode", "value": "',
        b'{"type": "literal", "value": "',
        b'", "xml:lang": "',
        b'", "datatype": "',
        b'"}',
    )
)
LONGEST_TERM = URI.size + LITERAL.size + DATATYPE.size + END.size
"""Bytes beside a term's own, at most."""
SMALL_U, LARGE_U = ord("u"), ord("U")


@njit(cache=True, nogil=True)
def is_json(text: Bytes, at: int, end: int) -> bool:
    """Whether the content of a literal is written in JSON as it is in N-Triples."""
    while at < end:
        if text[at] == BACKSLASH:
            at += 1
            if text[at] == SMALL_U or text[at] == LARGE_U:
                return False
        at += 1
    return True


@njit(cache=True, nogil=True)
def put_literal(out: Bytes, at: int, text: Bytes, start: int, end: int) -> int:
    """A literal as JSON; -1 where it is not that simple."""
    quote = end - 1
    while text[quote] != QUOTE:
        quote -= 1
    if not is_json(text, start + 1, quote):
        return -1
    at = put(out, put(out, at, LITERAL, 0, LITERAL.size), text, start + 1, quote - start - 1)
    if quote + 1 < end and text[quote + 1] == AT:
        for place in range(quote + 2, end - 1):
            if text[place] == DASH and text[place + 1] == DASH:
                return -1
        at = put(out, put(out, at, LANGUAGE, 0, LANGUAGE.size), text, quote + 2, end - quote - 2)
    elif quote + 1 < end:
        at = put(out, put(out, at, DATATYPE, 0, DATATYPE.size), text, quote + 4, end - quote - 5)
    return at


@njit(cache=True, nogil=True)
def put_term(out: Bytes, at: int, text: Bytes, start: int, end: int) -> int:
    """A term as JSON; -1 where it is not that simple."""
    if text[start] == OPEN and text[start + 1] != OPEN:
        at = put(out, put(out, at, URI, 0, URI.size), text, start + 1, end - start - 2)
    elif text[start] == UNDERSCORE:
        at = put(out, put(out, at, NODE, 0, NODE.size), text, start + 2, end - start - 2)
    elif text[start] == QUOTE:
        at = put_literal(out, at, text, start, end)
    else:
        return -1
    return put(out, at, END, 0, END.size) if at >= 0 else -1


@njit(cache=True, nogil=True)
def render(ids: Ints, row_of: Ids, rows: Ints, heap: Bytes, starts: Ints, sizes: Ints, out: Bytes, at: int) -> int:
    """Terms as JSON behind each other; one that is not that simple has the size -1 still."""
    for n in range(ids.size):
        row = row_of[ids[n]]
        start = rows[row, START]
        end = put_term(out, at, heap, start, start + rows[row, SIZE])
        if end >= 0:
            starts[ids[n]], sizes[ids[n]], at = at, end - at, end
    return at


@njit(cache=True, nogil=True)
def missing(values: Ints, sizes: Ints, found: Ints) -> int:
    """The ids without a text, each once; their sizes are 0 then."""
    count = 0
    for variable in range(values.shape[0]):
        for answer in range(values.shape[1]):
            id = values[variable, answer]
            if id >= 0 and sizes[id] == -1:
                found[count], sizes[id] = id, 0
                count += 1
    return count
