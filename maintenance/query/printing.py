"""The query object back to text: RSP-QL says all of it, a dialect says it or an error names what it cannot say."""

from collections.abc import Iterator

from freshkeeper.maintenance.base.durations import to_iso, to_unit
from freshkeeper.maintenance.query.dialect import (
    CQELS,
    CSPARQL,
    RSPQL,
    SPARQLSTREAM,
    Dialect,
    Feature,
    cannot,
    fitted_report,
)
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.parser import DIALECTS, dialect_of
from freshkeeper.maintenance.query.rspql import write, write_extent
from freshkeeper.maintenance.query.syntax.query_errors import DialectError
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tree import WindowBlock


def to_dialect(query: Query, dialect: str = "rspql") -> str:
    """Text that parses to the same query, names written in full; DialectError where the dialect cannot say it."""
    chosen = dialect_of(dialect)
    _check(query, chosen)
    return query.expression.prologue.text + "\n".join(_lines(query, chosen)) + "\n"


def _lines(query: Query, dialect: Dialect) -> Iterator[str]:
    dataset = query.dataset
    register = _register(query, dialect)
    if register:
        yield register
    yield _head(query, dialect, said=bool(register) and dialect.name == RSPQL)
    yield from (f"FROM <{graph}>" for graph in dataset.default_graphs)
    yield from (f"FROM NAMED <{graph}>" for graph in dataset.named_graphs)
    if dialect.read_block is None:
        yield from (dialect.write(window) or "" for window in dataset.windows)
    if dataset.windows and dialect.says(Feature.REPORT):
        yield f"REPORT {', '.join(query.times.report)}"
    if query.expression.where:
        yield f"WHERE {_where(query, dialect)}"
    if query.expression.tail:
        yield query.expression.tail


def _register(query: Query, dialect: Dialect) -> str:
    if query.output is None:
        return ""
    every = query.times.every
    if dialect.name == CSPARQL:
        kind = "STREAM" if query.form is Form.CONSTRUCT else "QUERY"
        period = "" if every is None else f" COMPUTED EVERY {to_unit(every)}"
    else:
        kind, period = query.operator, "" if every is None else f" COMPUTED EVERY {to_iso(every)}"
    return f"REGISTER {kind} <{query.output}>{period} AS"


def _head(query: Query, dialect: Dialect, *, said: bool) -> str:
    """SELECT ... and the like, with the operator behind the word where nothing else says it."""
    head = query.expression.head
    if said or not query.windows or dialect.name not in (RSPQL, SPARQLSTREAM):
        return head
    return f"{query.form} {query.operator}{head[len(query.form) :]}"


def _where(query: Query, dialect: Dialect) -> str:
    """The pattern; in CQELS-QL a WINDOW block becomes a STREAM block."""
    if dialect.name != CQELS:
        return query.expression.where
    windows = {window.name: window for window in query.windows}
    weaver, edits = Weaver(query.expression.source.tokens.text), []
    for block in (e for top in query.group for e in top.walk() if isinstance(e, WindowBlock)):
        if block.iri is None:
            raise DialectError(cannot(CQELS, Feature.VARIABLE))
        edits.append(Edit(block.start, block.items[2].start, f"{dialect.write(windows[block.iri])} "))
    weaver.copy(len(query.expression.head), query.expression.behind, edits)
    return weaver.done().text


def _check(query: Query, dialect: Dialect) -> None:
    for window in query.windows:
        if dialect.write(window) is None:
            able = " and ".join(other.name for other in DIALECTS.values() if other.write(window))
            extent = f"[{write_extent(window)}]"
            raise DialectError(f"{dialect.name} has no window {extent}; {able} can declare it")
    for feature, needed in _needs(query, dialect).items():
        if needed and not dialect.says(feature):
            raise DialectError(f"{cannot(dialect.name, feature)} (the query {_saying(query, feature)})")


def _needs(query: Query, dialect: Dialect) -> dict[Feature, bool]:
    """What the query says beyond the dialect's defaults."""
    windows = query.windows
    implied = fitted_report(dialect.report, windows, query.times.every)
    return {
        Feature.NAMED: any(w.named for w in windows),
        Feature.MERGED: any(not w.named for w in windows),
        Feature.OPERATOR: query.operator is not dialect.operator and bool(windows),
        Feature.REPORT: bool(windows) and set(query.times.report) != implied,
        Feature.START: any(w.t0 is not None for w in windows),
        Feature.CLOSURE: any(w.closure is not dialect.closure for w in windows if w.kind == "time"),
        Feature.EVERY: query.times.every is not None,
        Feature.OUTPUT: query.output is not None,
    }


def _saying(query: Query, feature: Feature) -> str:
    if feature in (Feature.OPERATOR, Feature.OUTPUT):
        return f"has {query.operator}" if feature is Feature.OPERATOR else f"puts out <{query.output}>"
    if feature is Feature.REPORT:
        return f"reports {', '.join(query.times.report)}"
    if feature is Feature.EVERY:
        return f"is computed every {query.times.every} ms"
    windows = {
        Feature.NAMED: [w for w in query.windows if w.named],
        Feature.MERGED: [w for w in query.windows if not w.named],
        Feature.START: [w for w in query.windows if w.t0 is not None],
    }.get(feature, list(query.windows))
    return f"has {write(windows[0])}"
