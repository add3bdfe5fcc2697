"""The record that describes a dialect: the features it supports, its defaults, and how it reads and writes windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.query.model import Operator, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor
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
