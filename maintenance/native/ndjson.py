"""NDJSON of answers that are columns, byte for byte what is written of terms, without a term being made."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.native import json_answers
from freshkeeper.maintenance.native.freshness_columns import CERTAIN, FreshnessColumns
from freshkeeper.maintenance.native.id_rows import IdRows
from freshkeeper.maintenance.native.json_answers import MILLION
from freshkeeper.maintenance.native.json_terms import BEYOND, JsonTerms
from freshkeeper.maintenance.native.token_scan import words_of
from freshkeeper.policies.arrays import Floats, Ints

UNKNOWN = -1
"""The size of a text that is not there."""
LONGEST_SHARE, LONGEST_AGE = 10, 20
NEAR = 1e-5
"""So near to the middle between two numbers the rounding is not ours."""
PIECES = ('{"bindings": {', ", ", '}, "fresh": ', ', "age_ms": ', "}", ", ")
"""Before an answer, between two bindings, before its freshness, before its age, at its end, between two answers."""


@dataclass(eq=False)
class JsonAnswers:
    """Answers that are columns of one dictionary, as JSON, one behind the other."""

    terms: JsonTerms

    def text(self, rows: IdRows, variables: Sequence[str], freshness: FreshnessColumns = CERTAIN) -> bytes:
        """Every answer with its freshness, commas between them."""
        values = np.ascontiguousarray(rows.ids)
        with self.terms.dictionary.lock:
            size = self.terms.take(values[values >= 0])
            pieces = [piece.encode() for piece in (*PIECES, *(f"{json.dumps(name)}: " for name in variables))]
            piece = np.cumsum([0, *map(len, pieces)])
            between = np.frombuffer(b"".join([*pieces, BEYOND]), np.uint8)
            most = int(piece[-1]) + LONGEST_SHARE + LONGEST_AGE + len(variables) * len(PIECES[1])
            out = np.empty(size + most * values.shape[1] + len(BEYOND), np.uint8)
            end = json_answers.put_answers(
                values, self.terms.starts, self.terms.sizes, words_of(self.terms.heap), piece, words_of(between),
                _shares(freshness.probabilities), freshness.ages, out, words_of(out),
            )  # fmt: skip
        return out[:end].tobytes()


def _shares(probabilities: Floats) -> Ints:
    """In millionths, rounded as Python rounds."""
    assert ((probabilities >= 0) & (probabilities <= 1)).all(), "a probability is not between 0 and 1"
    above = probabilities * MILLION + 0.5
    found = above.astype(np.int64)
    (unsure,) = np.nonzero(np.abs(above - np.rint(above)) < NEAR)
    found[unsure] = [round(round(p, 6) * MILLION) for p in probabilities[unsure].tolist()]
    return found
