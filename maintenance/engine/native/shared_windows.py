"""Stores equal windows of several queries once.

Queries that are always evaluated together move a shared window together: the first to be evaluated moves it, and the
others see the same move. Only time windows with a step are shared, between queries without SERVICE that start with the
same element; a query that is registered later starts with an empty window of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore
from freshkeeper.maintenance.engine.windows import NO_MOVE, TimeWindow, WindowMove, WindowState, window_state
from freshkeeper.maintenance.query.model import Query, StreamWindow, WindowKind
from freshkeeper.maintenance.streams.batch import TimedElements

Key = tuple[StreamWindow, int, frozenset[str], int]
"""The window without its name, t0, the streams that determine when its query begins, and its rank among equals."""


@dataclass(eq=False)
class SharedWindowState:
    """The state that all queries of a shared window have in common."""

    content: TimeWindow
    last: WindowMove = NO_MOVE
    before: int = DISTANT_PAST
    """the time of the move before the last one"""
    last_batch: TimedElements | None = None
    """the last batch of elements, which every query receives"""


@dataclass(eq=False)
class SharedWindow(TimeWindow):
    """A query's view of a shared window, as of the query's own last move."""

    common: SharedWindowState = field(kw_only=True)

    def receive(self, elements: TimedElements) -> None:
        """Pass a batch on once, though every query receives it."""
        if elements is not self.common.last_batch:
            self.common.last_batch = elements
            self.common.content.receive(elements)

    def begin(self, first: int) -> None:
        super().begin(first)
        self.common.content.begin(first)

    def discard(self) -> None:
        self.common.content.discard()

    @property
    def empty(self) -> bool:
        return self.common.content.empty

    @property
    def next_arrival(self) -> int | None:
        return self.common.content.next_arrival

    def move(self, now: int) -> WindowMove:
        """Move the shared window if this query is the first, and report the same move to every query."""
        common, to = self.common, self.reached(now)
        if to is None:
            return NO_MOVE
        if common.content.last_move == self.last_move:
            common.before, common.last = self.last_move, common.content.move(now)
        assert (common.before, common.content.last_move) == (self.last_move, to), (
            "a shared window was moved without one of its queries"
        )
        self.last_move = to
        return replace(common.last, closed=to == now)


@dataclass(eq=False)
class SharedWindows:
    """The windows that may still be shared, because no element has entered yet."""

    _common: dict[Key, SharedWindowState] = field(default_factory=dict)

    def contents(self, query: Query, start: int, dictionary: Dictionary) -> list[WindowState]:
        """Return the windows of a query, shared with other queries where possible."""
        streams = frozenset(window.stream for window in query.windows)
        found: list[WindowState] = []
        for window in query.windows:
            if query.times.every is not None or window.kind is not WindowKind.TIME or window.step is None:
                found.append(window_state(window, start, ColumnWindowStore(dictionary, window.kind)))
                continue
            plain = replace(window, name="", is_named=True)
            number = sum(replace(one.window, name="", is_named=True) == plain for one in found)
            found.append(self._shared(window, (plain, start, streams, number), dictionary))
        return found

    def close(self) -> None:
        """Stop sharing: elements have arrived, so queries that start now need windows of their own."""
        self._common.clear()

    def _shared(self, window: StreamWindow, key: Key, dictionary: Dictionary) -> SharedWindow:
        common = self._common.get(key)
        if common is None:
            content = window_state(window, key[1], ColumnWindowStore(dictionary, window.kind))
            assert isinstance(content, TimeWindow)
            common = self._common[key] = SharedWindowState(content)
        return SharedWindow(window, common.content.start, common.content.store, common=common)


def column_windows(
    query: Query, start: int, dictionary: Dictionary, shared: SharedWindows | None = None
) -> Sequence[WindowState]:
    """Return the windows of a query, with their triples in column stores."""
    if shared is not None:
        return shared.contents(query, start, dictionary)
    return [window_state(window, start, ColumnWindowStore(dictionary, window.kind)) for window in query.windows]
