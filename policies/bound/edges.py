"""The bound of case 1: the best schedule of refreshes that the whole trace allows, as a flow, and that schedule itself:
which SR at which evaluation.
"""

import heapq
from dataclasses import dataclass, replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.policies.bound.flow import Network, budget_network
from freshkeeper.policies.bound.future import Allowance, Future
from freshkeeper.policies.bound.periods import Steps, dual_bound, nearest_to_best, net_gain, steps_of
from freshkeeper.policies.bound.program import Program, Solution
from freshkeeper.policies.choose import SLACK

EXACT_BELOW = 400_000
"""The most steps that one program may have: about a minute."""

FIRST_TRY = 20_000
"""Steps that a program gets at first; on traces of 150,000 their optimum proves to be that of all."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """The SRs to refresh at each evaluation, those of one evaluation together and best first, each with its gain."""

    at: Ints
    sr: Ids
    gain: Floats

    @classmethod
    def of(cls, steps: Steps, chosen: Ints, at: Ints) -> "Schedule":
        """Return a schedule of the chosen steps, each paid for at `at`."""
        order = np.lexsort((-steps.gain[chosen], at))
        return cls(at[order], steps.sr[chosen][order].astype(np.int32), steps.gain[chosen][order])

    def due(self, evaluation: int) -> slice:
        """Return where the refreshes of one evaluation stand."""
        start, end = np.searchsorted(self.at, [evaluation, evaluation + 1]).tolist()
        return slice(start, end)


@dataclass(frozen=True, eq=False)
class Bound:
    """No policy within the budget exceeds `value`; `schedule` reaches `reached`; `exact` where the two are the same."""

    value: float
    exact: bool = False
    schedule: Schedule | None = None
    reached: float | None = None

    @property
    def gap(self) -> float | None:
        """The amount by which the bound may be too high."""
        return None if self.reached is None else max(0.0, self.value - self.reached)


def edge_bound(future: Future, exact_below: int = EXACT_BELOW) -> Bound:
    """Case 1: the optimum over all schedules of refreshes, as a flow from what is paid in to staleness periods.

    With equal costs and whole payments the matrix is that of a network: in units of a request each column has at most
    one +1 and one −1 among the rows of evaluations and runs, and at most one +1 among the rows of periods (negate
    those). Such a matrix is totally unimodular, so a vertex, which is what simplex and crossover return, is integral
    and is a schedule. With unequal costs, or a bank with payments in fractions, the value is that of the relaxation.

    A long trace is not solved whole. Pooled first (evaluations in a row share their budget, which only loosens the
    problem and, in the words of the dual, keeps prices constant over the pool), it gives prices; then the steps that
    are near to best at these are solved, and more of them until the prices prove the optimum for all or `exact_below`
    is reached. Either way the value is a bound, as prices are checked on all steps.
    """
    steps, certain = steps_of(future)
    if not steps.size:
        nothing = np.empty(0, dtype=np.int64)
        return Bound(certain, True, Schedule.of(steps, nothing, nothing), certain)
    steps, allowance = in_requests(steps, future.allowance)
    best = _solve_flow(steps, allowance, exact_below)
    schedule = _read_off(best) or filled(steps, allowance, best.prices)
    value, reached = certain + best.bound, certain + float(schedule.gain.sum())
    return Bound(max(value, reached), value - reached <= SLACK * max(1.0, value), schedule, reached)


@dataclass(frozen=True, eq=False)
class _Flow:
    """A program over some steps, its solution, and the bound for all steps that its prices prove."""

    steps: Steps
    solution: Solution
    network: Network
    bound: float

    @property
    def prices(self) -> Floats:
        return self.solution.prices[: self.steps.evaluations]


def _solve_flow(steps: Steps, allowance: Allowance, most: int) -> _Flow:
    """Solve the flow over all steps, or over enough of them, or over as many as are allowed."""
    count = min(max(FIRST_TRY, 2 * steps.periods), most)
    prices = _pooled_prices(steps, allowance, count)
    bound = dual_bound(steps, allowance, prices)
    while True:
        few = nearest_to_best(steps, prices, count)
        solution, network = _flow(few, allowance)
        prices = solution.prices[: steps.evaluations]
        bound = min(bound, dual_bound(steps, allowance, prices))
        if bound - solution.bound <= SLACK * max(1.0, bound) or count >= min(most, steps.size):
            return _Flow(few, solution, network, bound)
        count = min(4 * count, most)


def _pooled_prices(steps: Steps, allowance: Allowance, count: int) -> Floats:
    """Prices to start from; none are needed where the first program holds all steps."""
    if steps.size <= count:
        return np.zeros(steps.evaluations)
    width = 2
    while width < steps.evaluations and steps.pooled(width).size > count:
        width *= 2
    blocks = -(-steps.evaluations // width)
    prices = _flow(steps.pooled(width), allowance.pooled(width))[0].prices[:blocks]
    return np.repeat(prices, width)[: steps.evaluations]


def in_requests(steps: Steps, allowance: Allowance) -> tuple[Steps, Allowance]:
    """Count in requests where all cost the same, so that parts of a request are seen to be useless."""
    price = float(steps.cost[0])
    if price > 0 and (steps.cost == price).all():
        return replace(steps, cost=steps.cost / price), allowance.in_requests(price)
    return steps, allowance


def _flow(steps: Steps, allowance: Allowance) -> tuple[Solution, Network]:
    program = Program()
    network = budget_network(program, allowance, first=steps.first, last=steps.last, cost=steps.cost, value=steps.gain)
    periods = program.rows(np.ones(steps.periods))
    program.put(periods[steps.period[network.step]], network.buy, 1.0)
    return program.solve(), network


def _read_off(flow: _Flow) -> Schedule | None:
    """Return the schedule of an integral vertex, or None where the vertex is not integral."""
    steps, values = flow.steps, flow.solution.values
    share = np.bincount(flow.network.step, weights=values[flow.network.buy], minlength=steps.size)
    spend = flow.network.spend(values, steps.cost, steps.evaluations)
    if not (_integral(share) and _integral(spend) and (steps.cost == 1).all()):
        return None
    return matched(steps, np.flatnonzero(share > 0.5), np.rint(spend).astype(np.int64))


def _integral(values: Floats | Ints) -> bool:
    return bool(np.abs(values - np.rint(values)).max(initial=0.0) < 1e-6)


def matched(steps: Steps, chosen: Ints, room: Ints) -> Schedule | None:
    """Match the chosen steps to evaluations in their windows, at most `room[k]` at evaluation k; None if impossible.

    Earliest deadline first, which finds an assignment whenever there is one (jobs of equal length, whole times).
    """
    waiting: list[tuple[int, int]] = []
    at = np.empty(chosen.size, dtype=np.int64)
    arriving = np.argsort(steps.first[chosen], kind="stable").tolist()
    first, last = steps.first[chosen].tolist(), steps.last[chosen].tolist()
    arrived = 0
    for k, places in enumerate(room.tolist()):
        while arrived < len(arriving) and first[arriving[arrived]] <= k:
            heapq.heappush(waiting, (last[arriving[arrived]], arriving[arrived]))
            arrived += 1
        for _ in range(min(places, len(waiting))):
            at[heapq.heappop(waiting)[1]] = k
        if waiting and waiting[0][0] <= k:
            return None
    return Schedule.of(steps, chosen, at)


def filled(steps: Steps, allowance: Allowance, prices: Floats) -> Schedule:
    """Build a good schedule from prices: periods by what they gain beyond the price, each at the cheapest time with
    room.
    """
    net = net_gain(steps, prices)
    starts = np.append(np.flatnonzero(steps.opening), steps.size)
    spend = np.zeros(steps.evaluations)
    room = allowance.headroom(spend)
    chosen: list[int] = []
    at: list[int] = []
    for period in np.argsort(-np.maximum.reduceat(net, starts[:-1]), kind="stable").tolist():
        start, end = int(starts[period]), int(starts[period + 1])
        for step in (start + np.argsort(-net[start:end], kind="stable")).tolist():
            k = _cheapest_with_room(
                room, prices, int(steps.first[step]), int(steps.last[step]), float(steps.cost[step])
            )
            if k is not None:
                spend[k] += steps.cost[step]
                room = allowance.headroom(spend)
                chosen.append(step)
                at.append(k)
                break
    return Schedule.of(steps, np.array(chosen, dtype=np.int64), np.array(at, dtype=np.int64))


def _cheapest_with_room(room: Floats, prices: Floats, first: int, last: int, cost: float) -> int | None:
    """Return the latest of the cheapest: earlier evaluations also suit copies that became stale before."""
    if room[first : last + 1].max() < cost - SLACK:
        return None
    price = np.where(room[first : last + 1] >= cost - SLACK, prices[first : last + 1], np.inf)
    return last - int(np.argmin(price[::-1]))
