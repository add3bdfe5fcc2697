"""The evaluation, at one instant, of several views that share a budget: all of them bid before any of them spends."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager

Arrivals: TypeAlias = Iterable[tuple[int, Hashable]]


def evaluate_together(managers: Sequence[Manager], now: int, arrivals: Sequence[Arrivals]) -> list[Evaluation]:
    """Evaluate each manager after its arrivals (time, lookup key), the money of all going where it brings most.

    `manager.evaluate` does one alone, with the part that its weight gives it. Queries of a run are evaluated so.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, SharedBudget, WindowSpec, evaluate_together
    >>> window, shared = WindowSpec(4000, 1000), SharedBudget(BudgetRule.of(2), period=1000)
    >>> busy, quiet = (
    ...     Manager(window, InMemory({n: [n] for n in range(3)}, {}), "plan", shared.member(name), Learned())
    ...     for name in ("busy", "quiet")
    ... )
    >>> arrivals = [(900, 0), (900, 0), (900, 1), (900, 1)], [(900, 2)]
    >>> [evaluation.record.spent for evaluation in evaluate_together([busy, quiet], 1000, arrivals)]
    [2.0, 0.0]
    """
    prepareds = [manager.prepare_round(now, new) for manager, new in zip(managers, arrivals, strict=True)]
    for manager, prepared in zip(managers, prepareds, strict=True):
        manager.bid(prepared)
    decisions = []
    for manager, prepared in zip(managers, prepareds, strict=True):
        decisions.append(manager.choose(prepared))
        manager.reserve(decisions[-1])
    for manager in managers:
        manager.ledger.extend()
    return [manager.conclude(one, manager.fetch(one)) for manager, one in zip(managers, decisions, strict=True)]
