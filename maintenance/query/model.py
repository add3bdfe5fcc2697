"""The query object: RSP-QL's quadruple (SE, SDS, ET, QF), the operator that makes a stream of the answers, the output.

Everything is immutable; what follows from the text (the SPARQL 1.1 text, the SERVICE patterns) is computed once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from freshkeeper.maintenance.query.federation.context import Surroundings, surroundings
from freshkeeper.maintenance.query.federation.service_patterns import (
    ServicePattern,
    find_services,
    find_window_variables,
)
from freshkeeper.maintenance.query.syntax.patterns import Element, read_group
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.rewrite import to_sparql
from freshkeeper.maintenance.query.syntax.source_map import SourceMap
from freshkeeper.maintenance.query.syntax.tokens import Tokens, tokenize


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


class Closure(StrEnum):
    """Which end of a time window belongs to it: (t − ω, t] is left-open, [t − ω, t) is right-open."""

    LEFT_OPEN = "left-open"
    RIGHT_OPEN = "right-open"


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
    def pattern(self) -> Tokens:
        """The tokens of `where`."""
        return tokenize(self.where)


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

    @cached_property
    def rewritten(self) -> SourceMap:
        """The SPARQL 1.1 text, traced to head + where + tail of the expression."""
        e = self.expression
        names = [window.name for window in self.dataset.named_windows]
        return to_sparql(e.prologue, e.head, e.pattern, e.tail, names)

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
        """Every SERVICE pattern, in the order of the text; spans are offsets in `sparql`."""
        return find_services(self.sparql, self.expression.prologue)

    @cached_property
    def outer_services(self) -> tuple[ServicePattern, ...]:
        """Those that stand in no other one."""
        found: list[ServicePattern] = []
        for service in self.services:
            if not found or service.span[0] >= found[-1].span[1]:
                found.append(service)
        return tuple(found)

    @cached_property
    def window_variables(self) -> Mapping[str, frozenset[str]]:
        """Per window IRI, the variables that its content binds, and those that BIND computes from them."""
        return self._window_variables(self.expression.pattern)

    def _window_variables(self, pattern: Tokens) -> Mapping[str, frozenset[str]]:
        named = [window.name for window in self.dataset.named_windows]
        merged = [window.name for window in self.dataset.merged_windows]
        return find_window_variables(pattern, self.expression.prologue, named, merged)

    @cached_property
    def windowed(self) -> frozenset[str]:
        """What any window binds."""
        return frozenset().union(*self.window_variables.values())

    @cached_property
    def group(self) -> tuple[Element, ...]:
        """The elements of WHERE."""
        return read_group(self.expression.pattern, self.expression.prologue) if self.expression.pattern.text else ()

    def around(self, service: int) -> Surroundings:
        """What joins with one of `outer_services`."""
        return surroundings(self.group, service)

    def given(self, service: int) -> frozenset[str]:
        """What windows give one of `outer_services` to join with."""
        around = self.around(service)
        return around.variables & frozenset().union(*self._window_variables(tokenize(around.text)).values())
