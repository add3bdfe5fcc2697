"""Functions that queries may call (see function_calls.py): the time of an element, the instant of the evaluation.

A triple that no window holds has no timestamp: the call is an error, as SPARQL errors are, and leaves its BIND unbound.
"""

from collections.abc import Mapping, Sequence

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from freshkeeper.maintenance.engine.evaluator import Function, Term
from freshkeeper.maintenance.engine.stored_literals import stored_term
from freshkeeper.maintenance.engine.window_content import Content
from freshkeeper.maintenance.query.syntax.function_calls import CSPARQL_TIMESTAMP, NOW, TIMESTAMP


def functions(contents: Sequence[Content], now: int) -> Mapping[str, Function]:
    """The functions, by IRI, for these windows at an instant."""

    def timestamp(s: Term, p: Term, o: Term, window: Term | None = None) -> Literal | None:
        asked = [c for c in contents if window is None or c.graph == window]
        found = [at for c in asked if (at := time_of(c, s, p, o)) is not None]
        return Literal(max(found)) if found else None

    return {TIMESTAMP: timestamp, CSPARQL_TIMESTAMP: timestamp, NOW: lambda: Literal(now)}


def time_of(content: Content, s: Term | None, p: Term | None, o: Term | None) -> int | None:
    """When this triple came last, if the window holds it."""
    if not (isinstance(s, NamedNode | BlankNode) and isinstance(p, NamedNode) and o is not None):
        return None
    at = content.held.time_of(Quad(s, p, o, content.graph))
    return content.held.time_of(Quad(s, p, stored_term(o), content.graph)) if at is None else at
