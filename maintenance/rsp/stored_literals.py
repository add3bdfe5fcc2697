"""Literals as the store has them: it knows many of them by their values, so that "01" and "1" are one integer to it.

Windows, too, must see one triple where the store sees one. So elements are written as the store writes them when they
come in.
"""

from collections.abc import Sequence
from functools import lru_cache

from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store, Triple

from freshkeeper.maintenance.rsp.evaluator import Term
from freshkeeper.maintenance.streams.batch import Batch

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
PLAIN = {
    NamedNode("http://www.w3.org/2001/XMLSchema#string"),
    NamedNode(f"{RDF}langString"),
    NamedNode(f"{RDF}dirLangString"),
}
"""Datatypes whose literals are written in one way only."""
FEW = 5
"""So many literals are quicker one by one."""


def as_stored(batch: Batch) -> Batch:
    """The same elements as the store has them; mostly they are written so already."""
    quads = stored_quads(batch.quads)
    return batch if quads is batch.quads else Batch(batch.times, quads, batch.graph)


def stored_quads(quads: Sequence[Quad]) -> Sequence[Quad]:
    """The same quads as the store has them."""
    objects = {quad.object for quad in quads}
    literals = [term for term in objects if isinstance(term, Literal) and term.datatype not in PLAIN]
    triples = [term for term in objects if isinstance(term, Triple)]
    terms = [*literals, *triples]
    found = [*_read(literals), *map(stored_term, triples)]
    if found == terms:
        return quads
    stored = dict(zip(terms, found, strict=True))
    return [Quad(q.subject, q.predicate, stored.get(q.object, q.object), q.graph_name) for q in quads]


@lru_cache(maxsize=10_000)
def stored_term(term: Term) -> Term:
    """One object of a triple as the store has it."""
    store, node = Store(), NamedNode("freshkeeper:any")
    store.add(Quad(node, node, term))
    stored: Term = next(iter(store)).object
    return stored


def _read(literals: Sequence[Literal]) -> list[Term]:
    """Many are read by a query: it makes the same of them, faster."""
    if len(literals) <= FEW:
        return [stored_term(literal) for literal in literals]
    found = Store().query(f"SELECT ?term {{ VALUES ?term {{ {' '.join(map(str, literals))} }} }}")
    assert isinstance(found, QuerySolutions)
    return [row[0] for row in found]
