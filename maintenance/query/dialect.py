"""What a dialect is: what it can say, what it leaves implicit, how it reads and writes its windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.query.model import Operator, Report, Window, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.tokens import Token


class Feature(StrEnum):
    """Something that not every dialect can say."""

    NAMED = "ask one window alone, apart from the default graph"
    MERGED = "put a window's content into the default graph"
    VARIABLE = "ask the windows by a variable"
    OPERATOR = "choose among RSTREAM, ISTREAM and DSTREAM"
    REPORT = "choose the report policy"
    START = "say when a window starts"
    CLOSURE = "say which end of a window belongs to it"
    EVERY = "say how often the query is computed"
    OUTPUT = "name the output"


RSPQL, CQELS, CSPARQL, SPARQLSTREAM = "RSP-QL", "CQELS-QL", "C-SPARQL", "SPARQLstream"

SAYS: dict[str, frozenset[Feature]] = {
    RSPQL: frozenset(Feature),
    CQELS: frozenset({Feature.NAMED}),
    CSPARQL: frozenset({Feature.MERGED, Feature.EVERY, Feature.OUTPUT}),
    SPARQLSTREAM: frozenset({Feature.MERGED, Feature.OPERATOR}),
}
"""Who can say what: seeds/001 §3 and §4."""


def cannot(name: str, feature: Feature) -> str:
    """The words of an error: what a dialect cannot say, and who can."""
    able = [other for other, features in SAYS.items() if feature in features]
    return f"{name} cannot {feature}; {' and '.join(able)} can"


@dataclass(frozen=True)
class Declared:
    """A window as it is written: None is what is left to the dialect's default; `place` is where errors point."""

    place: Token
    stream: Token
    kind: WindowKind
    range: int | None
    step: int | None
    named: bool
    name: Token | None = None
    t0: int | None = None
    closure: Closure | None = None
    lag: int = 0


@dataclass(frozen=True)
class Dialect:
    """One language: its defaults, and how it reads and writes a window.

    `read` follows FROM [NAMED], and answers None where a graph is meant; `read_block` follows the word STREAM in the
    pattern. `write` declares a window, or answers None where the dialect has no such window.
    """

    name: str
    operator: Operator
    report: tuple[Report, ...]
    closure: Closure
    read: Callable[[Cursor, bool], Declared | None]
    write: Callable[[Window], str | None]
    read_block: Callable[[Cursor], Declared] | None = None

    def says(self, feature: Feature) -> bool:
        """Whether the dialect can say this."""
        return feature in SAYS[self.name]


def fitted_report(report: Sequence[Report], windows: Sequence[Window], every: int | None) -> set[Report]:
    """A dialect's policy for these windows: COMPUTED EVERY replaces what triggers; without a step nothing closes."""
    fitted = set(report) if windows else set()
    if every is not None:
        return fitted - {Report.ON_WINDOW_CLOSE, Report.ON_CONTENT_CHANGE} | {Report.PERIODIC}
    if Report.ON_WINDOW_CLOSE in fitted and all(window.step is None for window in windows):
        return fitted - {Report.ON_WINDOW_CLOSE} | {Report.ON_CONTENT_CHANGE}
    return fitted
