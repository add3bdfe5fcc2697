"""RDF terms as text."""

from pyoxigraph import Triple


def text_of(term: object) -> str:
    """A term as SPARQL and N-Triples write it; the library prints a triple term without its brackets."""
    return f"<<( {term} )>>" if isinstance(term, Triple) else str(term)
