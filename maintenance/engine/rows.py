"""Solutions of a SERVICE pattern as a VALUES block, with a hidden column that says which copy each is made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyoxigraph import BlankNode, NamedNode

from maintenance.engine.answers import Freshness
from maintenance.engine.evaluator import Row, Term

SKOLEM = "freshkeeper:blank/"
"""Blank nodes cannot stand in VALUES: they travel as names, and are blank again in the answers."""
COPY = "freshkeeper_copy_"
"""The hidden column of SERVICE number n."""
COPIES = "freshkeeper_copies_"
"""The hidden column of a group: all copies of SERVICE number n that it is made of."""


@dataclass(frozen=True, eq=False)
class ServiceRows:
    """What a SERVICE pattern answers at one instant; `copies[n]` is the number of the copy of row n."""

    variables: tuple[str, ...]
    rows: Sequence[Row]
    copies: Sequence[int]
    freshness: Sequence[Freshness]
    """by the number of the copy"""

    @classmethod
    def asked_now(cls, variables: tuple[str, ...], rows: Sequence[Row]) -> "ServiceRows":
        """Rows that were fetched at this very instant."""
        return cls(variables, rows, [0] * len(rows), [Freshness(1.0, 0)])

    def text(self, number: int) -> str:
        """A group with these solutions."""
        names = " ".join(f"?{name}" for name in (*self.variables, f"{COPY}{number}"))
        return f"{{ VALUES ({names}) {{ {' '.join(self._lines())} }} }}"

    def _lines(self) -> Iterable[str]:
        for row, copy in zip(self.rows, self.copies, strict=True):
            yield f"({' '.join('UNDEF' if term is None else written(term) for term in row)} {copy})"


def written(term: Term) -> str:
    """A term as SPARQL data."""
    return f"<{SKOLEM}{term.value}>" if isinstance(term, BlankNode) else str(term)


def unskolem(term: Term | None) -> Term | None:
    """A blank node again, if it was one."""
    if isinstance(term, NamedNode) and term.value.startswith(SKOLEM):
        return BlankNode(term.value.removeprefix(SKOLEM))
    return term
