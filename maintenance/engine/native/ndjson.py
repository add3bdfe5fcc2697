"""Compiled loops that write answers as JSON: pieces are copied one after the other, many bytes at a time.

A copy may write past its end, where the next piece will go; output buffers have room for that.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Bytes, Floats, Ints, Words, grown
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.base.terms import term_json
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import IdRows
from freshkeeper.maintenance.engine.columns.spellings import END, NODE, URI
from freshkeeper.maintenance.engine.columns.token_scan import OPEN, UNDERSCORE, ZERO, words_of
from freshkeeper.maintenance.engine.r2s import FreshnessColumns

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


PADDING = bytes(64)
"""Padding, because a copy may read past the end of a text."""
PLAIN_LITERAL = re.compile(rb'("(?:[^"\\]++|\\[^uU])*+")(?:@([a-z0-9]+(?:-[a-z0-9]+)*)|\^\^<(.*)>)?', re.DOTALL)
"""Matches literals whose content is the same in JSON as in N-Triples."""


@dataclass(eq=False)
class JsonTerms:
    """The JSON text of every term, written once into one buffer until ids are freed."""

    dictionary: Dictionary
    starts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sizes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    heap: Bytes = field(default_factory=lambda: np.empty(1 << 16, np.uint8))
    _used: int = 0
    _sweeps: int = 0

    def prepare(self, ids: Ints) -> int:
        """Write the texts of these ids (-1 for none) unless they exist; return the length of the longest."""
        with self.dictionary.lock:
            self._make_room()
            new = np.empty(self.sizes.size, np.int64)
            most, count = longest(ids, self.sizes, new)
            if count:
                self._write(new[:count])
                most, _ = longest(ids, self.sizes, new)
        return most

    def _make_room(self) -> None:
        """Make room for every id of the dictionary; forget all texts after a sweep."""
        dictionary = self.dictionary
        if self._sweeps != dictionary.sweeps:
            self._sweeps, self._used = dictionary.sweeps, 0
            self.sizes.fill(UNKNOWN)
        if (known := self.sizes.size) < dictionary.width:
            self.starts, self.sizes = grown(self.starts, dictionary.width), grown(self.sizes, dictionary.width)
            self.sizes[known:] = UNKNOWN

    def _write(self, new: Ints) -> None:
        spellings = self.dictionary.spellings
        spans = spellings.spans(self.dictionary.row_of[new])
        first, second = spellings.heap[spans[:, 0]], spellings.heap[spans[:, 0] + 1]
        iris, nodes = (first == OPEN) & (second != OPEN), first == UNDERSCORE
        self._put(new[iris], spans[iris] + (1, -2), URI)
        self._put(new[nodes], spans[nodes] + (2, -2), NODE)
        others = new[~iris & ~nodes]
        texts = list(map(self._other_json, others.tolist(), self.dictionary.texts(others)))
        self._append(others, np.fromiter(map(len, texts), np.int64, len(texts)), b"".join(texts))

    def _put(self, ids: Ints, spans: Ints, kind: bytes) -> None:
        text = self.dictionary.spellings.joined(ids.size, kind, spans, END)
        self._append(ids, spans[:, 1] + len(kind + END), text)

    def _other_json(self, id: int, spelling: bytes) -> bytes:
        found = PLAIN_LITERAL.fullmatch(spelling)
        if found is None:
            return json.dumps(term_json(self.dictionary.term(id)), ensure_ascii=False).encode()
        value, language, datatype = found.groups()
        if language is not None:
            return b'{"type": "literal", "value": %b, "xml:lang": "%b"}' % (value, language)
        if datatype is not None:
            return b'{"type": "literal", "value": %b, "datatype": "%b"}' % (value, datatype)
        return b'{"type": "literal", "value": %b}' % value

    def _append(self, ids: Ints, sizes: Ints, text: bytes) -> None:
        end = self._used + len(text)
        if end + len(PADDING) > self.heap.size:
            self.heap = grown(self.heap, end + len(PADDING))
        self.heap[self._used : end] = np.frombuffer(text, np.uint8)
        self.starts[ids], self.sizes[ids] = self._used + np.cumsum(sizes) - sizes, sizes
        self._used = end


LONGEST_SHARE, LONGEST_AGE = 10, 20
ROUNDING_DOUBT = 1e-5
"""This close to halfway between two millionths, rounding is left to Python."""
PIECES = ('{"bindings": {', '}, "fresh": ', ', "age_ms": ', "}, ")
"""The text before an answer, before its freshness, before its age, and after it."""
BETWEEN = ", "
CHUNK = 1 << 18
"""Bytes that are handed on at once: few enough to stay in the CPU cache."""


@dataclass(eq=False)
class JsonAnswers:
    """Writes answers in columns of one dictionary as JSON."""

    terms: JsonTerms
    _out: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))

    def chunks(
        self, rows: IdRows, variables: Sequence[str], freshness: FreshnessColumns, head: bytes, tail: bytes
    ) -> Iterator[memoryview]:
        """Yield the head, all answers with their freshness, and the tail, as views of one reused buffer.

        Use each chunk before requesting the next. Errors are raised before the first chunk.
        """
        values, shares = np.ascontiguousarray(rows.ids), _shares(freshness.probabilities)
        longest = self.terms.prepare(values)
        pieces, piece = _pieces(variables)
        answer = len(variables) * longest + int(piece[-1]) + LONGEST_SHARE + LONGEST_AGE + STRIDE
        room = len(head) + CHUNK
        if self._out.size < (most := room + answer + len(tail) + len(PADDING)):
            self._out = np.empty(most, np.uint8)
        out, terms, first, at = self._out, self.terms, 0, len(head)
        out[:at] = np.frombuffer(head, np.uint8)
        while True:
            first, at = put_answers(
                values, first, terms.starts, terms.sizes, words_of(terms.heap), piece, words_of(pieces),
                shares, freshness.ages, out, words_of(out), at, room,
            )  # fmt: skip
            if first == values.shape[1]:
                break
            yield out[:at].data
            at = 0
        at -= len(BETWEEN) if first else 0
        out[at : at + len(tail)] = np.frombuffer(tail, np.uint8)
        yield out[: at + len(tail)].data


def _pieces(variables: Sequence[str]) -> tuple[Bytes, Ints]:
    """Return the constant pieces of text, and where each begins."""
    names = [f"{json.dumps(name)}: " for name in variables]
    texts = [*PIECES, *(before + name for name in names for before in (PIECES[0], BETWEEN))]
    pieces = [text.encode() for text in texts]
    return np.frombuffer(b"".join([*pieces, PADDING]), np.uint8), np.cumsum([0, *map(len, pieces)])


def _shares(probabilities: Floats) -> Ints:
    """Return probabilities in millionths, rounded as Python rounds."""
    assert ((probabilities >= 0) & (probabilities <= 1)).all(), "a probability is not between 0 and 1"
    above = probabilities * MILLION + 0.5
    found = above.astype(np.int64)
    (unsure,) = np.nonzero(np.abs(above - np.rint(above)) < ROUNDING_DOUBT)
    found[unsure] = [round(round(p, 6) * MILLION) for p in probabilities[unsure].tolist()]
    return found
