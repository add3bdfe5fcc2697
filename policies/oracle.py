"""`oracle`: the exact integer program of one evaluation, 002 formulas (1)-(5) and (6)-(10); PuLP with HiGHS."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pulp

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import PolicyError
from freshkeeper.policies.base import BasePolicy, Budget, Case, Knowledge, Round, Selection
from freshkeeper.policies.completion import value_if_complete, weighted_product
from freshkeeper.policies.ibm import impact


@dataclass(frozen=True)
class Oracle(BasePolicy):
    """Case 1: max Σ_j value_j·u_j. Case 2: max Σ_i value_i·f_i with f_i ≤ u_j for every missing input j of SN i.

    Both under Σ_j cost_j·u_j ≤ budget. The value is c_i(0) as in the paper, or with `ahead` that of the whole window
    (ibm's). Typos of 002 resolved: (2) sums u_j; (3) and (8) multiply u_j; (6) is integral; an input that is already
    fresh counts as 1.
    """

    name: ClassVar[str] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.EXACT, Knowledge.PUBLISHED})
    ahead: bool = False
    """value the whole window, not this evaluation alone"""

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Solve and read off u; `rng` is not needed, as HiGHS is deterministic."""
        del rng
        pool = np.flatnonzero(round.missing & round.candidates)
        model = pulp.LpProblem("refresh", pulp.LpMaximize)
        u = {int(j): model.add_variable(f"u{j}", cat="Binary") for j in pool}
        objective = self._edges(round, u) if round.case is Case.BGP else self._aggregates(round, u, model)
        model += pulp.lpSum(objective)
        model += pulp.lpSum(float(round.cost[j]) * u[j] for j in u) <= budget.available
        solve(model)
        chosen = np.array([j for j in u if (u[j].value() or 0) > 0.5], dtype=np.int32)
        scores = round.demand[:, 0]
        return Selection(chosen, scores[chosen], "optimum of this evaluation")

    def _edges(self, round: Round, u: dict[int, pulp.LpVariable]) -> list[pulp.LpAffineExpression]:
        value = impact(round) if self.ahead else round.demand[:, 0] * round.staleness
        return [float(value[j]) * u[j] for j in u]

    def _aggregates(
        self, round: Round, u: dict[int, pulp.LpVariable], model: pulp.LpProblem
    ) -> list[pulp.LpAffineExpression]:
        value: Floats = value_if_complete(round, round.profile) if self.ahead else round.profile[:, 0]
        value = value * _gained(round)
        terms = []
        for i in np.flatnonzero(value > 0):
            inputs = round.graph.inputs(int(i))
            inputs = inputs[round.missing[inputs]]
            if not inputs.size:
                continue
            f = model.add_variable(f"f{i}", lowBound=0, upBound=1)
            for j in inputs.tolist():
                model += f <= u[j]
            terms.append(float(value[i]) * f)
        return terms


def _gained(round: Round) -> Floats:
    """Return the gain in the chance that an SN is fresh from refreshing all inputs that are more likely stale."""
    kept = round.fresh_if_kept[:, :1]
    once = np.ones((round.graph.sns, 1))
    completed = weighted_product(round.graph, np.where(round.missing[:, None], 1.0, kept), once)
    return completed - weighted_product(round.graph, kept, once)


def solve(model: pulp.LpProblem) -> None:
    """Run HiGHS quietly; anything but a proven optimum is an error."""
    status = model.solve(pulp.HiGHS(msg=False))
    if pulp.LpStatus[status] != "Optimal":
        raise PolicyError(f"HiGHS found no optimum of the refresh problem: {pulp.LpStatus[status]}")
