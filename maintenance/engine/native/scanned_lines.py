"""Lines of N-Quads as found by the scanner, and the ids of their terms."""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints, Kinds, Words
from freshkeeper.maintenance.engine.native import token_scan
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.token_scan import NOT_UNDERSTOOD, PAD, words_of


@dataclass(frozen=True, eq=False)
class ScannedLines:
    """Lines with their ends, kinds and times, and starts and sizes of their four terms, one row per position."""

    words: Words
    ends: Ints
    kinds: Kinds
    times: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, text: bytes, timed: bool = True) -> "ScannedLines":
        """Scan a text; with `timed` each line starts with its time and a tab."""
        padded, size = np.frombuffer(text + PAD, np.uint8), text.count(b"\n") + 1
        words, ends, times = words_of(padded), np.empty(size, np.int64), np.empty(size, np.int64)
        starts, sizes = np.empty((4, size), np.int64), np.empty((4, size), np.int64)
        found = cls(words, ends, kinds=np.empty(size, np.int8), times=times, starts=starts, sizes=sizes)
        token_scan.scan(padded, words, timed, ends, found.kinds, times, starts, sizes)
        return found

    def terms(self, dictionary: Dictionary) -> Ints:
        """Return the ids of subject, predicate and object, a row each; mark lines with invalid terms as OTHER."""
        ids = dictionary.encode_spans(self.words, self.starts.ravel(), self.sizes.ravel()).reshape(4, -1)
        self.kinds[(ids < 0).any(axis=0)] = NOT_UNDERSTOOD
        return ids[:3]
