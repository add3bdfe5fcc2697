"""Answers as bytes of JSON: pieces are copied behind each other, many bytes at a time, compiled.

A copy may write beyond its end, where the next piece comes; what is written to has room for that.
"""

from numba import njit

from freshkeeper.maintenance.base.arrays import Bytes, Ints, Words
from freshkeeper.maintenance.engine.native.token_scan import ZERO

MILLION, ONE_DIGIT, TWO_DIGITS = 1_000_000, 10, 100
STRIDE = 32
UNKNOWN, ASKED = -1, -2
"""The size of a text that is not there; of one that is being made."""
POINT, EXPONENT, MINUS = ord("."), ord("e"), ord("-")


@njit(cache=True, nogil=True)
def put_number(out: Bytes, at: int, number: int) -> int:
    """A whole number that is not negative."""
    end, rest = at + 1, number
    while rest >= ONE_DIGIT:
        rest //= ONE_DIGIT
        end += 1
    for place in range(end - 1, at - 1, -1):
        out[place] = ZERO + number % ONE_DIGIT
        number //= ONE_DIGIT
    return end


@njit(cache=True, nogil=True)
def put_share(out: Bytes, at: int, share: int) -> int:
    """So many millionths as Python writes them, at most one."""
    out[at], out[at + 1], out[at + 2] = ZERO + share // MILLION, POINT, ZERO
    if share % MILLION == 0:
        return at + 3
    if share >= TWO_DIGITS:
        put_number(out, at + 1, MILLION + share)  # the first digit is where the point will be
        out[at + 1] = POINT
        end = at + 8
        while out[end - 1] == ZERO:
            end -= 1
        return end
    small = share < ONE_DIGIT
    out[at] = ZERO + (share if small else share // ONE_DIGIT)
    if not small and share % ONE_DIGIT:
        out[at + 2] = ZERO + share % ONE_DIGIT
        at += 2
    out[at + 1], out[at + 2], out[at + 3], out[at + 4] = EXPONENT, MINUS, ZERO, ZERO + (6 if small else 5)
    return at + 5


@njit(cache=True, nogil=True)
def copy(out: Words, at: int, text: Words, start: int, size: int) -> int:
    """Copy some bytes, 32 at a time; gives where they end."""
    for step in range(0, size, STRIDE):
        to, of = at + step, start + step
        out[to], out[to + 8], out[to + 16], out[to + 24] = text[of], text[of + 8], text[of + 16], text[of + 24]
    return at + size


@njit(cache=True, nogil=True)
def longest(values: Ints, sizes: Ints, new: Ints) -> tuple[int, int]:
    """The size of the longest text among these ids, -1 being none; those that have no text yet are put into `new`."""
    most, count = 0, 0
    for variable in range(values.shape[0]):
        for answer in range(values.shape[1]):
            id = values[variable, answer]
            if id >= 0:
                size = sizes[id]
                if size == UNKNOWN:
                    sizes[id], new[count] = ASKED, id
                    count += 1
                most = max(most, size)
    return most, count


@njit(cache=True, nogil=True)
def put_answers(
    values: Ints, first: int, starts: Ints, sizes: Ints, terms: Words, piece: Ints, pieces: Words,
    shares: Ints, ages: Ints, out: Bytes, words: Words, at: int, room: int,
) -> tuple[int, int]:  # fmt: skip
    """Answers behind each other from `first` on, until `out` is filled up to `room`; the next one, and where they end.

    Piece n lies in `pieces` from piece[n] to piece[n + 1]: what comes before an answer that binds nothing, between the
    bindings and the freshness of an answer, before its age, and behind it; then for each variable what comes before its
    binding if it is the answer's first one, and if it is not.
    """
    answer, count = first, values.shape[1]
    while answer < count and at <= room:
        bound = 0
        for variable in range(values.shape[0]):
            id = values[variable, answer]
            if id >= 0:
                n = 4 + 2 * variable + bound
                at = copy(words, at, pieces, piece[n], piece[n + 1] - piece[n])
                at = copy(words, at, terms, starts[id], sizes[id])
                bound = 1
        if not bound:
            at = copy(words, at, pieces, piece[0], piece[1] - piece[0])
        at = copy(words, at, pieces, piece[1], piece[2] - piece[1])
        at = put_share(out, at, shares[answer] if shares.size else MILLION)
        if ages.size and ages[answer] >= 0:
            at = put_number(out, copy(words, at, pieces, piece[2], piece[3] - piece[2]), ages[answer])
        at = copy(words, at, pieces, piece[3], piece[4] - piece[3])
        answer += 1
    return answer, at
