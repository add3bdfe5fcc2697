"""The budget as a network: what is paid in flows through evaluations, the bank and runs of them to what it pays for.

A refresh may pay for a step at any evaluation of the step's window. One variable for each would be millions on a real
trace (every SR at every evaluation), so windows are covered as a sparse table covers ranges: node (r, a) stands for the
2^r evaluations from a on and is fed by the two nodes of its halves, and any window is the union of two such runs. That
is at most two variables per step and 2 K log₂ K arcs.
"""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.policies.bound.future import Allowance
from freshkeeper.policies.bound.program import Program


@dataclass(frozen=True, eq=False)
class Network:
    """The program's rows for budget: variable `buy[n]` pays for `step[n]` out of `node[n]`; `arcs` feed longer runs."""

    buy: Ints
    step: Ints
    arcs: Ints
    arc_from: Ints
    node: Ints

    def spend(self, values: Floats, cost: Floats, evaluations: int) -> Floats:
        """Return the flow that leaves each evaluation: to its own steps, and to runs that it is part of."""
        own = self.node < evaluations
        spend = np.bincount(self.node[own], weights=values[self.buy[own]] * cost[self.step[own]], minlength=evaluations)
        out = self.arc_from < evaluations
        spend = spend + np.bincount(self.arc_from[out], weights=values[self.arcs[out]], minlength=evaluations)
        return spend.astype(np.float64)


def budget_network(
    program: Program, allowance: Allowance, first: Ints, last: Ints, cost: Floats, value: Floats
) -> Network:
    """Add the budget's rows and, for each window `first` .. `last`, the variables (0 to 1) that pay for it.

    Scaled by a common cost, every column has at most one +1 and one −1 in these rows: the matrix of a network.
    """
    count = allowance.pay.size
    rank = rank_of(first, last)
    node, step = _covering(first, last, rank, count)
    pay = np.append(allowance.pay[0] + allowance.initial, allowance.pay[1:])
    nodes = program.rows(np.concatenate([pay, np.zeros(int(rank.max(initial=0)) * count)]))
    _add_bank(program, allowance, nodes[:count])
    arcs, source = _add_runs(program, allowance, nodes.reshape(-1, count))
    buy = program.variables(np.ones(node.size), value[step])
    program.put(nodes[node], buy, cost[step])
    return Network(buy, step, arcs, source, node)


def rank_of(first: Ints, last: Ints) -> Ints:
    """Return the r of the longest run of 2^r evaluations that a window holds."""
    return np.frexp((last - first + 1).astype(np.float64))[1].astype(np.int64) - 1


def _covering(first: Ints, last: Ints, rank: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the nodes that cover each window: the run that starts it and, if that is another, the run that ends it."""
    left, right = rank * count + first, rank * count + last - (1 << rank) + 1
    two = np.flatnonzero(left != right)
    return np.concatenate([left, right[two]]), np.concatenate([np.arange(first.size), two])


def _add_bank(program: Program, allowance: Allowance, evaluation: Ints) -> None:
    if allowance.bank > 0:
        # More than everything ever paid in cannot be carried; a limit keeps the bound of `Program` tight.
        most = min(allowance.bank, allowance.initial + float(allowance.pay.sum()))
        carried = program.variables(np.full(evaluation.size - 1, most))
        program.put(evaluation[:-1], carried, 1.0)
        program.put(evaluation[1:], carried, -1.0)


def _add_runs(program: Program, allowance: Allowance, nodes: Ints) -> tuple[Ints, Ints]:
    most = allowance.initial + float(allowance.pay.sum())
    arcs, source = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rank in range(1, nodes.shape[0]):
        half = 1 << (rank - 1)
        start = np.arange(nodes.shape[1] - 2 * half + 1)
        for part in (start, start + half):
            flow = program.variables(np.full(start.size, most))
            program.put(nodes[rank - 1][part], flow, 1.0)
            program.put(nodes[rank][start], flow, -1.0)
            arcs.append(flow)
            source.append((rank - 1) * nodes.shape[1] + part)
    return np.concatenate(arcs), np.concatenate(source)
