"""The way back from a Query object to text, in RSP-QL or in a dialect that can express the query."""

from collections.abc import Iterator, Sequence

from freshkeeper.maintenance.base.durations import to_iso, to_unit
from freshkeeper.maintenance.query.dialect import (
    CQELS,
    CSPARQL,
    RSPQL,
    SPARQLSTREAM,
    Dialect,
    Feature,
    fitted_report,
    unsupported,
)
from freshkeeper.maintenance.query.model import Form, Query, StreamWindow
from freshkeeper.maintenance.query.parser import DIALECTS, dialect_of
from freshkeeper.maintenance.query.rspql import write, write_extent
from freshkeeper.maintenance.query.syntax.query_errors import DialectError
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tree import WindowBlock


def to_dialect(query: Query, dialect: str = "rspql") -> str:
    """Return text that parses to the same query, names written in full.

    DialectError names a feature that the dialect lacks.
    """
    chosen = dialect_of(dialect)
    _check(query, chosen)
    return query.expression.prologue.text + "\n".join(_lines(query, chosen)) + "\n"


def _lines(query: Query, dialect: Dialect) -> Iterator[str]:
    dataset = query.dataset
    register = _register(query, dialect)
    if register:
        yield register
    yield _head(query, dialect, has_operator=bool(register) and dialect.name == RSPQL)
    yield from (f"FROM <{graph}>" for graph in dataset.default_graphs)
    yield from (f"FROM NAMED <{graph}>" for graph in dataset.named_graphs)
    if dialect.read_block is None:
        yield from (dialect.write(window) or "" for window in dataset.windows)
    if dataset.windows and dialect.supports(Feature.REPORT):
        yield f"REPORT {', '.join(query.times.report)}"
    if query.expression.where:
        yield f"WHERE {_where(query, dialect)}"
    if query.expression.tail:
        yield query.expression.tail


def _register(query: Query, dialect: Dialect) -> str:
    if query.output is None:
        return ""
    kind: str = query.operator
    to_duration = to_iso
    if dialect.name == CSPARQL:
        kind = "STREAM" if query.form is Form.CONSTRUCT else "QUERY"
        to_duration = to_unit
    period = ""
    if query.times.every is not None:
        period = f" COMPUTED EVERY {to_duration(query.times.every)}"
    return f"REGISTER {kind} <{query.output}>{period} AS"


def _head(query: Query, dialect: Dialect, *, has_operator: bool) -> str:
    """Return SELECT, CONSTRUCT, ... with the operator behind the word, unless REGISTER gives it."""
    head = query.expression.head
    if has_operator or not query.windows or dialect.name not in (RSPQL, SPARQLSTREAM):
        return head
    return f"{query.form} {query.operator}{head[len(query.form) :]}"


def _where(query: Query, dialect: Dialect) -> str:
    """Return the pattern; in CQELS-QL a WINDOW block becomes a STREAM block."""
    if dialect.name != CQELS:
        return query.expression.where
    windows = {window.name: window for window in query.windows}
    weaver = Weaver(query.expression.source.tokens.text)
    edits = []
    for block in (e for top in query.group for e in top.walk() if isinstance(e, WindowBlock)):
        if block.iri is None:
            raise DialectError(unsupported(CQELS, Feature.WINDOW_VARIABLE))
        edits.append(Edit(block.start, block.items[2].start, f"{dialect.write(windows[block.iri])} "))
    weaver.copy(len(query.expression.head), query.expression.behind, edits)
    return weaver.finish().text


def _check(query: Query, dialect: Dialect) -> None:
    for window in query.windows:
        if dialect.write(window) is None:
            able = " and ".join(other.name for other in DIALECTS.values() if other.write(window))
            extent = f"[{write_extent(window)}]"
            raise DialectError(f"{dialect.name} has no window {extent}; {able} can declare it")
    for feature, is_used in _features(query, dialect).items():
        if is_used and not dialect.supports(feature):
            raise DialectError(f"{unsupported(dialect.name, feature)} (the query {_describe(query, feature)})")


def _features(query: Query, dialect: Dialect) -> dict[Feature, bool]:
    """Return which features the query uses beyond the dialect's defaults."""
    windows = query.windows
    implied = fitted_report(dialect.report, windows, query.times.every)
    return {
        Feature.NAMED_WINDOW: bool(query.dataset.named_windows),
        Feature.MERGED_WINDOW: bool(query.dataset.merged_windows),
        Feature.OPERATOR: query.operator is not dialect.operator and bool(windows),
        Feature.REPORT: bool(windows) and set(query.times.report) != implied,
        Feature.START: bool(_started(query)),
        Feature.CLOSURE: any(w.closure is not dialect.closure for w in windows if w.kind == "time"),
        Feature.EVERY: query.times.every is not None,
        Feature.OUTPUT: query.output is not None,
    }


def _started(query: Query) -> list[StreamWindow]:
    return [window for window in query.windows if window.t0 is not None]


def _describe(query: Query, feature: Feature) -> str:
    if feature is Feature.OPERATOR:
        return f"has {query.operator}"
    if feature is Feature.OUTPUT:
        return f"puts out <{query.output}>"
    if feature is Feature.REPORT:
        return f"reports {', '.join(query.times.report)}"
    if feature is Feature.EVERY:
        return f"is computed every {query.times.every} ms"
    windows: Sequence[StreamWindow] = query.windows
    if feature is Feature.NAMED_WINDOW:
        windows = query.dataset.named_windows
    elif feature is Feature.MERGED_WINDOW:
        windows = query.dataset.merged_windows
    elif feature is Feature.START:
        windows = _started(query)
    return f"has {write(windows[0])}"
