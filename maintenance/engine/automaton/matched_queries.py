"""Matches those queries of a run that are conjunctions over a window with one automaton instead of a plan each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.engine.automaton.pattern_set import MAX_SOLUTIONS, Matches, PatternSet
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns, columns_of
from freshkeeper.maintenance.engine.continuous_query import BatchedQuery
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimitError
from freshkeeper.maintenance.engine.windows import windows_of
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.streams.batch import TimedElements

MIN_QUERIES = 2
"""The automaton is used from this number of queries on, where it is faster than a plan for each."""


@dataclass(eq=False)
class MatchedQueries(BatchedQuery):
    """Queries by name; evaluations without answers are left out."""

    patterns: PatternSet = field(kw_only=True)
    fail: Callable[[str, Exception], None] = field(kw_only=True)
    """called with a query that was cut and the reason; the others continue"""
    _coming: dict[str, list[Columns]] = field(default_factory=dict)
    """elements of each stream that the watermark has not reached"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ranks = {name: rank for rank, name in enumerate(self.patterns.names)}

    @property
    def names(self) -> tuple[str, ...]:
        return self.patterns.names

    @property
    def streams(self) -> tuple[str, ...]:
        return self.patterns.streams

    def receive(self, stream: str, batch: TimedElements) -> None:
        self._coming.setdefault(stream, []).append(columns_of(batch, self.patterns.dictionary))

    def discard(self, stream: str) -> None:
        self._coming.pop(stream, None)

    def reach(self, watermark: int) -> None:
        """Match all elements before the watermark."""
        found = [self._feed(stream, parts, watermark) for stream, parts in [*self._coming.items()]]
        results = [result for matches in (*found, self.patterns.advance(watermark)) for result in matches.results()]
        results.sort(key=lambda result: (result.t, self._ranks[result.query]))
        self._results.extend(results)
        for name in self.patterns.cut:
            reason = f"one element makes more than {self.patterns.most:,} solutions; the query was removed"
            self.fail(name, EvaluationLimitError(reason))
        self.patterns.cut.clear()

    def _feed(self, stream: str, parts: Sequence[Columns], watermark: int) -> Matches:
        whole = Columns.joined(list(parts))
        cut = int(np.searchsorted(whole.times, watermark))
        self._coming[stream] = [whole.part(cut, len(whole))]
        if stream not in self.patterns.streams:
            return Matches()
        return self.patterns.feed(whole.part(0, cut), stream)


def matched_queries(
    queries: Mapping[str, Query], dictionary: Dictionary, start: int, fail: Callable[[str, Exception], None]
) -> MatchedQueries:
    """Create the automaton for queries that `PatternSet` accepts."""
    name, first = next(iter(queries.items()))
    patterns = PatternSet.of(queries, dictionary, MAX_SOLUTIONS)
    contents = windows_of(first, start, dictionary)
    return MatchedQueries(
        first, contents, None, start=start, name=name, dictionary=dictionary, patterns=patterns, fail=fail
    )
