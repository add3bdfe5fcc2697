"""CONSTRUCT on top of SELECT: R2S compares solutions, as RSP-QL defines it, and triples are made afterwards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyoxigraph import BlankNode, Literal, NamedNode, QueryTriples, Store, Triple

from freshkeeper.maintenance.engine.evaluator import Term, TermRow
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import TokenKind

VARIABLE_PREFIX = "freshkeeper:variable/"


@dataclass(frozen=True, eq=False)
class ConstructTemplate:
    """The triples of a CONSTRUCT template; variables are marked IRIs below `VARIABLE_PREFIX`."""

    triples: tuple[Triple, ...]

    @classmethod
    def of(cls, query: Query) -> "ConstructTemplate | None":
        """Read the template of a query; None if it has none (CONSTRUCT WHERE, or another form)."""
        if query.form is not Form.CONSTRUCT or not any(t.is_mark("{") for t in query.tree.head):
            return None
        # pyoxigraph has no API for a template. Evaluate the CONSTRUCT once over VALUES that bind every variable to a
        # marked IRI: the triples that come back are the template.
        names = sorted({t.text[1:] for t in query.tree.head if t.kind is TokenKind.VAR})
        marked = " ".join(f"<{VARIABLE_PREFIX}{name}>" for name in names)
        values = f"VALUES ({' '.join('?' + name for name in names)}) {{ ({marked}) }}"
        text = f"{query.expression.prologue.text}{query.expression.head} WHERE {{ {values if names else ''} }}"
        found = Store().query(text)
        assert isinstance(found, QueryTriples)
        return cls(tuple(found))

    def fill(self, variables: Sequence[str], row: TermRow) -> Iterator[Triple]:
        """Yield the triples of one solution; skip those that would be invalid RDF, as SPARQL does."""
        bound = {f"{VARIABLE_PREFIX}{name}": term for name, term in zip(variables, row, strict=True)}
        # Fresh blank nodes for every solution, shared between the triples of one solution.
        blanks: dict[str, BlankNode] = {}
        for triple in self.triples:
            filled = _triple(*(_filled(term, bound, blanks) for term in triple))
            if filled is not None:
                yield filled


def _triple(s: Term | None, p: Term | None, o: Term | None) -> Triple | None:
    if isinstance(s, NamedNode | BlankNode) and isinstance(p, NamedNode) and o is not None:
        return Triple(s, p, o)
    return None


def _filled(term: Term, bound: dict[str, Term | None], blanks: dict[str, BlankNode]) -> Term | None:
    if isinstance(term, NamedNode) and term.value.startswith(VARIABLE_PREFIX):
        return bound.get(term.value)
    if isinstance(term, BlankNode):
        return blanks.setdefault(term.value, BlankNode())
    if isinstance(term, Triple):
        return _triple(*(_filled(part, bound, blanks) for part in term))
    assert isinstance(term, NamedNode | Literal)
    return term


def solutions_text(query: Query) -> str | None:
    """Return the query as SELECT * over the same pattern, or None if that is not valid SPARQL (grouped CONSTRUCT)."""
    text = query.rewrite(Edit(0, len(query.expression.head), "SELECT *")).text
    try:
        Store().query(rewrite_for_pyoxigraph(text))
    except SyntaxError:
        return None
    return text
