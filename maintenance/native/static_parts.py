"""Sub-queries over static graphs: solved once, their solutions kept as relations."""

from collections.abc import Sequence

import numpy as np
from pyoxigraph import Quad

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.join_inputs import Relation
from freshkeeper.maintenance.native.plan import StaticPart
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.rsp.evaluator import Snapshot, Table
from freshkeeper.policies.arrays import Ints


def relations(
    query: Query, parts: Sequence[StaticPart], static: Sequence[Quad], dictionary: Dictionary
) -> list[Relation]:
    """The solutions of the static parts of a query."""
    if not parts:
        return []
    evaluator, prologue = Snapshot(static), query.expression.prologue.text
    return [_relation(part, prologue, evaluator, dictionary) for part in parts]


def _relation(part: StaticPart, prologue: str, evaluator: Snapshot, dictionary: Dictionary) -> Relation:
    found = evaluator.find(sound(part.sparql(prologue)), {})
    assert isinstance(found, Table)
    rows = list(found.rows)
    columns = [[row[found.variables.index(name)] for row in rows] for name in part.variables]
    ids = [_ids(column, dictionary) for column in columns]
    return Relation(part.variables, np.stack(ids) if ids else np.empty((0, len(rows)), np.int64))


def _ids(terms: Sequence[object], dictionary: Dictionary) -> Ints:
    """Ids, -1 where a solution binds nothing."""
    found = np.full(len(terms), -1, np.int64)
    bound = [n for n, term in enumerate(terms) if term is not None]
    found[bound] = dictionary.encode([terms[n] for n in bound])  # type: ignore[misc]
    return found
