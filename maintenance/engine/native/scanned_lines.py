"""Lines of N-Quads and the ids of their terms, as far as the scan understands them."""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints, Kinds, Words
from freshkeeper.maintenance.engine.native import token_scan
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.token_scan import OTHER, PAD, words_of


@dataclass(frozen=True, eq=False)
class ScannedLines:
    """Where every line of a text ends, what it is, its time, and where its four terms lie, a row for each place."""

    words: Words
    ends: Ints
    kinds: Kinds
    times: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, text: bytes, timed: bool = True) -> "ScannedLines":
        """Scan a text; `timed` where each line begins with its time and a tab."""
        padded, size = np.frombuffer(text + PAD, np.uint8), text.count(b"\n") + 1
        words, ends, times = words_of(padded), np.empty(size, np.int64), np.empty(size, np.int64)
        starts, sizes = np.empty((4, size), np.int64), np.empty((4, size), np.int64)
        found = cls(words, ends, np.empty(size, np.int8), times, starts, sizes)
        token_scan.scan(padded, words, timed, ends, found.kinds, times, starts, sizes)
        return found

    def terms(self, dictionary: Dictionary) -> Ints:
        """The ids of subject, predicate and object of every line, a row each; a line with none is not understood."""
        ids = dictionary.encode_spans(self.words, self.starts.ravel(), self.sizes.ravel()).reshape(4, -1)
        self.kinds[(ids < 0).any(axis=0)] = OTHER
        return ids[:3]
