"""The bound of case 2: the linear relaxation of "an SN is fresh when all its inputs are"."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Floats, Ints, spread
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.policies.base import Graph
from freshkeeper.policies.bound.edges import Bound, edge_bound, in_requests
from freshkeeper.policies.bound.flow import Network, budget_network
from freshkeeper.policies.bound.future import Allowance, Future, Matrix
from freshkeeper.policies.bound.periods import Periods, Steps, changes_of, windows_of
from freshkeeper.policies.bound.program import Program

RELAXED_BELOW = 150_000
"""The most inputs of answers that one program may have: about five seconds; at 250,000 it is a minute."""


def aggregate_bound(future: Future, exact_below: int = RELAXED_BELOW) -> Bound:
    """max Σ weight · c · z with z[i, k] ≤ y[j, k] for every input j of SN i whose copy may be stale.

    y[j, k], the part of SR j that is fresh at k, grows by what refreshes pay for and begins anew at each change. The
    optimum is above what schedules reach, as a copy may be fresh in part; no schedule is given.

    Where more than `exact_below` inputs of answers are in question, evaluations are pooled as in case 1, by doubling:
    answers of an SN in one pool between two changes of its inputs are then one. Where that is not enough, the bound is
    that of `shared`, which is weaker.
    """
    profile, graph = _profile_and_graph(future)
    pairs = _pairs(future, profile, graph)
    periods, width = Periods.of(future), 1
    size = _inputs(pairs, graph, width)
    while size > exact_below and width < future.evaluations:
        width *= 2
        size = _inputs(pairs, graph, width)
    if size > exact_below:
        return Bound(edge_bound(shared(future), exact_below).value)
    needs, certain = _needs(pairs, graph, periods, width)
    allowance = future.allowance.pooled(width)
    return Bound(certain + (_relaxed(future, periods, needs, allowance, width) if needs.value.size else 0.0))


def shared(future: Future) -> Future:
    """Case 2 loosened to case 1: an answer counts as fresh by the share of its inputs that are.

    It is valid as z ≤ Σ_j y_j / degree follows from z ≤ y_j for every input j.
    """
    profile, graph = _profile_and_graph(future)
    share = sparse.diags_array(1 / np.maximum(np.diff(graph.sn_start), 1)) @ graph.matrix
    return replace(future, answers=sparse.csr_array(profile @ share), profile=None, graph=None)


@dataclass(frozen=True, eq=False)
class _Needs:
    """Groups of answers of one SN that need the same copies, each worth `value`: the things that can be fresh.

    The group `group[n]` needs what period `period[n]` of an SR has in block `block[n]` of `width` evaluations.
    """

    value: Floats
    group: Ints
    period: Ints
    block: Ints


@dataclass(frozen=True, eq=False)
class _Pairs:
    """SNs with counting answers at an evaluation; `version` counts the changes of an SN's inputs so far."""

    sn: Ints
    at: Ints
    value: Floats
    version: Ints


def _profile_and_graph(future: Future) -> tuple[Matrix, Graph]:
    if future.profile is None or future.graph is None:
        lacking = "profile" if future.profile is None else "graph"
        raise InputError(f"the bound of case 2 needs the {lacking} of the future, which is None; see Future.of")
    return future.profile, future.graph


def _pairs(future: Future, profile: Matrix, graph: Graph) -> _Pairs:
    table = profile.tocoo()
    at, sn = (axis.astype(np.int64) for axis in table.coords)
    # An SN without inputs has no answers.
    value = table.data * future.weight[at] * (np.diff(graph.sn_start)[sn] > 0)
    order = np.flatnonzero(value > 0)
    order = order[np.lexsort((at[order], sn[order]))]
    at, sn, value = at[order], sn[order], value[order]
    source, changed = _expanded(
        graph.sr_start, graph.sr_neighbours.astype(np.int64), future.changed_sr.astype(np.int64)
    )
    events = np.sort(changed * future.evaluations + future.changed_at[source])
    return _Pairs(sn, at, value, np.searchsorted(events, sn * future.evaluations + at, side="right"))


def _expanded(start: Ints, neighbours: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """Every neighbour of every node in turn, and which place in `nodes` it is for."""
    degree = np.diff(start)[nodes]
    place = np.repeat(np.arange(nodes.size), degree)
    return place, neighbours[spread(start[nodes], degree)]


def _leaders(pairs: _Pairs, width: int) -> Ints:
    """Return the first pair of each run with one SN, one block and one state of the inputs."""
    block = pairs.at // width
    another = changes_of(pairs.sn) | changes_of(block) | changes_of(pairs.version)
    return np.flatnonzero(another)


def _inputs(pairs: _Pairs, graph: Graph, width: int) -> int:
    return int(np.diff(graph.sn_start)[pairs.sn[_leaders(pairs, width)]].sum())


def _needs(pairs: _Pairs, graph: Graph, periods: Periods, width: int) -> tuple[_Needs, float]:
    """Return the answers that depend on refreshes, and the worth of those that are fresh without any."""
    leader = _leaders(pairs, width)
    if not leader.size:
        nothing = np.empty(0, dtype=np.int64)
        return _Needs(np.empty(0), nothing, nothing, nothing), 0.0
    value = np.add.reduceat(pairs.value, leader)
    group, sr = _expanded(graph.sn_start, graph.sn_neighbours.astype(np.int64), pairs.sn[leader])
    period = periods.holding(sr * periods.evaluations + pairs.at[leader][group])
    perishable = ~periods.fresh[period]
    waiting, group = np.unique(group[perishable], return_inverse=True)
    certain = float(value.sum() - value[waiting].sum())
    return _Needs(value[waiting], group, period[perishable], (pairs.at[leader] // width)[waiting][group]), certain


def _relaxed(future: Future, periods: Periods, needs: _Needs, allowance: Allowance, width: int) -> float:
    blocks = allowance.pay.size
    held, copy = np.unique(needs.period * blocks + needs.block, return_inverse=True)
    windows, allowance = in_requests(windows_of(periods, held // blocks, held % blocks, future.cost, width), allowance)
    program = Program()
    network = budget_network(
        program, allowance, first=windows.first, last=windows.last, cost=windows.cost, value=np.zeros(windows.size)
    )
    y = _copies(program, windows, network)
    z = program.variables(np.ones(needs.value.size), needs.value)
    rows = program.rows(np.zeros(copy.size))
    program.put(rows, z[needs.group], 1.0)
    program.put(rows, y[copy], -1.0)
    return program.solve().bound


def _copies(program: Program, windows: Steps, network: Network) -> Ints:
    """y of each period and block: at most y of the block before and what is bought for it."""
    y = program.variables(np.ones(windows.size))
    rows = program.rows(np.zeros(windows.size))
    program.put(rows, y, 1.0)
    later = np.flatnonzero(~windows.opening)
    program.put(rows[later], y[later - 1], -1.0)
    program.put(rows[network.step], network.buy, -1.0)
    return y
