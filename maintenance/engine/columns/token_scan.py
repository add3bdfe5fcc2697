"""Finds the terms of N-Quads in a text without creating them: compiled, eight bytes at a time.

Lines that are not plainly a time, three or four terms and a full stop are left to a parser. Whether the bytes of a term
are valid is checked elsewhere, once per spelling.
"""

from typing import TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Bytes, Ints, Kinds, Words
from freshkeeper.maintenance.base.compiled import njit

Word: TypeAlias = np.uint64
PADDED = 16
PAD = bytes(PADDED)
"""Follows every text, so that its last bytes can be read as a word.

It also keeps every array of words long enough that numpy does not treat its layout as another type, for which numba
would compile the kernels again.
"""
SKIPPED, ELEMENT, NOT_UNDERSTOOD = 0, 1, 2
"""Kinds of lines: empty or comment; an element; not understood."""
TAB, NEWLINE, RETURN, SPACE, QUOTE, HASH, DASH, DOT, ZERO, NINE, COLON = 9, 10, 13, 32, 34, 35, 45, 46, 48, 57, 58
OPEN, CLOSE, AT, BACKSLASH, CARET, UNDERSCORE = 60, 62, 64, 92, 94, 95
MOST_DIGITS = 18
"""Digits of a timestamp that certainly fits into 64 bits."""
ONES, TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
NEWLINES, QUOTES, CLOSES, BACKSLASHES = (np.uint64(byte) * ONES for byte in (NEWLINE, QUOTE, CLOSE, BACKSLASH))
PLACES, SEVEN, LAST = np.uint64(0x0001020304050607), np.uint64(7), np.uint64(56)


def words_of(text: Bytes) -> Words:
    """Return the eight bytes that start at every position (except the last seven) as overlapping 64-bit integers."""
    return np.ndarray((max(0, text.size - 7),), np.uint64, text, strides=(1,))


@njit(cache=True, nogil=True)
def first_of(words: Words, at: int, end: int, one: Word, other: Word) -> int:
    """Return the position of the first of two bytes, each given eight times; `end` or more if there is none."""
    while at < end:
        a, b = words[at] ^ one, words[at] ^ other
        # The classic test for a zero byte in a word (Mycroft): the top bit of the lowest zero byte is set.
        found = (((a - ONES) & ~a) | ((b - ONES) & ~b)) & TOPS
        if found:
            found >>= SEVEN
            return at + int(np.int64(((found & (~found + np.uint64(1))) * PLACES) >> LAST))
        at += 8
    return at


@njit(cache=True, nogil=True)
def in_name(byte: int) -> bool:
    """Return True if a byte may be part of a label or language tag; the parser checks the exact rules."""
    letter = 97 <= byte | 32 <= 122
    return letter or ZERO <= byte <= NINE or byte in (DASH, DOT, COLON, UNDERSCORE) or byte >= 128


@njit(cache=True, nogil=True)
def name_end(text: Bytes, at: int, end: int) -> int:
    """Return the end of a label or language tag, or -1 if it might continue differently."""
    begin = at
    while at < end and in_name(text[at]):
        at += 1
    followed = at < end and (text[at] == SPACE or text[at] == TAB)
    return at if followed and at > begin and text[at - 1] != DOT else -1


@njit(cache=True, nogil=True)
def iri_end(text: Bytes, words: Words, at: int, end: int) -> int:
    """Return the end of the IRI that starts here, or -1 if it is a triple term or unterminated."""
    if text[at + 1] == OPEN:
        return -1
    close = first_of(words, at + 1, end, CLOSES, CLOSES)
    return close + 1 if close < end else -1


@njit(cache=True, nogil=True)
def literal_end(text: Bytes, words: Words, at: int, end: int) -> int:
    """Return the end of the literal that starts here, with language or datatype, or -1 if it is not understood."""
    at = first_of(words, at + 1, end, QUOTES, BACKSLASHES)
    while at < end and text[at] == BACKSLASH:
        at = first_of(words, at + 2, end, QUOTES, BACKSLASHES)
    at += 1
    if at >= end:
        return -1
    if text[at] == AT:
        return name_end(text, at + 1, end)
    if text[at] == CARET:
        return iri_end(text, words, at + 2, end) if text[at + 1] == CARET and text[at + 2] == OPEN else -1
    return at if text[at] in (SPACE, TAB, DOT) else -1


