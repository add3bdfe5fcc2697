"""Normalises literals as pyoxigraph's store does: it keeps many by value, so "01" and "1" are one integer.

A window must treat two spellings as one triple wherever the store does, so they have one id.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store, Triple

from freshkeeper.maintenance.engine.evaluator import Term

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SINGLE_SPELLING = {
    NamedNode("http://www.w3.org/2001/XMLSchema#string"),
    NamedNode(f"{RDF}langString"),
    NamedNode(f"{RDF}dirLangString"),
}
"""Datatypes with a single spelling per value."""
ONE_BY_ONE_UP_TO = 5
"""Literals up to which a store of one term each is faster than a query over all."""


def stored_quads(quads: Sequence[Quad]) -> Sequence[Quad]:
    """Return the quads with normalised objects; the same sequence if none changes."""
    stored = _rewritten({quad.object for quad in quads})
    if not stored:
        return quads
    return [Quad(q.subject, q.predicate, stored.get(q.object, q.object), q.graph_name) for q in quads]


def stored_terms(terms: Sequence[Term]) -> Sequence[Term]:
    """Return the terms normalised; the same sequence if none changes."""
    stored = _rewritten(terms)
    return [stored.get(term, term) for term in terms] if stored else terms


def _rewritten(terms: Iterable[Term]) -> dict[Term, Term]:
    """Return the terms that the store writes differently, with their normal form; empty if none does."""
    literals: list[Term] = []
    triples: list[Term] = []
    for term in terms:
        if isinstance(term, Triple):
            triples.append(term)
        elif isinstance(term, Literal) and term.datatype not in SINGLE_SPELLING:
            literals.append(term)
    written, found = [*literals, *triples], [*_read(literals), *map(stored_term, triples)]
    if found == written:
        return {}
    return dict(zip(written, found, strict=True))


@lru_cache(maxsize=10_000)
def stored_term(term: Term) -> Term:
    """Return the normal form of one object term."""
    store, node = Store(), NamedNode("freshkeeper:any")
    store.add(Quad(node, node, term))
    stored: Term = next(iter(store)).object
    return stored


def _read(literals: Sequence[Term]) -> list[Term]:
    """Return the normal forms of literals; for many, one query with VALUES is faster."""
    if len(literals) <= ONE_BY_ONE_UP_TO:
        return [stored_term(literal) for literal in literals]
    found = Store().query(f"SELECT ?term {{ VALUES ?term {{ {' '.join(map(str, literals))} }} }}")
    assert isinstance(found, QuerySolutions)
    return [row[0] for row in found]
