"""The vocabulary of fragment pages: Hydra controls and VoID counts."""

from pyoxigraph import NamedNode

HYDRA = "http://www.w3.org/ns/hydra/core#"
VOID = "http://rdfs.org/ns/void#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SD = "http://www.w3.org/ns/sparql-service-description#"
XSD = "http://www.w3.org/2001/XMLSchema#"

SEARCH, TEMPLATE = NamedNode(f"{HYDRA}search"), NamedNode(f"{HYDRA}template")
MAPPING, VARIABLE, PROPERTY = (NamedNode(f"{HYDRA}{name}") for name in ("mapping", "variable", "property"))
TOTAL, TRIPLES = NamedNode(f"{HYDRA}totalItems"), NamedNode(f"{VOID}triples")
PER_PAGE = NamedNode(f"{HYDRA}itemsPerPage")
NEXT = (NamedNode(f"{HYDRA}next"), NamedNode(f"{HYDRA}nextPage"))
SUBSET = NamedNode(f"{VOID}subset")
DEFAULT = NamedNode(f"{SD}defaultGraph")
TOPIC = NamedNode("http://xmlns.com/foaf/0.1/primaryTopic")
ROLES = {
    f"{RDF}subject": "subject",
    f"{RDF}predicate": "predicate",
    f"{RDF}object": "object",
    f"{SD}graph": "graph",
    "http://example.org/temporal#instant": "instant",
}
"""The role of a form's variable, by its property."""
