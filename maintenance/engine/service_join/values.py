"""Solutions of a SERVICE pattern as a VALUES block, with a hidden column that says which copy each is made of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyoxigraph import BlankNode, NamedNode, Triple

from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.engine.evaluator import Row, Term
from freshkeeper.maintenance.engine.r2s import Freshness, combine

SKOLEM = "freshkeeper:blank/"
"""Blank nodes cannot stand in VALUES: they travel as names, and are blank again in the answers."""
HIDDEN = "freshkeeper_"
"""How the names of hidden columns begin."""
COPY = f"{HIDDEN}copy_"
"""The hidden column of SERVICE number n."""
COPIES = f"{HIDDEN}copies_"
"""The hidden column of a group: all copies of SERVICE number n that it is made of."""
NO_COPY = "-"
"""Among the copies of a group: a solution without the SERVICE part."""
SN = f"{HIDDEN}sn_"
"""The hidden column of a variable that joins a SERVICE with the window."""


@dataclass(frozen=True, eq=False)
class ServiceRows:
    """What a SERVICE pattern answers at one instant; `copies[n]` is the number of the copy of row n."""

    variables: tuple[str, ...]
    rows: Sequence[Row]
    copies: Sequence[int]
    freshness: Sequence[Freshness]
    """by the number of the copy"""
    sn: tuple[str, ...] = ()
    """the variables that join with the window"""
    complete: Mapping[Row, Freshness] = field(default_factory=dict)
    """per SN, how sure it is that it has these solutions and no others; 0 for one that the view lacks"""

    @property
    def lacking(self) -> bool:
        """Whether solutions of some SN are certainly not among these."""
        return any(freshness.probability == 0.0 for freshness in self.complete.values())

    @cached_property
    def least(self) -> Freshness:
        """How sure an answer is that may depend on every copy, and on what is lacking."""
        known = combine(self.freshness)
        return Freshness(0.0, known.age) if self.lacking else known

    def text(self, number: int) -> str:
        """A group with these solutions."""
        names = " ".join(f"?{name}" for name in (*self.variables, f"{COPY}{number}"))
        return f"{{ VALUES ({names}) {{ {' '.join(self._lines())} }} }}"

    def _lines(self) -> Iterable[str]:
        for row, copy in zip(self.rows, self.copies, strict=True):
            yield f"({' '.join('UNDEF' if term is None else written(term) for term in row)} {copy})"


def written(term: Term) -> str:
    """A term as SPARQL data."""
    return text_of(skolem(term))


def skolem(term: Term) -> Term:
    """A term that may stand for a blank node of a source: another node than one of a stream that has its label."""
    found: Term = _changed(term, _named)
    return found


def _named(term: Term) -> Term:
    return NamedNode(SKOLEM + term.value) if isinstance(term, BlankNode) else term


def nameless(sn: Iterable[Term | None]) -> bool:
    """Whether nobody can be asked for it: a blank node has no name outside its graph."""
    return any(skolem(term) is not term for term in sn if isinstance(term, BlankNode | Triple))


def unskolem(term: Term | None) -> Term | None:
    """A blank node again, if it was one."""
    return None if term is None else _changed(term, _blank)


def _blank(term: Term) -> Term:
    if isinstance(term, NamedNode) and term.value.startswith(SKOLEM):
        return BlankNode(term.value.removeprefix(SKOLEM))
    return term


def _changed(term: Term, change: Callable[[Term], Any]) -> Any:
    """A term, or the terms inside a triple term, made into others."""
    if isinstance(term, Triple):
        return Triple(_changed(term.subject, change), term.predicate, _changed(term.object, change))
    return change(term)
