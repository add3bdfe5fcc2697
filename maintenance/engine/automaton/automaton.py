"""A pattern automaton: matches conjunctions of triple patterns over one window of one stream (seeds/003).

    triple ─▶ pattern trie ─▶ patterns that it matches ─▶ join trie ─▶ solutions, by form
                                   │                         ▲
                                   ╰──▶ window, in chains ───╯

It reports every new solution that contains the arriving triple. A triple that the window holds already is renewed and
brings no new solution. Conjunctions can be added and removed at run time: the tries are rebuilt before the next
element, and the content of the window is matched again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ids, Ints
from freshkeeper.maintenance.engine.automaton.kernel_window import (
    NEWER,
    OLDEST,
    AutomatonWindow,
    O,
    S,
    move_all,
    room_for,
)
from freshkeeper.maintenance.engine.automaton.kernels import read
from freshkeeper.maintenance.engine.automaton.search import CUT, DONE, NO_SLOT, TOO_MANY, SolutionBuffer
from freshkeeper.maintenance.engine.automaton.tries import JoinTrie, PatternTrie, build_tries, chains

FIRST_ROOM = 64
NO_ELEMENT = -1
"""No element has tallied a solution of this form yet."""


class MatchedSolutions(NamedTuple):
    """New solutions in order of their elements.

    `element` is the element's number and `form` the conjunction, one per solution; `value` has the values of all
    solutions, one after the other.
    """

    element: Ints
    form: Ids
    value: Ints


NO_SOLUTIONS = MatchedSolutions(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))


@dataclass(eq=False)
class Automaton:
    """Matches forms: numbered conjunctions, as rows of ids, with -1 - v for the variable v (numbered from 0)."""

    reach: int
    """how long a triple stays after its time, or after its ordinal in a count window"""
    most: int
    """the maximum number of solutions of one form per element; a form with more is removed"""
    cut: list[int] = field(default_factory=list)
    """forms that were removed because one element made too many solutions"""
    _forms: dict[int, Ints] = field(default_factory=dict)
    _window: AutomatonWindow = field(default_factory=lambda: room_for(FIRST_ROOM))
    _tries: tuple[PatternTrie, JoinTrie] | None = None
    _element: Ints = field(default_factory=lambda: np.empty(FIRST_ROOM, np.int64))
    _form: Ids = field(default_factory=lambda: np.empty(FIRST_ROOM, np.int32))
    _value: Ints = field(default_factory=lambda: np.empty(FIRST_ROOM, np.int64))
    _tally: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def __len__(self) -> int:
        return len(self._forms)

    def add(self, form: int, rows: Sequence[Sequence[int]]) -> None:
        """Add a conjunction; the present content of the window counts for it."""
        self._forms[form] = np.array(rows, np.int64)
        self._tries = None

    def remove(self, form: int) -> None:
        """Remove a form; the tries are rebuilt when they are next needed."""
        del self._forms[form]
        self._tries = None

    def prepare(self) -> tuple[PatternTrie, JoinTrie]:
        """Build the tries if forms have been added or removed since."""
        if self._tries is None:
            numbers = np.array([*self._forms], np.int64)
            starts = np.cumsum([0, *map(len, self._forms.values())], dtype=np.int64)
            rows = np.concatenate([*self._forms.values(), np.empty((0, 3), np.int64)])
            self._tries = build_tries(rows, starts, numbers)
            self._tally = np.full((int(numbers.max(initial=-1)) + 1, 2), NO_ELEMENT, np.int64)
            self._move(len(self._window.slots))
        return self._tries

    def read(self, clock: Ints, s: Ints, p: Ints, o: Ints, first: int = 0) -> MatchedSolutions:
        """Return the solutions that new elements make.

        `clock` has their times or ordinals, in order; `first` is the number of the first element. All elements of one
        time must be in the same call, as they form one instant.
        """
        tries = self.prepare()
        # The kernels are compiled for contiguous arrays; another layout would compile them again.
        clock, s, p, o = map(np.ascontiguousarray, (clock, s, p, o))
        new, at = np.empty(clock.size, np.bool_), np.zeros(4, np.int64)
        found = self._buffer(np.zeros(2, np.int64))
        while True:
            why = read(
                *tries, self._window, found, clock, s, p, o, new, at, first, self.reach, self.most
            )  # fmt: skip
            # The kernel stops when it runs out of room, and continues at `at` when it is called again.
            if why == DONE:
                return self._copied(found.used)
            if why == NO_SLOT:
                self._move(2 * len(self._window.slots))
                continue
            if why == TOO_MANY:
                self.cut.append(int(at[CUT]))
                self.remove(int(at[CUT]))
                tries = self.prepare()
            else:
                self._make_room()
            found = self._buffer(found.used)

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of the window's triples and of the patterns."""
        at = int(self._window.edge[OLDEST])
        while at >= 0:
            slot = self._window.slots[at]
            live[slot[S : O + 1]] = True
            at = int(slot[NEWER])
        for rows in self._forms.values():
            live[rows[rows >= 0]] = True

    def _move(self, slots: int) -> None:
        """Move the window's triples into a window of `slots` slots and match them against the present patterns."""
        assert self._tries is not None
        source, self._window = self._window, room_for(slots, chains(self._tries[1]))
        move_all(source, self._window, self._tries[0])

    def _make_room(self) -> None:
        """Double the room for solutions; those of the element in progress are found again."""
        self._element = np.resize(self._element, 2 * self._element.size)
        self._form = np.resize(self._form, 2 * self._form.size)
        self._value = np.resize(self._value, 2 * self._value.size)
        self._tally[:] = NO_ELEMENT

    def _buffer(self, used: Ints) -> SolutionBuffer:
        return SolutionBuffer(self._element, self._form, self._value, used, self._tally)

    def _copied(self, used: Ints) -> MatchedSolutions:
        solutions, values = used.tolist()
        return MatchedSolutions(
            self._element[:solutions].copy(), self._form[:solutions].copy(), self._value[:values].copy()
        )
