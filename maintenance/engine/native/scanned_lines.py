"""Lines of N-Quads as found by the scanner, and the ids of their terms."""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Bytes, Ints, Kinds, Words
from freshkeeper.maintenance.engine.native import token_scan
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.token_scan import NOT_UNDERSTOOD, PAD, UNDERSCORE, words_of


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
    def of(cls, text: bytes, timed: bool = True, scope: str = "") -> "ScannedLines":
        """Scan a text; with `timed` each line starts with its time and a tab.

        `scope` is put before the labels of blank nodes.
        """
        padded, size = np.frombuffer(text + PAD, np.uint8), text.count(b"\n") + 1
        words, ends, times = words_of(padded), np.empty(size, np.int64), np.empty(size, np.int64)
        starts, sizes = np.empty((4, size), np.int64), np.empty((4, size), np.int64)
        kinds = np.empty(size, np.int8)
        token_scan.scan(padded, words, timed, ends, kinds, times, starts, sizes)
        if scope and b"_:" in text:
            words = _rename_blank_nodes(padded, scope.encode(), starts.reshape(-1), sizes.reshape(-1))
        return cls(words, ends, kinds=kinds, times=times, starts=starts, sizes=sizes)

    def terms(self, dictionary: Dictionary) -> Ints:
        """Return the ids of subject, predicate and object, a row each; mark lines with invalid terms as OTHER."""
        ids = dictionary.encode_spans(self.words, self.starts.ravel(), self.sizes.ravel()).reshape(4, -1)
        self.kinds[(ids < 0).any(axis=0)] = NOT_UNDERSTOOD
        return ids[:3]


def _rename_blank_nodes(text: Bytes, scope: bytes, starts: Ints, sizes: Ints) -> Words:
    """Write the blank nodes with their scope behind the text, move their spans there, and return the text's words."""
    blank = np.flatnonzero((sizes > 0) & (text[np.where(sizes > 0, starts, 0)] == UNDERSCORE))
    prefix = np.frombuffer(b"_:" + scope, np.uint8)
    longer = sizes[blank] + len(scope)
    ends = text.size + np.cumsum(longer)
    named = np.concatenate([text, np.empty(int(longer.sum()), np.uint8), np.frombuffer(PAD, np.uint8)])
    token_scan.copy_labels(text, starts[blank], sizes[blank], prefix, named)
    starts[blank], sizes[blank] = ends - longer, longer
    return words_of(named)
