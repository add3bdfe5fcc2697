"""Scopes of blank nodes: `_:b0` of one document is another node than `_:b0` of the next.

A label gets a prefix made of the name of its document, so that the same input has the same labels after a restart. A
document is a file, the body of a request, or a stream of lines, whose lines share their labels.
"""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256

from pyoxigraph import BlankNode, Quad, Triple


class BlankNodes(StrEnum):
    """The part of the input in which a label means one blank node."""

    DOCUMENT = "document"
    SHARED = "shared"

    def scope(self, document: str) -> str:
        """Return the prefix of the labels of a document, "" if labels stay as they are."""
        if self is BlankNodes.SHARED:
            return ""
        return f"d{sha256(document.encode()).hexdigest()[:10]}."


def in_scope(quads: Sequence[Quad], scope: str) -> Sequence[Quad]:
    """Return quads with the prefix before the labels of their blank nodes; graph names stay."""
    if not scope:
        return quads
    scoped = []
    for quad in quads:
        triple = _renamed(quad.triple, scope)
        scoped.append(Quad(triple.subject, triple.predicate, triple.object, quad.graph_name))
    return scoped


def _renamed(triple: Triple, scope: str) -> Triple:
    subject, value = triple.subject, triple.object
    if isinstance(subject, BlankNode):
        subject = BlankNode(scope + subject.value)
    if isinstance(value, BlankNode):
        value = BlankNode(scope + value.value)
    elif isinstance(value, Triple):
        value = _renamed(value, scope)
    return Triple(subject, triple.predicate, value)
