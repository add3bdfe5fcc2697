"""What tests read of answers: rows, solutions, and the text of terms that have one."""

from pyoxigraph import (
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    QueryBoolean,
    QuerySolutions,
    QueryTriples,
    Triple,
)

from freshkeeper.maintenance.engine.r2s import Result

Term = NamedNode | BlankNode | Literal | Triple


def text_of(term: object) -> str:
    """What an IRI, a literal or a blank node says."""
    assert isinstance(term, NamedNode | BlankNode | Literal), f"{term!r} has no text"
    return term.value


def rows_of(result: Result) -> list[tuple[Term | None, ...]]:
    """The answers of a SELECT."""
    rows = [row for row in result.answers if isinstance(row, tuple)]
    assert len(rows) == len(result.answers), "this is no SELECT"
    return rows


def solutions(found: QuerySolutions | QueryBoolean | QueryTriples) -> QuerySolutions:
    """What a SELECT finds in a store."""
    assert isinstance(found, QuerySolutions), f"{found!r} is of no SELECT"
    return found


def in_default_graph(triple: Triple) -> Quad:
    """The triple, in no named graph."""
    return Quad(triple.subject, triple.predicate, triple.object, DefaultGraph())
