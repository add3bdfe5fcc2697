"""RDF terms as text, and as JSON."""

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"


def text_of(term: object) -> str:
    """Write a term as SPARQL and N-Triples do; the library prints a triple term without its brackets."""
    if isinstance(term, Triple):
        return f"<<( {term} )>>"
    return str(term)


def term_json(term: NamedNode | BlankNode | Literal | Triple) -> dict[str, object]:
    """Write a term as the SPARQL 1.1 Query Results JSON Format does."""
    if isinstance(term, NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, Triple):
        parts = zip(("subject", "predicate", "object"), term, strict=True)
        return {"type": "triple", "value": {name: term_json(part) for name, part in parts}}
    if term.language is not None:
        return {"type": "literal", "value": term.value, "xml:lang": term.language}
    if term.datatype.value == XSD_STRING:
        return {"type": "literal", "value": term.value}
    return {"type": "literal", "value": term.value, "datatype": term.datatype.value}
