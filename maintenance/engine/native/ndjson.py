"""NDJSON of answers in columns, byte for byte as it is written from terms, without creating terms."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Bytes, Floats, Ints
from freshkeeper.maintenance.engine.native import json_answers
from freshkeeper.maintenance.engine.native.freshness_columns import FreshnessColumns
from freshkeeper.maintenance.engine.native.id_rows import IdRows
from freshkeeper.maintenance.engine.native.json_answers import MILLION, STRIDE
from freshkeeper.maintenance.engine.native.json_terms import PADDING, JsonTerms
from freshkeeper.maintenance.engine.native.token_scan import words_of

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
            first, at = json_answers.put_answers(
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