@njit(cache=True, nogil=True)
def begins_label(byte: int) -> bool:
    """Return whether a byte may begin the label of a blank node; labels with other first letters go to a parser."""
    is_letter = 65 <= byte <= 90 or 97 <= byte <= 122
    return is_letter or 48 <= byte <= 57 or byte == UNDERSCORE


@njit(cache=True, nogil=True)
def term_end(text: Bytes, words: Words, at: int, end: int, place: int) -> int:
    """Return the end of the term that starts here, or -1 if none starts that is allowed at this position."""
    if at >= end:
        return -1
    if text[at] == OPEN:
        return iri_end(text, words, at, end)
    if text[at] == UNDERSCORE and text[at + 1] == COLON and place != 1:
        # A label that begins with "-" is none, but would be one behind the prefix of its document.
        return name_end(text, at + 2, end) if begins_label(text[at + 2]) else -1
    if text[at] == QUOTE and place == 2:
        return literal_end(text, words, at, end)
    return -1


@njit(cache=True, nogil=True)
def blank_end(text: Bytes, at: int, end: int) -> int:
    """Return the position after spaces and tabs."""
    while at < end and (text[at] == SPACE or text[at] == TAB):
        at += 1
    return at


@njit(cache=True, nogil=True)
def statement(text: Bytes, words: Words, at: int, end: int, line: int, starts: Ints, sizes: Ints) -> bool:
    """Find the terms of one statement; the graph has size 0 if it is missing. Return False if not understood."""
    for place in range(4):
        at = blank_end(text, at, end)
        if place == 3 and at < end and text[at] == DOT:
            sizes[place, line] = 0
            break
        stop = term_end(text, words, at, end, place)
        if stop < 0:
            return False
        starts[place, line], sizes[place, line], at = at, stop - at, stop
    at = blank_end(text, at, end)
    if at >= end or text[at] != DOT:
        return False
    at = blank_end(text, at + 1, end)
    return at == end or (text[at] == RETURN and at + 1 == end)


@njit(cache=True, nogil=True)
def digits_end(text: Bytes, at: int, end: int) -> int:
    """Return the end of a timestamp's digits, or -1 if there are none, too many, or no tab after them."""
    begin = at
    while at < end and ZERO <= text[at] <= NINE:
        at += 1
    return at if 0 < at - begin <= MOST_DIGITS and at < end and text[at] == TAB else -1


@njit(cache=True, nogil=True)
def number(text: Bytes, at: int, end: int) -> int:
    """Return the value of digits that have been checked."""
    found = 0
    while at < end:
        found = found * 10 + text[at] - ZERO
        at += 1
    return found


@njit(cache=True, nogil=True)
def scan(
    text: Bytes, words: Words, timed: bool, ends: Ints, kinds: Kinds, times: Ints, starts: Ints, sizes: Ints
) -> None:
    """Write kind, end, time and terms of every line; all sizes are 0 in lines that are not elements."""
    last = text.size - PADDED
    for line in range(ends.size):
        at = ends[line - 1] + 1 if line else 0
        end = ends[line] = min(last, first_of(words, at, last, NEWLINES, NEWLINES))
        kinds[line] = SKIPPED if at == end or text[at] == HASH else NOT_UNDERSTOOD
        stop = digits_end(text, at, end) if timed else at - 1
        if kinds[line] == NOT_UNDERSTOOD and (stop >= 0 or not timed):
            times[line] = number(text, at, stop)
            if statement(text, words, stop + 1, end, line, starts, sizes):
                kinds[line] = ELEMENT
        if kinds[line] != ELEMENT:
            sizes[:, line] = 0


@njit(cache=True, nogil=True)
def copy_labels(text: Bytes, starts: Ints, sizes: Ints, prefix: Bytes, out: Bytes) -> None:
    """Write each blank node with another prefix for its `_:`, one after the other, behind the text in `out`."""
    at = text.size
    for n in range(starts.size):
        for step in range(prefix.size):
            out[at + step] = prefix[step]
        at += prefix.size
        for step in range(2, sizes[n]):
            out[at] = text[starts[n] + step]
            at += 1
