"""Lines of N-Quads and the ids of their terms, as far as the scan understands them."""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.native import token_scan
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.token_scan import ELEMENT, OTHER, PAD, words_of
from freshkeeper.policies.arrays import Bytes, Ints, Kinds, Words

NEWLINE, GRAPH = 10, 3


@dataclass(frozen=True, eq=False)
class ScannedLines:
    """What every line of a text is, where it ends, its time, and a row of four for where its terms lie."""

    text: Bytes
    words: Words
    ends: Ints
    kinds: Kinds
    times: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, text: bytes, timed: bool = True) -> "ScannedLines":
        """Scan a text; `timed` where each line begins with its time and a tab."""
        padded = np.frombuffer(text + PAD, np.uint8)
        ends = np.append(np.flatnonzero(padded[: len(text)] == NEWLINE), len(text))
        kinds, times = np.empty(ends.size, np.int8), np.zeros(ends.size, np.int64)
        starts, sizes = np.zeros((ends.size, 4), np.int64), np.zeros((ends.size, 4), np.int64)
        words = words_of(padded)
        token_scan.scan(padded, words, ends, timed, kinds, times, starts, sizes)
        return cls(padded, words, ends, kinds, times, starts, sizes)

    def terms(self, dictionary: Dictionary) -> Ints:
        """The ids of subject, predicate and object of every line, a row each; a line with none is not understood."""
        ids = np.full((3, self.ends.size), -1, np.int64)
        (lines,) = np.nonzero(self.kinds == ELEMENT)
        (named,) = np.nonzero(self.sizes[:, GRAPH])
        spans = np.concatenate([self.starts[lines, :GRAPH].T.ravel(), self.starts[named, GRAPH]])
        sizes = np.concatenate([self.sizes[lines, :GRAPH].T.ravel(), self.sizes[named, GRAPH]])
        found = dictionary.encode_spans(self.words, spans, sizes)
        ids[:, lines] = found[: 3 * lines.size].reshape(3, -1)
        self.kinds[lines[(ids[:, lines] < 0).any(axis=0)]] = OTHER
        self.kinds[named[found[3 * lines.size :] < 0]] = OTHER
        return ids
