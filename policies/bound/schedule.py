"""Turning an optimum into refreshes: which SR at which evaluation."""

import heapq
from dataclasses import dataclass

import numpy as np

from freshkeeper.policies.arrays import Floats, Ids, Ints
from freshkeeper.policies.bound.future import Allowance
from freshkeeper.policies.bound.periods import Steps, net_gain
from freshkeeper.policies.choose import SLACK


@dataclass(frozen=True, eq=False)
class Schedule:
    """Which SRs to refresh at which evaluation, those of one evaluation together and best first, each with its gain."""

    at: Ints
    sr: Ids
    gain: Floats

    @classmethod
    def of(cls, steps: Steps, chosen: Ints, at: Ints) -> "Schedule":
        """The chosen steps, each paid for at `at`."""
        order = np.lexsort((-steps.gain[chosen], at))
        return cls(at[order], steps.sr[chosen][order].astype(np.int32), steps.gain[chosen][order])

    def due(self, evaluation: int) -> slice:
        """Where the refreshes of one evaluation stand."""
        start, end = np.searchsorted(self.at, [evaluation, evaluation + 1]).tolist()
        return slice(start, end)


def matched(steps: Steps, chosen: Ints, room: Ints) -> Schedule | None:
    """The chosen steps within their windows, at most `room[k]` of them at evaluation k; None where that cannot be.

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
    """A good schedule from prices: periods by what they gain beyond the price, each at the cheapest time with room."""
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
    """The latest of the cheapest: earlier evaluations also suit what came to be stale before."""
    if room[first : last + 1].max() < cost - SLACK:
        return None
    price = np.where(room[first : last + 1] >= cost - SLACK, prices[first : last + 1], np.inf)
    return last - int(np.argmin(price[::-1]))
