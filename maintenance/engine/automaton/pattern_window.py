"""A window of a pattern set: its automaton, and the queries that each form stands for."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.automaton.automaton import Automaton, MatchedSolutions
from freshkeeper.maintenance.engine.automaton.conjunction import Conjunction, PatternRows
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns
from freshkeeper.maintenance.engine.evaluator import Term, TermRow
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.model import Form, Operator, StreamWindow, WindowKind


@dataclass(frozen=True, eq=False)
class RegisteredPattern:
    """A registered query: its name and rank, and the position of each of its variables in the values of its form."""

    name: str
    rank: int
    window: str
    variables: tuple[str, ...]
    columns: tuple[int, ...]
    form: int
    rows: PatternRows

    def result(self, bounds: tuple[int, int], answers: list[TermRow]) -> Result:
        """Return the result of its new solutions at one instant."""
        windows = {self.window: bounds}
        return Result(
            t=bounds[1],
            form=Form.SELECT,
            operator=Operator.ISTREAM,
            variables=self.variables,
            answers=answers,
            freshness=None,
            windows=windows,
            query=self.name,
        )


@dataclass(frozen=True, eq=False)
class WindowMatches:
    """The new solutions of one window, and the queries that want them."""

    solutions: MatchedSolutions
    members: dict[int, tuple[RegisteredPattern, ...]]
    """by form"""
    window: StreamWindow
    times: Ints
    """of the elements from number `first` on"""
    first: int
    dictionary: Dictionary

    def __post_init__(self) -> None:
        """Let the dictionary keep the ids of these solutions."""
        self.dictionary.keep(self)

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of the solutions."""
        live[self.solutions.value] = True

    @cached_property
    def starts(self) -> Ints:
        """The position of each solution's first value, and the end of the last one."""
        widths = self._by_form([len(members[0].columns) for members in self.members.values()])
        return np.concatenate([[0], np.cumsum(widths)])

    @property
    def count(self) -> int:
        """The number of solutions, counting one for every query that has it."""
        return int(self._by_form([len(members) for members in self.members.values()]).sum())

    def counts(self) -> dict[str, int]:
        found = np.bincount(self.solutions.form)
        return {member.name: int(found[form]) for form, members in self.members.items() for member in members}

    def results(self) -> Iterator[Result]:
        """Yield the results of every instant, in order of registration."""
        instants = self.solutions.element
        if self.window.kind is not WindowKind.ELEMENTS:
            instants = self.times[instants - self.first]
        with self.dictionary.lock:
            values = self.dictionary.terms(self.solutions.value)
        rows = zip(instants.tolist(), self.solutions.form.tolist(), self.starts.tolist(), strict=False)
        for instant, solutions in groupby(rows, key=itemgetter(0)):
            bounds, found = self._bounds(instant), defaultdict[RegisteredPattern, list[TermRow]](list)
            for _, form, start in solutions:
                for member in self.members[form]:
                    found[member].append(tuple([values[start + column] for column in member.columns]))
            for member in sorted(found, key=attrgetter("rank")):
                yield member.result(bounds, found[member])

    def _bounds(self, instant: int) -> tuple[int, int]:
        span = self.window.range or 0
        if self.window.kind is not WindowKind.ELEMENTS:
            return instant - span, instant
        place = instant - self.first
        return int(self.times[max(0, place - span + 1)]), int(self.times[place])

    def _by_form(self, values: list[int]) -> Ints:
        """Return, for each solution, the value of its form."""
        table = np.zeros(max(self.members, default=0) + 1, np.int64)
        table[list(self.members)] = values
        return table[self.solutions.form]


@dataclass(eq=False)
class PatternWindow:
    """The queries over one window of one stream, as one automaton."""

    window: StreamWindow
    dictionary: Dictionary
    most: int
    cut: list[RegisteredPattern] = field(default_factory=list)
    """queries that were removed because one element made too many solutions"""
    first: int = 0
    """the number of the next element"""
    _forms: dict[PatternRows, int] = field(default_factory=dict)
    _members: dict[int, list[RegisteredPattern]] = field(default_factory=dict)
    _unused: list[int] = field(default_factory=list)
    """numbers of removed forms, for reuse"""
    _waiting: list[Columns] = field(default_factory=list)
    _recent: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """times of the last elements, in a count window"""

    def __post_init__(self) -> None:
        self._automaton = Automaton(self.window.range or 0, self.most)
        self._counts = self.window.kind is WindowKind.ELEMENTS
        self.dictionary.keep(self)

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of its triples and patterns."""
        self._automaton.mark(live)

    def __len__(self) -> int:
        return len(self._forms)

    def add(self, name: str, rank: int, query: Conjunction, ids: Mapping[Term, int]) -> RegisteredPattern:
        """Add a query, given the ids of its terms; equal conjunctions share a form."""
        rows, columns = query.rows(ids)
        form = self._forms.get(rows)
        if form is None:
            form = self._forms[rows] = self._unused.pop() if self._unused else len(self._forms)
            self._automaton.add(form, rows)
            self._members[form] = []
        member = RegisteredPattern(
            name=name,
            rank=rank,
            window=query.window.name,
            variables=query.variables,
            columns=columns,
            form=form,
            rows=rows,
        )
        self._members[form].append(member)
        return member

    def remove(self, member: RegisteredPattern) -> None:
        """Remove a query, and its form if no other query has it."""
        self._members[member.form].remove(member)
        if not self._members[member.form]:
            self._automaton.remove(member.form)
            self._forget(member)

    def feed(self, columns: Columns) -> WindowMatches:
        """Match elements in time order; in a time window those of the last instant wait until it is complete."""
        if self._counts:
            return self._read(columns)
        self._waiting.append(columns)
        return self.advance(int(columns.times[-1]))

    def advance(self, until: int) -> WindowMatches:
        """Match the waiting elements before `until`."""
        if not self._waiting or self._waiting[0].times[0] >= until:
            return self._read(self._none)
        if len(self._waiting) == 1:
            whole = self._waiting[0]
        else:
            whole = Columns.joined(self._waiting)
        cut = int(np.searchsorted(whole.times, until))
        if cut < len(whole):
            self._waiting = [whole.part(cut, len(whole))]
        else:
            self._waiting = []
        return self._read(whole.part(0, cut))

    def prepare(self) -> None:
        """Build the automaton now instead of at the next element."""
        self._automaton.prepare()

    def _read(self, columns: Columns) -> WindowMatches:
        clock = columns.times
        if self._counts:
            clock = np.arange(self.first, self.first + len(columns))
        solutions = self._automaton.read(clock, columns.s, columns.p, columns.o, self.first)
        there = np.flatnonzero(np.bincount(solutions.form)).tolist()
        times = np.concatenate([self._recent, columns.times])
        wanting = {form: tuple(self._members[form]) for form in there}
        found = WindowMatches(
            solutions,
            wanting,
            window=self.window,
            times=times,
            first=self.first - self._recent.size,
            dictionary=self.dictionary,
        )
        self.first += len(columns)
        if self._counts:
            self._recent = times[max(0, times.size - (self.window.range or 1) + 1) :]
        while self._automaton.cut:
            self._cut(self._automaton.cut.pop())
        return found

    def _cut(self, form: int) -> None:
        self.cut += self._members[form]
        self._forget(self._members[form][0])

    def _forget(self, member: RegisteredPattern) -> None:
        del self._members[member.form], self._forms[member.rows]
        self._unused.append(member.form)

    @cached_property
    def _none(self) -> Columns:
        nothing = np.empty(0, np.int64)
        return Columns(nothing, nothing, nothing, nothing, self.dictionary)
