"""Windows that several queries have since the same moment are held once.

Queries that are always evaluated together move such a window together: the first of an instant moves it, and the
others see what that brought. So it is for windows of time with a step, of queries that wait for no source and have
begun to listen at the same element: who comes later has a window that is still empty, and one of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.engine.held_triples import STILL, Move
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.window_slots import HeldSlots
from freshkeeper.maintenance.engine.window_content import NEVER, Content
from freshkeeper.maintenance.engine.window_kinds import TimeContent, content_of
from freshkeeper.maintenance.query.model import Query, Window, WindowKind
from freshkeeper.maintenance.streams.batch import Timed

Key = tuple[Window, int, frozenset[str], int]
"""The window without its name, t0, the streams that say when its query begins, which of the query's it is."""


@dataclass(eq=False)
class Common:
    """What the queries of one window have together."""

    content: TimeContent
    last: Move = STILL
    before: int = NEVER
    """the instant from which the last move was made"""
    came: Timed | None = None
    """the last elements, which every query is given"""


@dataclass(eq=False)
class SharedContent(TimeContent):
    """A query's place in such a window; it shows what is there as of its own last move, which is that of all."""

    common: Common = field(kw_only=True)

    def receive(self, elements: Timed) -> None:
        """The same elements are given to every query."""
        if elements is not self.common.came:
            self.common.came = elements
            self.common.content.receive(elements)

    def begin(self, first: int) -> None:
        """The same element is the first one of every query."""
        super().begin(first)
        self.common.content.begin(first)

    def discard(self) -> None:
        """For all of them."""
        self.common.content.discard()

    @property
    def empty(self) -> bool:
        """Whether nothing is held and nothing waits."""
        return self.common.content.empty

    def move(self, now: int) -> Move:
        """With the others: the first one moves the window."""
        common, to = self.common, self.reached(now)
        if to is None:
            return STILL
        if common.content.moved == self.moved:
            common.before, common.last = self.moved, common.content.move(now)
        assert (common.before, common.content.moved) == (self.moved, to), "a shared window has gone on without a query"
        self.moved = to
        return replace(common.last, closed=to == now)


@dataclass(eq=False)
class SharedWindows:
    """The windows into which nothing has come yet, so that one more query may have them."""

    _common: dict[Key, Common] = field(default_factory=dict)

    def contents(self, query: Query, start: int, dictionary: Dictionary) -> list[Content]:
        """The windows of a query, shared where they can be."""
        streams = frozenset(window.stream for window in query.windows)
        found: list[Content] = []
        for window in query.windows:
            if query.times.every is not None or window.kind is not WindowKind.TIME or window.step is None:
                found.append(content_of(window, start, HeldSlots(dictionary, window.kind)))
                continue
            plain = replace(window, name="", named=True)
            number = sum(replace(one.window, name="", named=True) == plain for one in found)
            found.append(self._shared(window, (plain, start, streams, number), dictionary))
        return found

    def close(self) -> None:
        """Elements come: who begins now begins with windows of its own."""
        self._common.clear()

    def _shared(self, window: Window, key: Key, dictionary: Dictionary) -> SharedContent:
        common = self._common.get(key)
        if common is None:
            content = content_of(window, key[1], HeldSlots(dictionary, window.kind))
            assert isinstance(content, TimeContent)
            common = self._common[key] = Common(content)
        return SharedContent(window, common.content.start, common.content.held, common=common)


def slot_contents(
    query: Query, start: int, dictionary: Dictionary, shared: SharedWindows | None = None
) -> Sequence[Content]:
    """The windows of a query, their triples in slots."""
    if shared is not None:
        return shared.contents(query, start, dictionary)
    return [content_of(window, start, HeldSlots(dictionary, window.kind)) for window in query.windows]
