"""Compiled loops that write answers as JSON: pieces are copied one after the other, many bytes at a time.

A copy may write past its end, where the next piece will go; output buffers have room for that.
"""

from freshkeeper.maintenance.base.arrays import Bytes, Ints, Words
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.engine.native.token_scan import ZERO

MILLION, ONE_DIGIT, TWO_DIGITS = 1_000_000, 10, 100
STRIDE = 32
UNKNOWN, PENDING = -1, -2
"""Instead of the size of a text: it does not exist yet; it is being made."""
POINT, EXPONENT, MINUS = ord("."), ord("e"), ord("-")


@njit(cache=True, nogil=True)
def put_number(out: Bytes, at: int, number: int) -> int:
    """Write a non-negative integer; return where it ends."""
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
    """Write a number of millionths, at most 1,000,000, as Python writes the float; return where it ends."""
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
    """Copy bytes, 32 at a time; return where they end."""
    for step in range(0, size, STRIDE):
        to, of = at + step, start + step
        out[to], out[to + 8], out[to + 16], out[to + 24] = text[of], text[of + 8], text[of + 16], text[of + 24]
    return at + size


@njit(cache=True, nogil=True)
def longest(values: Ints, sizes: Ints, new: Ints) -> tuple[int, int]:
    """Return the length of the longest text of these ids, and how many have no text yet, which are written to `new`."""
    most, count = 0, 0
    for variable in range(values.shape[0]):
        for answer in range(values.shape[1]):
            id = values[variable, answer]
            if id >= 0:
                size = sizes[id]
                if size == UNKNOWN:
                    sizes[id], new[count] = PENDING, id
                    count += 1
                most = max(most, size)
    return most, count


@njit(cache=True, nogil=True)
def put_answers(
    values: Ints, first: int, starts: Ints, sizes: Ints, terms: Words, piece: Ints, pieces: Words,
    shares: Ints, ages: Ints, out: Bytes, words: Words, at: int, room: int,
) -> tuple[int, int]:  # fmt: skip
    """Write answers from `first` on until `out` is filled up to `room`; return the next answer, and where they end.

    Piece n lies in `pieces` from piece[n] to piece[n + 1]. The pieces are: before an answer that binds nothing, between
    the bindings of an answer and its freshness, before its age, after the answer; then for each variable the text
    before its binding, if it is the first of the answer and if it is not.
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
