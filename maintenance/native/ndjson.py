"""NDJSON of answers that are columns, byte for byte what `NdJson` writes, without a term being made."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from freshkeeper.maintenance.native import json_answers
from freshkeeper.maintenance.native.id_rows import IdRows
from freshkeeper.maintenance.native.json_answers import MILLION
from freshkeeper.maintenance.native.json_terms import BEYOND, JsonTerms
from freshkeeper.maintenance.native.token_scan import words_of
from freshkeeper.maintenance.rsp.output import head_of, tail_of
from freshkeeper.maintenance.rsp.r2s import Freshness, Result
from freshkeeper.policies.arrays import Floats, Ints

UNKNOWN = -1
"""The size of a text that is not there."""
LONGEST_SHARE, LONGEST_AGE = 10, 20
NEAR = 1e-5
"""So near to the middle between two numbers the rounding is not ours."""
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
class NdJsonColumns:
    """A line for each evaluation whose answers are columns of one dictionary."""

    terms: JsonTerms

    def line(self, result: Result) -> bytes:
        """The line of one evaluation."""
        rows, freshness = result.answers, result.freshness
        assert isinstance(rows, IdRows), "answers that are no columns are written by NdJson"
        assert freshness is None or isinstance(freshness, FreshnessColumns)
        values = np.ascontiguousarray(rows.ids)
        head, tail = head_of(result).encode(), tail_of(result).encode()
        with self.terms.dictionary.lock:
            return self._written(values, result.variables, CERTAIN if freshness is None else freshness, head, tail)

    def _written(
        self, values: Ints, variables: Sequence[str], freshness: FreshnessColumns, head: bytes, tail: bytes
    ) -> bytes:
        size = self.terms.take(values[values >= 0])
        pieces = [piece.encode() for piece in (*PIECES, *(f"{json.dumps(name)}: " for name in variables))]
        piece = np.cumsum([0, *map(len, pieces)])
        text = np.frombuffer(b"".join([*pieces, BEYOND]), np.uint8)
        most = int(piece[-1]) + LONGEST_SHARE + LONGEST_AGE + len(variables) * len(PIECES[1])
        out = np.empty(size + most * values.shape[1] + len(head + tail + BEYOND), np.uint8)
        out[: len(head)] = np.frombuffer(head, np.uint8)
        end = json_answers.put_answers(
            values, self.terms.starts, self.terms.sizes, words_of(self.terms.heap), piece, words_of(text),
            _shares(freshness.probabilities), freshness.ages, out, words_of(out), len(head),
        )  # fmt: skip
        out[end : end + len(tail)] = np.frombuffer(tail, np.uint8)
        return out[: end + len(tail)].tobytes()


def _shares(probabilities: Floats) -> Ints:
    """In millionths, rounded as Python rounds."""
    assert ((probabilities >= 0) & (probabilities <= 1)).all(), "a probability is not between 0 and 1"
    above = probabilities * MILLION + 0.5
    found = above.astype(np.int64)
    (unsure,) = np.nonzero(np.abs(above - np.rint(above)) < NEAR)
    found[unsure] = [round(round(p, 6) * MILLION) for p in probabilities[unsure].tolist()]
    return found
