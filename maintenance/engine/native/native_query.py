"""Evaluates a query natively: arrivals are joined once, and triples that leave remove their solutions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import QuerySolutions, Store

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import IdRows, bag_difference, first_occurrences, stacked
from freshkeeper.maintenance.engine.columns.join_inputs import Relation, WindowInput
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore, IntervalRows, WindowMove
from freshkeeper.maintenance.engine.construct import solutions_text
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.native.answer_columns import GroupRows, TemplateTriples
from freshkeeper.maintenance.engine.native.expressions import ExpressionEvaluator, LiteralIds, apply_expressions
from freshkeeper.maintenance.engine.native.joins import DeltaJoin, PartialSolutions
from freshkeeper.maintenance.engine.native.moving_query import MovingAnswers, MovingQuery, moves_with_elements
from freshkeeper.maintenance.engine.native.moving_window import MovingWindow
from freshkeeper.maintenance.engine.native.native_plan import NativePlan, WindowPattern
from freshkeeper.maintenance.engine.native.solutions import SolutionTable
from freshkeeper.maintenance.engine.native.static_parts import relations
from freshkeeper.maintenance.engine.r2s import AnswerBag, R2SStream
from freshkeeper.maintenance.engine.snapshot import Graphs
from freshkeeper.maintenance.engine.windows import SharedWindows, WindowState, windows_of
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob
from freshkeeper.maintenance.query.model import Form, Operator, Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph


@dataclass(eq=False)
class NativeAnswers:
    """Solutions that are kept up to date with the windows, and what R2S selects from them."""

    query: Query
    plan: NativePlan
    contents: Sequence[WindowState]
    static: StaticGraphs
    dictionary: Dictionary
    variables: tuple[str, ...] = ()
    errors: int = 0
    keep_full_result: bool = False
    """return all answers, because R2S compares terms that a saved state contains"""
    _gained: list[Ints] = field(default_factory=list)
    _lost: list[Ints] = field(default_factory=list)
    _before: Ints | None = None

    def __post_init__(self) -> None:
        """Solve the static parts and set up the join of the windows with them."""
        head = self.plan.head
        self.variables = self.variables or output_variables(self.query)
        plain = head.form is Form.SELECT and head.grouping is None
        self._projection = self.variables if plain else self.plan.projection
        self._groups: GroupRows | None = None
        if head.grouping:
            self._groups = GroupRows(head.grouping, self._projection, self.variables, self.dictionary)
        self._triples: TemplateTriples | None = None
        if head.template:
            self._triples = TemplateTriples(head.template, self._projection, self.dictionary)
        held = [content.store for content in self.contents]
        windows = [self._input(pattern, held) for pattern in self.plan.patterns]
        self._join = DeltaJoin([*windows, *relations(self.query, self.plan.statics, self.static)])
        literals = LiteralIds(self.dictionary)
        prologue = self.query.expression.prologue.text
        self._expressions = [
            ExpressionEvaluator(each, prologue, self.dictionary, literals) for each in self.plan.expressions
        ]
        self.table = self._table([held[pattern.window] for pattern in self.plan.patterns])
        self._swapped: Sequence[Relation] | None = None
        self.dictionary.hold(self._mark)
        self.static.watch(self, NativeAnswers._solve_again)

    @property
    def operator(self) -> Operator:
        """The R2S operator that is applied here, to columns."""
        return Operator.RSTREAM if self.keep_full_result else self.query.operator

    def apply(self, content: WindowState, move: WindowMove) -> None:
        """Update the solutions after a window has moved."""
        if not move.changed:
            return
        held = content.store
        self._lose(*self.table.drop(held))
        self._gain(self._join.arrived(held))

    def replace(self, found: Sequence[Relation]) -> None:
        """Use other solutions of the static parts from the next evaluation on; safe from any thread."""
        with self.dictionary.lock:
            self._swapped = found

    def _solve_again(self) -> None:
        self.replace(relations(self.query, self.plan.statics, self.static))

    def _swap(self) -> None:
        """Take over new static solutions, if any: all solutions are found again, and R2S sees the difference."""
        with self.dictionary.lock:
            if (found := self._swapped) is None:
                return
            windows = [one for one in self._join.inputs if isinstance(one, WindowInput)]
            self._join, self._swapped = DeltaJoin([*windows, *found]), None
        self._lose(*self.table.clear())
        self._gain(self._join.all())

    def _gain(self, found: Iterable[PartialSolutions]) -> None:
        for solutions in found:
            kept = apply_expressions(solutions, self._expressions)
            values = stacked([kept.bound[name] for name in self.table.variables], kept.size)
            self.table.add(values, kept.members[: len(self.table.holders)])
            self._remember(self._gained, values)

    def answers(self, _: int) -> AnswerBag:
        self._swap()
        if self.plan.head.form is Form.ASK:
            return AnswerBag([self.table.size > 0])
        rows = self._streamed()
        if self.plan.head.form is Form.CONSTRUCT:
            return AnswerBag(self._triples.of(rows) if self._triples else [])
        return AnswerBag(IdRows(rows, self.dictionary))

    def prepare(self, _: int) -> Sequence[FetchJob]:
        """Return no fetch jobs: solutions are kept up to date by `apply`."""
        return ()

    def rebuild(self, _now: int, _done: int) -> Sequence[FetchJob]:
        """Take the changes as seen: the answers of this evaluation have been written by an earlier run."""
        self._streamed()
        return ()

    def leave(self) -> None:
        """Do nothing: windows that are shared do not count their users."""

    def emit(self, streamed: AnswerBag) -> AnswerBag:
        """Return the answers as they are: CONSTRUCT has made its triples already."""
        return streamed

    def _streamed(self) -> Ints:
        operator, table = self.operator, self.table
        if operator is Operator.RSTREAM:
            return self._rows()
        if self._compares_rows:
            now = self._rows()
            before = now[:, :0] if self._before is None else self._before
            self._before = now
            gained, lost = now, before
        else:
            none = table.values[:, :0]
            gained, lost = (np.concatenate([none, *each], axis=1) for each in (self._gained, self._lost))
            self._gained, self._lost = [], []
        left, right = (gained, lost) if operator is Operator.ISTREAM else (lost, gained)
        return left[:, bag_difference(left, right)]

    @property
    def _compares_rows(self) -> bool:
        """True if R2S must compare all rows of two evaluations, not just the solutions that came and went."""
        return self.plan.head.distinct or self._groups is not None

    def _rows(self) -> Ints:
        if self._groups is None:
            rows = self.table.values.copy()
        else:
            rows = self._groups.rows(self.table.values)
        return rows[:, first_occurrences(rows)] if self.plan.head.distinct else rows

    def _table(self, holders: Sequence[ColumnWindowStore]) -> SolutionTable:
        return SolutionTable(self._projection, holders)

    def _lose(self, values: Ints, noted: Ints) -> None:
        del noted
        self._remember(self._lost, values)

    def _remember(self, where: list[Ints], values: Ints) -> None:
        """Store solutions that came or went for the next R2S comparison, if it needs them."""
        if self.operator is not Operator.RSTREAM and not self._compares_rows and values.shape[1]:
            where.append(values)

    def _input(self, pattern: WindowPattern, held: Sequence[ColumnWindowStore]) -> WindowInput:
        return WindowInput(held[pattern.window], self.dictionary.pattern(pattern.terms))

    def _mark(self, live: Bools) -> None:
        self.table.mark(live)
        for ids in (*self._gained, *self._lost, *([] if self._before is None else [self._before])):
            live[ids[ids >= 0]] = True
        for one in (*self._join.inputs, *(self._swapped or ())):
            if isinstance(one, Relation | WindowInput):
                one.mark(live)


def native_query(
    query: Query,
    plan: NativePlan,
    graphs: Graphs,
    start: int,
    name: str,
    dictionary: Dictionary,
    keep_full_result: bool = False,
    windows: SharedWindows | None = None,
) -> ContinuousQuery:
    """Create the query for a plan."""
    counts = plan.head.grouping is None or plan.head.grouping.counts
    if counts and moves_with_elements(query) and not keep_full_result:
        return _moving_query(query, plan, graphs=graphs, start=start, name=name, dictionary=dictionary)
    contents, static = windows_of(query, start, dictionary, windows), StaticGraphs.of(graphs, dictionary)
    answers = NativeAnswers(query, plan, contents, static, dictionary, keep_full_result=keep_full_result)
    return query_of_answers(answers, start, name)


def query_of_answers(answers: NativeAnswers, start: int, name: str) -> ContinuousQuery:
    """Create the query that runs these answers."""
    query, contents, dictionary = answers.query, answers.contents, answers.dictionary
    found = ContinuousQuery(
        query, contents, answers, start=start, name=name, follow=answers.apply, dictionary=dictionary
    )
    if query.form is not Form.ASK and not answers.keep_full_result:
        found.streamer = R2SStream(Operator.RSTREAM)  # R2S has been applied to columns already
    return found


def _moving_query(
    query: Query, plan: NativePlan, graphs: Graphs, start: int, name: str, dictionary: Dictionary
) -> MovingQuery:
    windows = [MovingWindow(window, IntervalRows(dictionary)) for window in query.windows]
    static = StaticGraphs.of(graphs, dictionary)
    moving = MovingAnswers(
        query,
        plan,
        dictionary=dictionary,
        variables=output_variables(query),
        windows=windows,
        relations=relations(query, plan.statics, static),
    )
    static.watch(moving, lambda moving: moving.replace(relations(query, plan.statics, static)))
    contents = windows_of(query, start, dictionary)
    return MovingQuery(query, contents, None, start=start, name=name, dictionary=dictionary, moving=moving)


def output_variables(query: Query) -> tuple[str, ...]:
    """Return the visible variables in the SPARQL library's order; for CONSTRUCT those that R2S compares."""
    constructs = query.form is Form.CONSTRUCT and query.operator is not Operator.RSTREAM
    if constructs:
        text = solutions_text(query)
    else:
        text = query.sparql if query.form is Form.SELECT else None
    if text is None:
        return ()
    found = Store().query(rewrite_for_pyoxigraph(text))
    assert isinstance(found, QuerySolutions)
    return tuple(variable.value for variable in found.variables)
