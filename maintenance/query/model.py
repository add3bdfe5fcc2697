"""The Query object: RSP-QL's quadruple (SE, SDS, ET, QF), the operator from relations to streams, and the output.

Everything is immutable; the SPARQL 1.1 text and the SERVICE patterns are computed from it once.
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
from freshkeeper.maintenance.query.syntax.source_text import SourceText
from freshkeeper.maintenance.query.syntax.tokens import Token, tokenize
from freshkeeper.maintenance.query.syntax.tree import Element, Select


class Form(StrEnum):
    """QF: the form of an answer."""

    SELECT = "SELECT"
    CONSTRUCT = "CONSTRUCT"
    ASK = "ASK"
    DESCRIBE = "DESCRIBE"


class Operator(StrEnum):
    """R2S: the answers of an evaluation that go to the output."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


class Report(StrEnum):
    """A report policy, as SECRET names them; several together report only when all of them do."""

    ON_WINDOW_CLOSE = "ON_WINDOW_CLOSE"
    ON_CONTENT_CHANGE = "ON_CONTENT_CHANGE"
    NON_EMPTY = "NON_EMPTY"
    PERIODIC = "PERIODIC"


class WindowKind(StrEnum):
    """The content of a window: a span of time, the last n elements, this instant's elements, or all so far."""

    TIME = "time"
    ELEMENTS = "elements"
    NOW = "now"
    ALL = "all"


@dataclass(frozen=True)
class StreamWindow:
    """A sliding window over a stream.

    `range` and `step` are milliseconds, or counts of elements. NOW has range 1 (the elements of this very instant) and
    ALL has none. Without a step the window moves with every element. `t0` None is the run's default start. `lag` is the
    time from the end of a time window to the evaluation: (t − lag − ω, t − lag].
    """

    name: str
    stream: str
    kind: WindowKind = WindowKind.TIME
    range: int | None = None
    step: int | None = None
    t0: int | None = None
    closure: Closure = Closure.LEFT_OPEN
    is_named: bool = True
    lag: int = 0


@dataclass(frozen=True)
class Dataset:
    """SDS: the default graph is `default_graphs` (none given: the data loaded as default) and every merged window."""

    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()
    windows: tuple[StreamWindow, ...] = ()

    @property
    def named_windows(self) -> tuple[StreamWindow, ...]:
        """The windows that WINDOW blocks query."""
        return tuple(window for window in self.windows if window.is_named)

    @property
    def merged_windows(self) -> tuple[StreamWindow, ...]:
        """The windows whose content joins the default graph."""
        return tuple(window for window in self.windows if not window.is_named)


@dataclass(frozen=True)
class EvaluationTimes:
    """ET: the report policies, sorted, and the period of PERIODIC (COMPUTED EVERY) in milliseconds."""

    report: tuple[Report, ...] = (Report.ON_WINDOW_CLOSE,)
    every: int | None = None


@dataclass(frozen=True)
class QueryExpression:
    """SE as text: the prologue, the form with its variables or template, the pattern, and the clauses after it."""

    prologue: Prologue
    head: str
    where: str
    tail: str = ""

    @cached_property
    def source(self) -> SourceText:
        """The whole expression as tokens: head + where + tail."""
        return SourceText(tokenize(self.head + self.where + self.tail), self.prologue)

    @property
    def behind(self) -> int:
        """The offset in the source at which the pattern ends."""
        return len(self.head) + len(self.where)


@dataclass(frozen=True)
class Query:
    """A continuous query; a query without windows is plain SPARQL, evaluated once."""

    expression: QueryExpression
    form: Form
    dataset: Dataset = Dataset()
    times: EvaluationTimes = EvaluationTimes()
    operator: Operator = Operator.RSTREAM
    output: str | None = None
    dialect: str = field(default="RSP-QL", compare=False)
    origin: tuple[str, SourceMap] | None = field(default=None, compare=False, repr=False)
    """the text that it was read from, and the map from places of the expression to places in that text"""

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
        """The token that opens the pattern, and the token behind it."""
        starts = [item.start for item in self.expression.source.items]
        return bisect_left(starts, len(self.expression.head)), bisect_left(starts, self.expression.behind)

    @cached_property
    def _edits(self) -> list[Edit]:
        expression = self.expression
        tokens = expression.source.tokens
        opening, closing = self._spans
        edits = [Edit(0, 0, expression.prologue.text), *alias_edits(tokens, opening)]
        if expression.where:
            head_end = len(expression.head)
            names = [window.name for window in self.dataset.named_windows]
            edits += [Edit(head_end, head_end, "\nWHERE "), *window_edits(tokens, names, opening, closing)]
        if expression.tail:
            edits.append(Edit(expression.behind, expression.behind, "\n"))
        return edits

    def place(self, element: Element | Token) -> tuple[int, int] | None:
        """Return line and column of an element or a token in the text from which the query was read."""
        if self.origin is None:
            return None
        text, source_map = self.origin
        return place(text, source_map.origin(element.start))

    def message_at(self, element: Element | Token | None, message: str) -> str:
        """Return a message about an element, behind its place if that is known."""
        if element is None:
            return message
        found = self.place(element)
        if found is None:
            return message
        line, column = found
        return f"line {line}, column {column}: {message}"

    def rewrite(self, *edits: Edit) -> SourceMap:
        """Return the SPARQL 1.1 text with some edits to its source, traced to that source."""
        weaver = Weaver(self.expression.source.tokens.text)
        # sorted by place alone: edits of one place stay in their order
        weaver.copy(0, len(weaver.source), sorted([*edits, *self._edits], key=lambda edit: edit[:2]))
        return weaver.finish()

    @cached_property
    def rewritten(self) -> SourceMap:
        """The SPARQL 1.1 text, traced to head + where + tail of the expression."""
        return self.rewrite()

    @property
    def sparql(self) -> str:
        """The SPARQL 1.1 text: WINDOW blocks are GRAPH blocks, and the dataset clauses (the SDS) are left out."""
        return self.rewritten.text

    @property
    def windows(self) -> tuple[StreamWindow, ...]:
        """Every window, in the order of declaration."""
        return self.dataset.windows

    @cached_property
    def services(self) -> tuple[ServicePattern, ...]:
        """Every SERVICE pattern, in the order of the text."""
        return services_in(self.tree)

    @cached_property
    def outer_services(self) -> tuple[ServicePattern, ...]:
        """The SERVICE patterns that stand in no other one."""
        return outermost(self.services)

    @cached_property
    def window_variables(self) -> Mapping[str, frozenset[str]]:
        """Variables that the content of every window binds, and those that BIND computes from them, by window IRI."""
        return self._window_variables(self.group)

    def _window_variables(self, elements: Sequence[Element]) -> Mapping[str, frozenset[str]]:
        named = [window.name for window in self.dataset.named_windows]
        merged = [window.name for window in self.dataset.merged_windows]
        return window_variables(elements, named, merged)

    @cached_property
    def windowed(self) -> frozenset[str]:
        """The variables that any window binds."""
        return frozenset().union(*self.window_variables.values())

    def context(self, service: ServicePattern) -> Context:
        """Return the elements that join with a SERVICE pattern that stands in no other one."""
        return context_of(self.group, service.block)

    def join_variables(self, service: ServicePattern) -> frozenset[str]:
        """Return the variables by which windows join with a SERVICE pattern."""
        context = self.context(service)
        return context.variables & frozenset().union(*self._window_variables(context.elements()).values())
