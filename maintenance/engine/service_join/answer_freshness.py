"""Computes the freshness of each answer from the hidden columns that lineage.py adds, and removes them.

The freshness is a lower bound. An answer without the SERVICE part (OPTIONAL) is as fresh as the absence of that
solution is certain for its lookup key; a group is as fresh as all lookup keys that may contribute to it, and a key that
the view lacks counts 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from freshkeeper.maintenance.engine.evaluator import Table, TermRow
from freshkeeper.maintenance.engine.r2s import Answer, AnswerBag, Freshness, combine_freshness, freshness_key
from freshkeeper.maintenance.engine.service_join.lineage import Lineage
from freshkeeper.maintenance.engine.service_join.service_rows import (
    COPIES_COLUMN,
    COPY_COLUMN,
    HIDDEN_PREFIX,
    KEY_COLUMN,
    NO_COPY,
    ServiceRows,
    unskolem,
)


def with_freshness(
    table: Table, lineage: Lineage, services: Sequence[ServiceRows]
) -> tuple[tuple[str, ...], AnswerBag]:
    """Return the visible variables, and the answers without hidden columns, each with its freshness."""
    shown = [n for n, name in enumerate(table.variables) if not name.startswith(HIDDEN_PREFIX)]
    columns = {name: n for n, name in enumerate(table.variables)}
    least = combine_freshness(service.least for service in services)
    parts = [_part(number, lineage, service, columns) for number, service in enumerate(services)]
    answers: list[tuple[Answer, Freshness]] = []
    for row in table.rows:
        if lineage.blind:
            fresh = least
        else:
            fresh = combine_freshness(f for part in parts for f in part.of(row))
        fresh = Freshness(0.0, fresh.age) if lineage.doubtful else fresh
        answers.append((tuple(unskolem(row[n]) for n in shown), fresh))
    names = tuple(table.variables[n] for n in shown)
    return names, AnswerBag.of(_once(answers) if lineage.distinct else answers)


@dataclass(frozen=True, eq=False)
class _OfSolution:
    """The contribution of one SERVICE pattern to the freshness of a solution."""

    rows: ServiceRows
    copy: int | None
    """the position of the hidden column with the number of the cached entry"""
    sn: tuple[int | None, ...]
    """the positions of the columns with the lookup key"""
    optional: bool

    def of(self, row: TermRow) -> Iterator[Freshness]:
        """Yield the freshness of the row's cached entry or, without one, how certain the absence of a solution is."""
        cell = None if self.copy is None else row[self.copy]
        if cell is not None:
            yield self.rows.freshness[int(_text(cell))]
        elif self.optional:
            # Only a lookup key that is bound before the OPTIONAL is the key that the OPTIONAL looked up.
            sn = tuple(None if n is None else row[n] for n in self.sn)
            yield self.rows.complete.get(sn, self.rows.least)


@dataclass(frozen=True, eq=False)
class _OfGroup:
    """The contribution of one SERVICE pattern to the freshness of a group of solutions."""

    rows: ServiceRows
    copies: int | None
    apart: bool
    """GROUP BY separates lookup keys, so entries of one key belong to one group only"""

    def of(self, row: TermRow) -> Iterator[Freshness]:
        """Yield the freshness of the group's cached entries, or of all entries if any of them may belong to it."""
        cell = None if self.copies is None else row[self.copies]
        copies = _text(cell).split() if cell is not None else []
        if not self.apart or not copies or NO_COPY in copies:
            yield self.rows.least
        else:
            yield from (self.rows.freshness[int(copy)] for copy in copies)


def _part(number: int, lineage: Lineage, rows: ServiceRows, columns: Mapping[str, int]) -> _OfSolution | _OfGroup:
    if lineage.grouped is not None:
        apart = bool(rows.sn) and lineage.grouped >= set(rows.sn)
        return _OfGroup(rows, columns.get(f"{COPIES_COLUMN}{number}"), apart)
    known = set(rows.sn) <= lineage.optional.get(number, set())
    if known:
        sn = tuple(columns.get(f"{KEY_COLUMN}{name}", columns.get(name)) for name in rows.sn)
    else:
        sn = ()
    return _OfSolution(rows, columns.get(f"{COPY_COLUMN}{number}"), sn, number in lineage.optional)


def _text(term: object) -> str:
    return str(getattr(term, "value", ""))


def _once(answers: list[tuple[Answer, Freshness]]) -> list[tuple[Answer, Freshness]]:
    best: dict[Answer, Freshness] = {}
    for answer, freshness in answers:
        if answer not in best or freshness_key(best[answer]) < freshness_key(freshness):
            best[answer] = freshness
    return list(best.items())
