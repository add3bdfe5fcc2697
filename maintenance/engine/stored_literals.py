"""Literals as the store has them: it knows many of them by their values, so that "01" and "1" are one integer to it.

Windows, too, must see one triple where the store sees one. So elements are written as the store writes them when they
come in.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store, Triple

from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.streams.batch import Batch, Timed

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
PLAIN = {
    NamedNode("http://www.w3.org/2001/XMLSchema#string"),
    NamedNode(f"{RDF}langString"),
    NamedNode(f"{RDF}dirLangString"),
}
"""Datatypes whose literals are written in one way only."""
FEW = 5
"""So many literals are quicker one by one."""


def as_stored(batch: Timed) -> Timed:
    """The same elements as the store has them; mostly they are written so already, and columns always."""
    if not isinstance(batch, Batch):
        return batch
    quads = stored_quads(batch.quads)
    return batch if quads is batch.quads else Batch(batch.times, quads, batch.graph)


def stored_quads(quads: Sequence[Quad]) -> Sequence[Quad]:
    """The same quads as the store has them."""
    stored = _rewritten({quad.object for quad in quads})
    if not stored:
        return quads
    return [Quad(q.subject, q.predicate, stored.get(q.object, q.object), q.graph_name) for q in quads]


def stored_terms(terms: Sequence[Term]) -> Sequence[Term]:
    """The same terms as the store has them."""
    stored = _rewritten(terms)
    return [stored.get(term, term) for term in terms] if stored else terms


def _rewritten(terms: Iterable[Term]) -> dict[Term, Term]:
    """Terms that are other ones in the store; empty where all are as they should be."""
    literals: list[Term] = []
    triples: list[Term] = []
    for term in terms:
        if isinstance(term, Triple):
            triples.append(term)
        elif isinstance(term, Literal) and term.datatype not in PLAIN:
            literals.append(term)
    written, found = [*literals, *triples], [*_read(literals), *map(stored_term, triples)]
    return {} if found == written else dict(zip(written, found, strict=True))


@lru_cache(maxsize=10_000)
def stored_term(term: Term) -> Term:
    """One object of a triple as the store has it."""
    store, node = Store(), NamedNode("freshkeeper:any")
    store.add(Quad(node, node, term))
    stored: Term = next(iter(store)).object
    return stored


def _read(literals: Sequence[Term]) -> list[Term]:
    """Many are read by a query: it makes the same of them, faster."""
    if len(literals) <= FEW:
        return [stored_term(literal) for literal in literals]
    found = Store().query(f"SELECT ?term {{ VALUES ?term {{ {' '.join(map(str, literals))} }} }}")
    assert isinstance(found, QuerySolutions)
    return [row[0] for row in found]
