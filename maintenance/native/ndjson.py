"""NDJSON of answers that are columns, byte for byte what `NdJson` writes, without a term being made."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from freshkeeper.maintenance.native import json_answers, json_terms
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.id_rows import IdRows
from freshkeeper.maintenance.native.spelling_table import SIZE
from freshkeeper.maintenance.native.spellings import grown
from freshkeeper.maintenance.native.token_scan import words_of
from freshkeeper.maintenance.rsp.output import head_of, tail_of, term_json
from freshkeeper.maintenance.rsp.r2s import Freshness, Result
from freshkeeper.policies.arrays import Bytes, Floats, Ints

UNKNOWN = -1
"""The size of a text that is not there."""
BEYOND = bytes(2 * json_answers.STRIDE)
"""What a copy may read or write beyond its end."""
LONGEST_SHARE, LONGEST_AGE = 10, 20
PIECES = ('{"bindings": {', ", ", '}, "fresh": ', ', "age_ms": ', "}", ", ")
"""Before an answer, between two bindings, before its freshness, before its age, at its end, between two answers."""


@dataclass(frozen=True, eq=False)
class FreshnessColumns(Sequence[Freshness]):
    """How sure answers are, one after the other."""

    probabilities: Floats
    ages: Ints
    """of the oldest copy, in milliseconds; negative where none was used"""

    def __len__(self) -> int:
        """Of how many answers."""
        return self.probabilities.size

    @overload
    def __getitem__(self, number: int) -> Freshness: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Freshness]: ...

    def __getitem__(self, number: int | slice) -> Freshness | Sequence[Freshness]:
        """Of one answer, or of several."""
        if isinstance(number, slice):
            return FreshnessColumns(self.probabilities[number], self.ages[number])
        age = int(self.ages[number])
        return Freshness(float(self.probabilities[number]), None if age < 0 else age)


CERTAIN = FreshnessColumns(np.empty(0), np.empty(0, np.int64))
"""Where all answers are."""


@dataclass(eq=False)
class JsonTerms:
    """The terms of a dictionary as SPARQL-JSON: each is written once, into one heap, until ids are freed."""

    dictionary: Dictionary
    starts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sizes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    heap: Bytes = field(default_factory=lambda: np.empty(1 << 16, np.uint8))
    _used: int = 0
    _sweeps: int = 0

    def take(self, values: Ints) -> None:
        """Have the texts of all these ids; negative ones are none."""
        dictionary = self.dictionary
        if self._sweeps != dictionary.sweeps:
            self._sweeps, self._used = dictionary.sweeps, 0
            self.sizes.fill(UNKNOWN)
        if self.sizes.size < dictionary.width:
            known = self.sizes.size
            self.starts, self.sizes = grown(self.starts, dictionary.width), grown(self.sizes, dictionary.width)
            self.sizes[known:] = UNKNOWN
        new = np.empty(min(values.size, dictionary.width), np.int64)
        new = new[: json_terms.missing(values, self.sizes, new)]
        if new.size:
            self._render(new)

    def _render(self, new: Ints) -> None:
        row_of, spellings = self.dictionary.row_of, self.dictionary.spellings
        size = int(spellings.rows[row_of[new], SIZE].sum()) + json_terms.LONGEST_TERM * new.size
        self._make_room(size)
        self.sizes[new] = UNKNOWN
        self._used = json_terms.render(
            new, row_of, spellings.rows, spellings.heap, self.starts, self.sizes, self.heap, self._used
        )
        others = new[self.sizes[new] == UNKNOWN]
        for id, term in zip(others.tolist(), self.dictionary.terms(others), strict=True):
            text = np.frombuffer(json.dumps(term_json(term), ensure_ascii=False).encode(), np.uint8)
            self._make_room(text.size)
            self.heap[self._used : self._used + text.size] = text
            self.starts[id], self.sizes[id] = self._used, text.size
            self._used += text.size

    def _make_room(self, size: int) -> None:
        if (needed := self._used + size + len(BEYOND)) > self.heap.size:
            self.heap = grown(self.heap, needed)


@dataclass(eq=False)
class NdJsonColumns:
    """A line for each evaluation whose answers are columns of one dictionary."""

    terms: JsonTerms

    def line(self, result: Result) -> bytes:
        """The line of one evaluation."""
        rows, freshness = result.answers, result.freshness
        assert isinstance(rows, IdRows), "answers that are no columns are written by NdJson"
        assert freshness is None or isinstance(freshness, FreshnessColumns)
        with self.terms.dictionary.lock:
            answers = self._answers(
                np.ascontiguousarray(rows.ids), result.variables, CERTAIN if freshness is None else freshness
            )
        return b"".join([head_of(result).encode(), answers, tail_of(result).encode()])

    def _answers(self, values: Ints, variables: Sequence[str], freshness: FreshnessColumns) -> memoryview:
        self.terms.take(values)
        pieces = [piece.encode() for piece in (*PIECES, *(f"{json.dumps(name)}: " for name in variables))]
        piece = np.cumsum([0, *map(len, pieces)])
        terms, text = self.terms, np.frombuffer(b"".join([*pieces, BEYOND]), np.uint8)
        most = int(piece[-1]) + LONGEST_SHARE + LONGEST_AGE + len(variables) * len(PIECES[1])
        out = np.empty(json_answers.length(values, terms.sizes) + most * values.shape[1] + len(BEYOND), np.uint8)
        size = json_answers.put_answers(
            values, terms.starts, terms.sizes, words_of(terms.heap), piece, words_of(text),
            _shares(freshness.probabilities), freshness.ages, out, words_of(out),
        )  # fmt: skip
        return out[:size].data


def _shares(probabilities: Floats) -> Ints:
    """In millionths, rounded as Python rounds."""
    assert ((probabilities >= 0) & (probabilities <= 1)).all(), "a probability is not between 0 and 1"
    found = np.empty(probabilities.size, np.int64)
    if not json_answers.millionths(probabilities, found):
        (unsure,) = np.nonzero(found < 0)
        found[unsure] = [round(round(p, 6) * json_answers.MILLION) for p in probabilities[unsure].tolist()]
    return found
