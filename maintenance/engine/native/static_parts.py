"""Solves sub-queries over static graphs once and keeps their solutions as relations."""

from collections.abc import Sequence
from functools import cache
from operator import itemgetter

import numpy as np
from pyoxigraph import NamedNode

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.graph_columns import GraphColumns, StaticPattern
from freshkeeper.maintenance.engine.columns.id_rows import stacked
from freshkeeper.maintenance.engine.columns.join_inputs import JoinInput, Relation
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.evaluator import Snapshot, Table
from freshkeeper.maintenance.engine.native.expressions import ExpressionEvaluator, LiteralIds, apply_expressions
from freshkeeper.maintenance.engine.native.joins import DeltaJoin
from freshkeeper.maintenance.engine.native.native_plan import StaticJoin, StaticPart, Terms
from freshkeeper.maintenance.engine.snapshot import checked_graph, static_quads
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph


def relations(query: Query, parts: Sequence[StaticPart], graphs: StaticGraphs) -> list[Relation]:
    """Return the solutions of a query's static parts; parts that are more than joins are left to the SPARQL library."""
    for name in (*query.dataset.default_graphs, *query.dataset.named_graphs):
        checked_graph(name, graphs)
    named = [NamedNode(name) for name in query.dataset.named_graphs]
    library = cache(lambda: Snapshot(static_quads(query, graphs), [*named]))
    prologue, of = query.expression.prologue.text, (query.dataset.default_graphs, query.dataset.named_graphs)

    def solved(part: StaticPart) -> Relation:
        join = part.join
        if join is not None and len(query.dataset.default_graphs) <= 1:
            return graphs.solved((join, prologue, of), lambda: solve_join(query, join, graphs))
        text = part.sparql(prologue)
        return graphs.solved((text, of), lambda: _relation(part, text, library(), graphs.dictionary))

    return [solved(part) for part in parts]


def solve_join(query: Query, join: StaticJoin, graphs: StaticGraphs, more: Sequence[JoinInput] = ()) -> Relation:
    """Return the solutions of a join of triple patterns, each over one graph, and of the inputs in `more`."""
    default = "".join(query.dataset.default_graphs)
    inputs = [_input(terms, name or default, name, query, graphs) for name, terms in join.patterns]
    prologue, dictionary = query.expression.prologue.text, graphs.dictionary
    filters = [ExpressionEvaluator(each, prologue, dictionary, LiteralIds(dictionary)) for each in join.expressions]
    rows = [np.empty((len(join.variables), 0), np.int64)]
    for solutions in DeltaJoin([*more, *inputs]).all():
        kept = apply_expressions(solutions, filters)
        rows.append(stacked([kept.bound[name] for name in join.variables], kept.size))
    return Relation(join.variables, np.concatenate(rows, axis=1))


def _input(terms: Terms, name: str, named: str, query: Query, graphs: StaticGraphs) -> StaticPattern:
    if named:
        there = named in query.dataset.named_graphs
    else:
        there = bool(query.dataset.default_graphs) or "" in graphs
    return StaticPattern(
        graphs.columns(checked_graph(name, graphs)) if there else GraphColumns.of([]), graphs.dictionary.pattern(terms)
    )


def _relation(part: StaticPart, text: str, evaluator: Snapshot, dictionary: Dictionary) -> Relation:
    found = evaluator.find(rewrite_for_pyoxigraph(text), {})
    assert isinstance(found, Table)
    rows = list(found.rows)
    places = [found.variables.index(name) for name in part.variables]
    with dictionary.lock:
        ids = [_ids(list(map(itemgetter(place), rows)), dictionary) for place in places]
        relation = Relation(part.variables, stacked(ids, len(rows)))
        dictionary.keep(relation)
    return relation


def _ids(terms: Sequence[object], dictionary: Dictionary) -> Ints:
    """Return the ids of terms, -1 for unbound."""
    found = np.full(len(terms), -1, np.int64)
    bound = [n for n, term in enumerate(terms) if term is not None]
    found[bound] = dictionary.encode([terms[n] for n in bound])  # type: ignore[misc]
    return found
