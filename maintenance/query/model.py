"""The query object: RSP-QL's quadruple (SE, SDS, ET, QF), the operator that makes a stream of the answers, the output.

Everything is immutable; what follows from the text (the SPARQL 1.1 text, the SERVICE patterns) is computed once.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.query.service_context import Context, context_of, window_variables
from freshkeeper.maintenance.query.service_patterns import ServicePattern, outermost, services_in
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.query_errors import place
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.rewrite import alias_edits, window_edits
from freshkeeper.maintenance.query.syntax.source_map import Edit, SourceMap, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Token, tokenize
from freshkeeper.maintenance.query.syntax.tree import Element, Select, Source


class Form(StrEnum):
    """QF: what an answer is."""

    SELECT = "SELECT"
    CONSTRUCT = "CONSTRUCT"
    ASK = "ASK"
    DESCRIBE = "DESCRIBE"


class Operator(StrEnum):
    """R2S: which answers of an evaluation go to the output."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


class Report(StrEnum):
    """A report policy, as SECRET names them; several together report only where all of them do."""

    ON_WINDOW_CLOSE = "ON_WINDOW_CLOSE"
    ON_CONTENT_CHANGE = "ON_CONTENT_CHANGE"
    NON_EMPTY = "NON_EMPTY"
    PERIODIC = "PERIODIC"


class WindowKind(StrEnum):
    """What a window's content is: a span of time, the last n elements, this instant's elements, or all so far."""

    TIME = "time"
    ELEMENTS = "elements"
    NOW = "now"
    ALL = "all"


@dataclass(frozen=True)
class Window:
    """One sliding window over one stream.

    `range` and `step` are milliseconds, or counts of elements. NOW has range 1 (the elements of this very instant) and
    ALL has none. Without a step the window moves with every element. `t0` None is the run's default start. `lag` is how
    long before the evaluation a window of time ends: (t − lag − ω, t − lag].
    """

    name: str
    stream: str
    kind: WindowKind = WindowKind.TIME
    range: int | None = None
    step: int | None = None
    t0: int | None = None
    closure: Closure = Closure.LEFT_OPEN
    named: bool = True
    lag: int = 0


@dataclass(frozen=True)
class Dataset:
    """SDS: the default graph is `default_graphs` (none named: what is loaded as default) and every merged window."""

    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()

    @property
    def named_windows(self) -> tuple[Window, ...]:
        """The windows that WINDOW blocks ask."""
        return tuple(window for window in self.windows if window.named)

    @property
    def merged_windows(self) -> tuple[Window, ...]:
        """The windows whose content joins the default graph."""
        return tuple(window for window in self.windows if not window.named)


@dataclass(frozen=True)
class EvaluationTimes:
    """ET: the report policies, sorted, and the period of PERIODIC (COMPUTED EVERY) in milliseconds."""

    report: tuple[Report, ...] = (Report.ON_WINDOW_CLOSE,)
    every: int | None = None


@dataclass(frozen=True)
class Expression:
    """SE as text: the names' meaning, the form with its variables or template, the pattern with WINDOW, the rest."""

    prologue: Prologue
    head: str
    where: str
    tail: str = ""

    @cached_property
    def source(self) -> Source:
        """All of it as tokens: head + where + tail."""
        return Source(tokenize(self.head + self.where + self.tail), self.prologue)

    @property
    def behind(self) -> int:
        """The place in the source where the pattern ends."""
        return len(self.head) + len(self.where)


@dataclass(frozen=True)
class Query:
    """A continuous query; a query without windows is plain SPARQL, evaluated once."""

    expression: Expression
    form: Form
    dataset: Dataset = Dataset()
    times: EvaluationTimes = EvaluationTimes()
    operator: Operator = Operator.RSTREAM
    output: str | None = None
    dialect: str = field(default="RSP-QL", compare=False)
    written: tuple[str, SourceMap] | None = field(default=None, compare=False, repr=False)
    """the text that it was read from, and where each place of the expression is in it"""

    @cached_property
    def tree(self) -> Select:
        """The syntax tree, over the source of the expression."""
        return read_query(self.expression.source, self._spans[0])

    @property
    def group(self) -> tuple[Element, ...]:
        """The elements of WHERE."""
        return self.tree.inner

    @property
    def _spans(self) -> tuple[int, int]:
        """The token that opens the pattern, and the one behind it."""
        starts = [item.start for item in self.expression.source.items]
        return bisect_left(starts, len(self.expression.head)), bisect_left(starts, self.expression.behind)

    @cached_property
    def _edits(self) -> list[Edit]:
        e, tokens = self.expression, self.expression.source.tokens
        opening, closing = self._spans
        names = [window.name for window in self.dataset.named_windows]
        edits = [Edit(0, 0, e.prologue.text), *alias_edits(tokens, opening)]
        if e.where:
            edits += [Edit(len(e.head), len(e.head), "\nWHERE "), *window_edits(tokens, names, opening, closing)]
        return [*edits, Edit(e.behind, e.behind, "\n")] if e.tail else edits

    def place(self, element: Element | Token) -> tuple[int, int] | None:
        """The line and the column of an element or a token in the text that the query was read from."""
        if self.written is None:
            return None
        text, source_map = self.written
        return place(text, source_map.origin(element.start))

    def said_of(self, element: Element | Token | None, said: str) -> str:
        """What is said of an element, behind its place where that is known."""
        found = None if element is None else self.place(element)
        return said if found is None else f"line {found[0]}, column {found[1]}: {said}"

    def rewrite(self, *edits: Edit) -> SourceMap:
        """The SPARQL 1.1 text with some edits made in its source, traced to that."""
        weaver = Weaver(self.expression.source.tokens.text)
        weaver.copy(0, len(weaver.source), sorted([*edits, *self._edits], key=lambda edit: edit[:2]))
        return weaver.done()

    @cached_property
    def rewritten(self) -> SourceMap:
        """The SPARQL 1.1 text, traced to head + where + tail of the expression."""
        return self.rewrite()

    @property
    def sparql(self) -> str:
        """The SPARQL 1.1 text: WINDOW blocks are GRAPH blocks, the dataset clauses are gone (they are the SDS)."""
        return self.rewritten.text

    @property
    def windows(self) -> tuple[Window, ...]:
        """Every window, in the order of declaration."""
        return self.dataset.windows

    @cached_property
    def services(self) -> tuple[ServicePattern, ...]:
        """Every SERVICE pattern, in the order of the text."""
        return services_in(self.tree)

    @cached_property
    def outer_services(self) -> tuple[ServicePattern, ...]:
        """Those that stand in no other one."""
        return outermost(self.services)

    @cached_property
    def window_variables(self) -> Mapping[str, frozenset[str]]:
        """Per window IRI, the variables that its content binds, and those that BIND computes from them."""
        return self._window_variables(self.group)

    def _window_variables(self, elements: Sequence[Element]) -> Mapping[str, frozenset[str]]:
        named = [window.name for window in self.dataset.named_windows]
        merged = [window.name for window in self.dataset.merged_windows]
        return window_variables(elements, named, merged)

    @cached_property
    def windowed(self) -> frozenset[str]:
        """What any window binds."""
        return frozenset().union(*self.window_variables.values())

    def context(self, service: ServicePattern) -> Context:
        """What joins with a SERVICE pattern that stands in no other one."""
        return context_of(self.group, service.block)

    def join_variables(self, service: ServicePattern) -> frozenset[str]:
        """What windows give a SERVICE pattern to join with."""
        context = self.context(service)
        return context.variables & frozenset().union(*self._window_variables(context.elements()).values())
