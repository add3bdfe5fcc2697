"""Terms of a dictionary as SPARQL-JSON, made from their N-Triples, mostly without creating a term."""

import json
import re
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Bytes, Ints, grown
from freshkeeper.maintenance.base.terms import term_json
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.json_answers import UNKNOWN, longest
from freshkeeper.maintenance.engine.native.spellings import END, NODE, URI
from freshkeeper.maintenance.engine.native.token_scan import OPEN, UNDERSCORE

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
