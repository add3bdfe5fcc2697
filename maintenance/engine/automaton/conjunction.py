"""Which queries are conjunctions of triple patterns over one window, and what they are then."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.automaton.automaton_tries import MOST_PATTERNS
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.query.model import Form, Operator, Query, Report, Window, WindowKind
from freshkeeper.maintenance.query.syntax.tree import Element, Path, Quoted, TriplePattern, WindowBlock

Rows: TypeAlias = tuple[tuple[int, ...], ...]
"""Triple patterns with ids for constants and -1 - v for the variable v: equal conjunctions have equal rows."""
Row: TypeAlias = list[str | int]
"""One with its variables' names"""
Pattern: TypeAlias = tuple[str | Term, str | Term, str | Term]
"""A triple pattern of names of variables, and terms"""


@dataclass(frozen=True)
class Conjunction:
    """A set of triple patterns over one window, and the variables of its answers in their order."""

    window: Window
    patterns: tuple[Pattern, ...]
    variables: tuple[str, ...]

    @classmethod
    def of(cls, query: Query) -> "Conjunction":
        """The conjunction that a query is; a ConfigError says why it is none."""
        if (reason := refusal(query)) is not None:
            raise ConfigError(f"the query is no conjunction of triple patterns over one window: {reason}")
        patterns = tuple(dict.fromkeys(_patterns(query)))
        variables = sorted(_names(patterns)) if query.tree.star else list(query.tree.columns)
        return cls(query.windows[0], patterns, tuple(variables))

    @cached_property
    def terms(self) -> frozenset[Term]:
        """The constants of its patterns."""
        return frozenset(term for triple in self.patterns for term in triple if not isinstance(term, str))

    def rows(self, ids: Mapping[Term, int]) -> tuple[Rows, tuple[int, ...]]:
        """Its patterns as rows, in an order and with numbers of variables of their own; the number of each variable."""
        coded = ([term if isinstance(term, str) else ids[term] for term in triple] for triple in self.patterns)
        numbers: dict[str, int] = {}
        rows = dict.fromkeys(_numbered(row, numbers) for row in sorted(coded, key=_shape))
        return tuple(rows), tuple(numbers[name] for name in self.variables)


def refusal(query: Query) -> str | None:
    """Why a query is no conjunction over one window that moves with every element; nothing where it is one."""
    return next(_objections(query), None)


def _objections(query: Query) -> Iterator[str]:
    if query.form is not Form.SELECT:
        yield f"its form is {query.form}, not SELECT"
    if len(query.windows) != 1:
        yield f"it has {len(query.windows)} windows"
        return
    if query.operator is not Operator.ISTREAM:
        yield f"its output operator is {query.operator}: new solutions alone are ISTREAM's"
    yield from _of_window(query.windows[0], query)
    yield from _of_group(query)
    yield from _of_answers(query)


def _of_window(window: Window, query: Query) -> Iterator[str]:
    if window.kind is WindowKind.ALL:
        yield "its window keeps everything"
    if window.step is not None and (window.kind, window.step) != (WindowKind.ELEMENTS, 1):
        yield "its window has a step"
    if window.lag or window.closure is not Closure.LEFT_OPEN:
        yield "its window ends before the evaluation"
    if query.times.every is not None:
        yield "it is computed every so often"
    if Report.ON_WINDOW_CLOSE in query.times.report and window.step is None:
        yield "it reports when its window closes, and without a step no window closes"
    if not window.named:
        yield "its window joins the default graph"


def _of_group(query: Query) -> Iterator[str]:
    name = query.windows[0].name
    for block in query.group:
        if isinstance(block, WindowBlock) and block.iri == name:
            yield from (f"{_shown(element)} {wrong}" for element in block.inner if (wrong := _wrong(element)))
        else:
            yield f"{_shown(block)} is no block of its window"
    if not 1 <= (count := sum(len(block.inner) for block in query.group)) <= MOST_PATTERNS:
        yield f"it has {count} triple patterns: 1 to {MOST_PATTERNS} can be"


def _wrong(element: Element) -> str:
    plain = element.plain if isinstance(element, TriplePattern) else None
    if plain is None:
        return "is no single triple pattern"
    blank = any(isinstance(term, str) and term.startswith("_:") for term in plain)
    return "has a blank node: a variable would do" if blank else ""


def _of_answers(query: Query) -> Iterator[str]:
    tree = query.tree
    if tree.tail:
        yield f"{tree.tail[0].text} stands behind its pattern"
    if not tree.star and ({*tree.columns} != _names(_patterns(query)) or any(tree.columns.values())):
        yield "it does not show all its variables as they are: write SELECT *"


def _patterns(query: Query) -> Iterator[Pattern]:
    """Its triple patterns; those that are more than that are left out."""
    for element in (element for block in query.group for element in block.inner):
        plain = element.plain if isinstance(element, TriplePattern) else None
        s, p, o = (None if isinstance(term, Path | Quoted) else term for term in plain or (None,) * 3)
        if s is not None and p is not None and o is not None:
            yield s, p, o


def _names(patterns: Iterable[Pattern]) -> set[str]:
    return {term for triple in patterns for term in triple if isinstance(term, str)}


def _shown(element: Element) -> str:
    text = element.flat
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shape(row: Row) -> tuple[list[int], list[str]]:
    """What two patterns are ordered by: their constants, their equal variables, and then their names."""
    names = [each for each in row if isinstance(each, str)]
    return [-1 - names.index(each) if isinstance(each, str) else each for each in row], names


def _numbered(row: Row, numbers: dict[str, int]) -> tuple[int, ...]:
    """The row with its variables as numbers; new ones get the next."""
    return tuple(-1 - numbers.setdefault(v, len(numbers)) if isinstance(v, str) else v for v in row)
