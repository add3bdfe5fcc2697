"""Recognises queries that are conjunctions of triple patterns over one window, for the automaton."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.automaton.tries import MOST_PATTERNS
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.query.model import Form, Operator, Query, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.source_text import Path, Quoted
from freshkeeper.maintenance.query.syntax.tree import Element, TriplePattern, WindowBlock

PatternRows: TypeAlias = tuple[tuple[int, ...], ...]
"""Triple patterns with ids for constants and -1 - v for the variable v; equal conjunctions have equal rows."""
NamedPattern: TypeAlias = list[str | int]
"""One triple pattern with variables by name."""
PatternTerms: TypeAlias = tuple[str | Term, str | Term, str | Term]
"""A triple pattern of variable names and terms."""


@dataclass(frozen=True)
class Conjunction:
    """A set of triple patterns over one window, and the variables of its answers in order."""

    window: StreamWindow
    patterns: tuple[PatternTerms, ...]
    variables: tuple[str, ...]

    @classmethod
    def of(cls, query: Query) -> "Conjunction":
        """Return the conjunction that a query is; raise ConfigError with the reason if it is none."""
        if (reason := refusal(query)) is not None:
            raise ConfigError(f"the query is not a conjunction of triple patterns over one window: {reason}")
        patterns = tuple(dict.fromkeys(_patterns(query)))
        if query.tree.star:
            variables = sorted(_names(patterns))
        else:
            variables = list(query.tree.columns)
        return cls(query.windows[0], patterns, tuple(variables))

    @cached_property
    def terms(self) -> frozenset[Term]:
        """The constants of the patterns."""
        return frozenset(term for triple in self.patterns for term in triple if not isinstance(term, str))

    def rows(self, ids: Mapping[Term, int]) -> tuple[PatternRows, tuple[int, ...]]:
        """Return the patterns as rows in a canonical order and numbering, and the number of each variable."""
        coded: list[NamedPattern] = []
        for triple in self.patterns:
            coded.append([term if isinstance(term, str) else ids[term] for term in triple])
        numbers: dict[str, int] = {}
        rows = dict.fromkeys(_numbered(row, numbers) for row in sorted(coded, key=_shape))
        return tuple(rows), tuple(numbers[name] for name in self.variables)


def refusal(query: Query) -> str | None:
    """Return why a query is not a conjunction over one window that moves with every element; None if it is one."""
    return next(_objections(query), None)


def _objections(query: Query) -> Iterator[str]:
    if query.form is not Form.SELECT:
        yield f"its form is {query.form}, not SELECT"
    if len(query.windows) != 1:
        yield f"it has {len(query.windows)} windows"
        return
    if query.operator is not Operator.ISTREAM:
        yield f"its output operator is {query.operator}, not ISTREAM"
    yield from _of_window(query.windows[0], query)
    yield from _of_group(query)
    yield from _of_answers(query)


def _of_window(window: StreamWindow, query: Query) -> Iterator[str]:
    if window.kind is WindowKind.ALL:
        yield "its window keeps everything"
    if window.step is not None and (window.kind, window.step) != (WindowKind.ELEMENTS, 1):
        yield "its window has a step"
    if window.lag or window.closure is not Closure.LEFT_OPEN:
        yield "its window ends before the evaluation"
    if query.times.every is not None:
        yield "it is evaluated periodically (COMPUTED EVERY)"
    if Report.ON_WINDOW_CLOSE in query.times.report and window.step is None:
        yield "it reports when its window closes, but a window without a step never closes"
    if not window.is_named:
        yield "its window is merged into the default graph"


def _of_group(query: Query) -> Iterator[str]:
    name = query.windows[0].name
    for block in query.group:
        if isinstance(block, WindowBlock) and block.iri == name:
            yield from (f"{_excerpt(element)} {wrong}" for element in block.inner if (wrong := _wrong(element)))
        else:
            yield f"{_excerpt(block)} is not a WINDOW block over its window"
    if not 1 <= (count := sum(len(block.inner) for block in query.group)) <= MOST_PATTERNS:
        yield f"it has {count} triple patterns; 1 to {MOST_PATTERNS} are supported"


def _wrong(element: Element) -> str:
    plain = element.plain if isinstance(element, TriplePattern) else None
    if plain is None:
        return "is not a single triple pattern"
    blank = any(isinstance(term, str) and term.startswith("_:") for term in plain)
    return "has a blank node; use a variable instead" if blank else ""


def _of_answers(query: Query) -> Iterator[str]:
    tree = query.tree
    if tree.tail:
        yield f"{tree.tail[0].text} follows its pattern"
    if not tree.star and ({*tree.columns} != _names(_patterns(query)) or any(tree.columns.values())):
        yield "it does not select all its variables as they are; write SELECT *"


def _patterns(query: Query) -> Iterator[PatternTerms]:
    """Yield the query's plain triple patterns; others are skipped."""
    for element in (element for block in query.group for element in block.inner):
        plain = element.plain if isinstance(element, TriplePattern) else None
        s, p, o = (None if isinstance(term, Path | Quoted) else term for term in plain or (None,) * 3)
        if s is not None and p is not None and o is not None:
            yield s, p, o


def _names(patterns: Iterable[PatternTerms]) -> set[str]:
    return {term for triple in patterns for term in triple if isinstance(term, str)}


def _excerpt(element: Element) -> str:
    text = element.flat
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shape(row: NamedPattern) -> tuple[list[int], list[str]]:
    """Return the sort key of a pattern: its constants, its repeated variables, then the variables' names."""
    names = [each for each in row if isinstance(each, str)]
    return [-1 - names.index(each) if isinstance(each, str) else each for each in row], names


def _numbered(row: NamedPattern, numbers: dict[str, int]) -> tuple[int, ...]:
    """Return the row with variables as numbers; new variables get the next number."""
    return tuple(-1 - numbers.setdefault(v, len(numbers)) if isinstance(v, str) else v for v in row)
