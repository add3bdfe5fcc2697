"""The record that describes a dialect: the features it supports, its defaults, and how it reads and writes windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.query.model import Operator, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, describe_token
from freshkeeper.maintenance.query.syntax.tokens import Token


class Feature(StrEnum):
    """A feature that only some dialects have; the value completes the sentence "C-SPARQL cannot ..."."""

    NAMED_WINDOW = "query a window apart from the default graph"
    MERGED_WINDOW = "put a window's content into the default graph"
    WINDOW_VARIABLE = "query windows by a variable"
    OPERATOR = "choose among RSTREAM, ISTREAM and DSTREAM"
    REPORT = "choose the report policy"
    START = "set when a window starts"
    CLOSURE = "set which end of a window belongs to it"
    EVERY = "set how often the query is computed"
    OUTPUT = "name the output"


RSPQL, CQELS, CSPARQL, SPARQLSTREAM = "RSP-QL", "CQELS-QL", "C-SPARQL", "SPARQLstream"

FEATURES: dict[str, frozenset[Feature]] = {
    RSPQL: frozenset(Feature),
    CQELS: frozenset({Feature.NAMED_WINDOW}),
    CSPARQL: frozenset({Feature.MERGED_WINDOW, Feature.EVERY, Feature.OUTPUT}),
    SPARQLSTREAM: frozenset({Feature.MERGED_WINDOW, Feature.OPERATOR}),
}
"""Features of every dialect: seeds/001 §3 and §4."""


def unsupported(name: str, feature: Feature) -> str:
    """Return the problem of an error: the feature that a dialect lacks, and the dialects that have it."""
    able = [other for other, features in FEATURES.items() if feature in features]
    return f"{name} cannot {feature}; {' and '.join(able)} can"


@dataclass(frozen=True)
class Declared:
    """A window as written in a query.

    None stands for a default of the dialect; errors point to `place`.
    """

    place: Token
    stream: Token
    kind: WindowKind
    range: int | None
    step: int | None
    is_named: bool
    name: Token | None = None
    t0: int | None = None
    closure: Closure | None = None
    lag: int = 0


@dataclass(frozen=True)
class Dialect:
    """A language of queries, with its defaults and its functions for windows.

    `read` reads behind FROM [NAMED], and returns None if a graph follows; `read_block` reads behind the word STREAM in
    the pattern. `write` declares a window, or returns None if the dialect has no such window.
    """

    name: str
    operator: Operator
    report: tuple[Report, ...]
    closure: Closure
    read: Callable[[Cursor, bool], Declared | None]
    write: Callable[[StreamWindow], str | None]
    read_block: Callable[[Cursor], Declared] | None = None

    def supports(self, feature: Feature) -> bool:
        """Return whether the dialect has a feature."""
        return feature in FEATURES[self.name]


def fitted_report(report: Sequence[Report], windows: Sequence[StreamWindow], every: int | None) -> set[Report]:
    """Return a dialect's report policy for some windows.

    COMPUTED EVERY replaces what triggers an evaluation. Windows without a step never close: changes trigger instead.
    """
    fitted = set[Report]()
    if windows:
        fitted = set(report)
    if every is not None:
        return fitted - {Report.ON_WINDOW_CLOSE, Report.ON_CONTENT_CHANGE} | {Report.PERIODIC}
    # a window without a step never closes: the dialect's default would report nothing
    if Report.ON_WINDOW_CLOSE in fitted and all(window.step is None for window in windows):
        return fitted - {Report.ON_WINDOW_CLOSE} | {Report.ON_CONTENT_CHANGE}
    return fitted


EXAMPLES = "write RANGE PT10S STEP PT5S, ELEMENTS 100 STEP 10, NOW or ALL"


class Extent(NamedTuple):
    """The content of a window, and when it moves."""

    kind: WindowKind
    range: int | None = None
    step: int | None = None
    lag: int = 0


def read_extent(cursor: Cursor, remedy: str = EXAMPLES) -> Extent:
    """Read RANGE d [STEP d | TUMBLING], [RANGE] ELEMENTS n [STEP n], NOW or ALL; SLIDE is STEP, TRIPLES is ELEMENTS."""
    ranging = cursor.accept("RANGE")
    if word := cursor.accept("ELEMENTS", "TRIPLES"):
        count = cursor.count(word.text.upper())
        return Extent(WindowKind.ELEMENTS, count, _step(cursor, count, cursor.count))
    if ranging:
        span = cursor.duration("RANGE")
        return Extent(WindowKind.TIME, span, _step(cursor, span, cursor.duration))
    if cursor.accept("NOW"):
        return Extent(WindowKind.NOW, 1)
    if cursor.accept("ALL"):
        return Extent(WindowKind.ALL)
    return cursor.fail(f"{describe_token(cursor.now)} where the extent of a window is missing", remedy)


def read_span(cursor: Cursor, remedy: str) -> Extent:
    """Read [FROM] NOW - d [TO NOW [- d]] [STEP d].

    A window that ends before NOW has a lag; NOW alone is the instant of the evaluation.
    """
    cursor.accept("FROM")
    first = cursor.now
    begin = _ago(cursor, remedy)
    lag = 0
    if cursor.accept("TO"):
        lag = _ago(cursor, remedy)
    if begin == lag == 0:
        return Extent(WindowKind.NOW, 1)
    if begin <= lag:
        cursor.fail("this window begins when it has ended", "write the earlier instant first", first)
    return Extent(WindowKind.TIME, begin - lag, _step(cursor, begin - lag, cursor.duration), lag)


def _ago(cursor: Cursor, remedy: str) -> int:
    """Return how long before now an instant is: 0 for NOW, 600000 for NOW - 10 MINUTES."""
    if not cursor.accept("NOW"):
        cursor.fail(f"{describe_token(cursor.now)} where NOW is missing", remedy)
    if cursor.accept_minus():
        return cursor.duration("NOW -", least=0)
    return 0


def _step(cursor: Cursor, span: int, read: Callable[[str], int]) -> int | None:
    if cursor.accept("TUMBLING"):
        return span
    if word := cursor.accept("STEP", "SLIDE"):
        return read(word.text.upper())
    return None
