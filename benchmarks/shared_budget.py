"""What one budget for several sources brings by value, beside by weight: fresh answers, 30 seeds in pairs.

    python benchmarks/shared_budget.py [seeds] [evaluations]

Every source has a view of its own under `learned` knowledge; all weights are 1, and there is no bank. By weight a view
spends its part, and what is left of it those that come after it; by value all bid before any of them spends.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from stopwatch import ratios, show

from freshkeeper import BudgetRule, Case, Learned, Manager, SharedBudget, WindowSpec, evaluate_together, policy
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.stats import paired
from freshkeeper.policies.base import Graph
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.trace.workload import Workload, generate
from freshkeeper.simulator.world.simulated_remote import SimulatedRemote
from freshkeeper.simulator.world.truth import SimulatedTruth, schedule_of

RANGE, STEP, GAMMA, START = 4_000, 1_000, 6, 60_000
WARM_UP = 0.1
USUAL = {"change_law": "poisson", "srs": 200, "sns": 100, "edges": 300, "degree_skew": 0.5}
SLOW, FAST = {"change_interval_ms": (20_000, 60_000)}, {"change_interval_ms": (2_000, 15_000)}
BUSY, QUIET = {"arrival_interval_ms": (1_000, 4_000)}, {"arrival_interval_ms": (10_000, 60_000)}
SETTINGS: dict[str, tuple[Case, list[dict[str, tuple[int, int]]]]] = {
    "two alike": (Case.BGP, [SLOW | BUSY] * 2),
    "fast and slow changes": (Case.BGP, [FAST | BUSY, SLOW | BUSY]),
    "much and little demand": (Case.BGP, [SLOW | BUSY, SLOW | QUIET]),
    "three of all kinds": (Case.BGP, [FAST | BUSY, SLOW | BUSY, SLOW | QUIET]),
    "aggregates, much and little": (Case.AGGREGATE, [SLOW | BUSY, SLOW | QUIET]),
}


@dataclass(frozen=True, eq=False)
class Site:
    """A source with the stream that asks for it, and its view."""

    trace: Trace
    truth: SimulatedTruth
    manager: Manager

    @classmethod
    def of(cls, trace: Trace, name: str, case: Case, shared: SharedBudget) -> "Site":
        """The view complete and fresh at the start."""
        schedule, edges = schedule_of(trace), trace.edges
        graph = Graph.from_edges(edges.sn, edges.sr, trace.sns, trace.srs)
        remote, window = SimulatedRemote(schedule, graph), WindowSpec(RANGE, STEP, START)
        manager = Manager(window, remote, policy(name), shared.member(name), Learned(), case, answers=False)
        manager.view.fill_numbered(edges.sn, edges.sr, trace.sns, trace.srs, START)
        every = np.arange(trace.srs, dtype=np.int32)
        manager.receive(every, every.tolist(), remote.fetch(every.tolist(), START).copies, START)
        return cls(trace, SimulatedTruth(schedule, graph), manager)


def traces(seed: int, sources: Sequence[Mapping[str, Any]], evaluations: int) -> list[Trace]:
    """One of each source, long enough wherever it begins."""
    duration = START + (evaluations + 1) * STEP
    return [
        generate(Workload.model_validate({**USUAL, **source, "duration_ms": duration}), 100 * seed + n)
        for n, source in enumerate(sources)
    ]


def freshness(name: str, case: Case, given: Sequence[Trace], evaluations: int, by_value: bool) -> float:
    """The mean share of fresh answers over evaluations, all sources together."""
    shared = SharedBudget(BudgetRule.of(GAMMA), STEP)
    sites = [Site.of(trace, name, case, shared) for trace in given]
    managers = [site.manager for site in sites]
    instants = range(START + STEP, START + evaluations * STEP + 1, STEP)
    shares = []
    for parts in zip(*(site.trace.batches(instants) for site in sites), strict=True):
        now = parts[0][0]
        arrivals = [list(zip(batch.t_ms.tolist(), batch.sn.tolist(), strict=True)) for _, batch in parts]
        if by_value:
            found = evaluate_together(managers, now, arrivals)
        else:
            found = [manager.evaluate(now, new) for manager, new in zip(managers, arrivals, strict=True)]
        measured = [site.truth.measure(site.manager, each) for site, each in zip(sites, found, strict=True)]
        answers, fresh = np.sum(measured, axis=0)
        shares.append(fresh / answers if answers else np.nan)
    shared.check()
    return float(np.nanmean(shares[int(WARM_UP * evaluations) :]))


def compared(name: str, setting: str, seeds: int, evaluations: int) -> tuple[Floats, Floats]:
    """By value and by weight, of every seed."""
    case, sources = SETTINGS[setting]
    rows = []
    for seed in range(seeds):
        given = traces(seed, sources, evaluations)
        rows.append([freshness(name, case, given, evaluations, by_value) for by_value in (True, False)])
    return np.array(rows).T[0], np.array(rows).T[1]


def main(seeds: int = 30, evaluations: int = 120) -> None:
    """The table."""
    rows, named = [], {}
    for setting, (case, _) in SETTINGS.items():
        for name in ("bundle",) if case is Case.AGGREGATE else ("ibm", "plan"):
            value, weight = (100 * column for column in compared(name, setting, seeds, evaluations))
            more = paired(value, weight)
            rows.append(
                [setting, name, f"{weight.mean():.1f}", f"{value.mean():.1f}", f"{more.mean:+.1f} ± {more.half:.1f}"]
            )
            named[f"{setting}, {name}"] = float(value.mean() / weight.mean())
    show(f"fresh answers in percent, γ = {GAMMA} for all", ["sources", "policy", "by weight", "by value", "more"], rows)
    ratios(named)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
