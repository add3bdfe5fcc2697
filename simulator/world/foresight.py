"""The input of bounds: the trace as arrays over evaluations, with windows and changes computed in advance."""

import numpy as np
from scipy import sparse

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.policies.base import Case, Graph
from freshkeeper.policies.bound.future import Future, headline_weight
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.world.truth import Schedule


def future_of(
    trace: Trace, graph: Graph, schedule: Schedule, window: WindowSpec, evaluations: int, warm_up: int,
    rule: BudgetRule, case: Case, warm: bool,
) -> Future:  # fmt: skip
    """Return the future of a run of `evaluations` evaluations."""
    profile = profiles(trace, window, evaluations)
    degree = np.diff(graph.sn_start)
    per_mapping = degree.astype(np.float64) if case is Case.BGP else (degree > 0).astype(np.float64)
    t_ms, sr = schedule.changes(window.start, window.instant(evaluations))
    seen = window.first(t_ms) - 1 if t_ms.size else np.empty(0, np.int64)
    paid = [float(rule.paid(k)) for k in range(evaluations + 1)]
    return Future.of(
        profile,
        graph,
        changed_at=seen,
        changed_sr=sr,
        weight=headline_weight(np.asarray(profile @ per_mapping), warm_up),
        pay=np.diff(paid),
        fresh_at_start=np.full(graph.srs, warm),
        cost=np.ones(graph.srs),
        bank=float(rule.bank),
        initial=float(rule.initial),
    )


def profiles(trace: Trace, window: WindowSpec, evaluations: int) -> "sparse.csr_array[np.float64, tuple[int, int]]":
    """c_i(0) of every evaluation, K × SN."""
    content, rows = Window(window, ring=64), []
    instants = (window.instant(k) for k in range(1, evaluations + 1))
    for k, (_, batch) in enumerate(trace.batches(instants), 1):
        content.insert(batch.t_ms, batch.sn.astype(np.int64))
        content.advance(k)
        rows.append(sparse.csr_array(content.profile(trace.sns, 1).T))
    return sparse.csr_array(sparse.vstack(rows, format="csr"))
