"""Solutions of a SERVICE pattern as a VALUES block; a hidden column holds the number of each row's cached entry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from pyoxigraph import BlankNode, NamedNode, Triple

from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.engine.evaluator import Term, TermRow
from freshkeeper.maintenance.engine.r2s import Freshness, combine_freshness
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob

SKOLEM = "freshkeeper:blank/"
"""VALUES cannot contain blank nodes: they are passed as IRIs and turned back in the answers."""
HIDDEN_PREFIX = "freshkeeper_"
"""The prefix of the names of hidden columns."""
COPY_COLUMN = f"{HIDDEN_PREFIX}copy_"
"""The prefix of the hidden column of SERVICE number n: which cached entry a solution is made of."""
COPIES_COLUMN = f"{HIDDEN_PREFIX}copies_"
"""The prefix of the hidden column of a group: all cached entries of SERVICE number n that it is made of."""
NO_COPY = "-"
"""Among the entries of a group: a solution without the SERVICE part."""
KEY_COLUMN = f"{HIDDEN_PREFIX}sn_"
"""The prefix of the hidden column of a variable that joins a SERVICE with the window."""


@dataclass(frozen=True, eq=False)
class ServiceRows:
    """The solutions of a SERVICE pattern at one evaluation; `copies[n]` is the number of the entry that made row n."""

    variables: tuple[str, ...]
    rows: Sequence[TermRow]
    copies: Sequence[int]
    freshness: Sequence[Freshness]
    """by number of the entry"""
    sn: tuple[str, ...] = ()
    """the variables that join with the window"""
    complete: Mapping[TermRow, Freshness] = field(default_factory=dict)
    """per lookup key, how certain it is that it has exactly these solutions; 0 if the view lacks it"""

    @property
    def lacking(self) -> bool:
        """True if some lookup key certainly lacks solutions here."""
        return any(freshness.probability == 0.0 for freshness in self.complete.values())

    @cached_property
    def least(self) -> Freshness:
        """The freshness of an answer that may depend on every entry, and on those that are missing."""
        known = combine_freshness(self.freshness)
        return Freshness(0.0, known.age) if self.lacking else known

    def text(self, number: int) -> str:
        """Return the solutions as a SPARQL group."""
        names = " ".join(f"?{name}" for name in (*self.variables, f"{COPY_COLUMN}{number}"))
        return f"{{ VALUES ({names}) {{ {' '.join(self._lines())} }} }}"

    def _lines(self) -> Iterable[str]:
        for row, copy in zip(self.rows, self.copies, strict=True):
            yield f"({' '.join('UNDEF' if term is None else sparql_text(term) for term in row)} {copy})"


def sparql_text(term: Term) -> str:
    """Return a term as it is written in a SPARQL query."""
    return text_of(skolem(term))


def skolem(term: Term) -> Term:
    """Return an IRI for a blank node, so that a source's node never equals a stream's node with the same label."""
    found: Term = _map_term(term, _skolem_iri)
    return found


def _skolem_iri(term: Term) -> Term:
    if isinstance(term, BlankNode):
        return NamedNode(SKOLEM + term.value)
    return term


def has_blank_node(sn: Iterable[Term | None]) -> bool:
    """Return True if a lookup key contains a blank node, which no source can be queried for."""
    return any(skolem(term) is not term for term in sn if isinstance(term, BlankNode | Triple))


def unskolem(term: Term | None) -> Term | None:
    """Return the blank node that an IRI stands for, or the term itself."""
    return None if term is None else _map_term(term, _blank_node)


def _blank_node(term: Term) -> Term:
    if isinstance(term, NamedNode) and term.value.startswith(SKOLEM):
        return BlankNode(term.value.removeprefix(SKOLEM))
    return term


def _map_term(term: Term, change: Callable[[Term], Any]) -> Any:
    """Apply a change to a term, or to the terms inside a triple term."""
    if isinstance(term, Triple):
        return Triple(_map_term(term.subject, change), term.predicate, _map_term(term.object, change))
    return change(term)


class Fetch(StrEnum):
    """The occasions on which sources are queried."""

    VIEW = "view"
    ALWAYS = "always"
    ONCE = "once"


class ServiceSolver(Protocol):
    """Answers one SERVICE pattern of one query."""

    errors: int

    def prepare(self, now: int) -> FetchJob:
        """Return the fetch job that must finish before `rows` is called."""
        ...

    def rows(self, now: int) -> ServiceRows:
        """Return the solutions at an evaluation. A source that fails counts in `errors` and never ends the run."""
        ...

    def rebuild(self, now: int, done: int) -> FetchJob | None:
        """Restore the state after an evaluation that an earlier run answered; `done` is the last of these."""
        ...

    def leave(self) -> None:
        """Release what is shared: the query has ended."""
        ...
