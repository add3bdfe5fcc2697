"""Functions that queries may call (see function_calls.py): the time of an element, the time of the evaluation.

A triple that no window holds has no timestamp: the call is a SPARQL error and leaves its BIND unbound.
"""

from collections.abc import Mapping, Sequence

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from freshkeeper.maintenance.engine.evaluator import Function, Term
from freshkeeper.maintenance.engine.stored_literals import stored_term
from freshkeeper.maintenance.engine.window_content import WindowState
from freshkeeper.maintenance.query.function_calls import CSPARQL_TIMESTAMP, NOW, TIMESTAMP


def query_functions(contents: Sequence[WindowState], now: int) -> Mapping[str, Function]:
    """Return the functions by IRI, for these windows at the evaluation time `now`."""

    def timestamp(s: Term, p: Term, o: Term, window: Term | None = None) -> Literal | None:
        searched = [c for c in contents if window is None or c.graph == window]
        found = [at for c in searched if (at := latest_time(c, s, p, o)) is not None]
        return Literal(max(found)) if found else None

    return {TIMESTAMP: timestamp, CSPARQL_TIMESTAMP: timestamp, NOW: lambda: Literal(now)}


def latest_time(content: WindowState, s: Term | None, p: Term | None, o: Term | None) -> int | None:
    """Return the latest arrival time of a triple, or None if the window does not hold it."""
    if not (isinstance(s, NamedNode | BlankNode) and isinstance(p, NamedNode) and o is not None):
        return None
    at = content.store.time_of(Quad(s, p, o, content.graph))
    if at is not None:
        return at
    # The query may write a literal in another lexical form than the store ("01" and "1").
    return content.store.time_of(Quad(s, p, stored_term(o), content.graph))
