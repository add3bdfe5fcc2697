"""Checks of a policy's choice before anything is fetched or spent, and the price of the choice in requests."""

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ids
from freshkeeper.maintenance.base.errors import BadSelectionError, OverspentError
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.policies.base import Budget, Case, Knowledge, Policy, Round, Selection
from freshkeeper.policies.choose import SLACK


def check_handles(policy: Policy, case: Case, knowledge: Knowledge) -> None:
    """Refuse a policy that does not declare the case or the knowledge level."""
    if case not in policy.cases:
        raise BadSelectionError(f"the policy {policy.name!r} does not handle case {case}, only {_listed(policy.cases)}")
    if knowledge not in policy.knowledge:
        raise BadSelectionError(
            f"the policy {policy.name!r} does not work with {knowledge} knowledge, only {_listed(policy.knowledge)}"
        )


def check_selection(policy: Policy, round: Round, selection: Selection, budget: Budget) -> None:
    """Refuse strangers, duplicates, scores that do not fit, and spending beyond the budget."""
    chosen = np.asarray(selection.chosen)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise BadSelectionError(f"the policy {policy.name!r} must choose entry numbers, not {selection.chosen!r}")
    ordered = np.sort(chosen)
    if ordered.size and (ordered[0] < 0 or ordered[-1] >= round.srs):
        strangers = chosen[(chosen < 0) | (chosen >= round.srs)]
        raise BadSelectionError(
            f"the policy {policy.name!r} chose entry {int(strangers[0])}, the round has 0 to {round.srs - 1}"
        )
    repeated = ordered[1:] == ordered[:-1]
    if repeated.any():
        again = int(ordered[1:][repeated][0])
        raise BadSelectionError(f"the policy {policy.name!r} chose entry {again} more than once")
    if len(selection.scores) != chosen.size:
        raise BadSelectionError(
            f"the policy {policy.name!r} gave {len(selection.scores)} scores for {chosen.size} choices"
        )
    cost = float(round.cost[chosen].sum())
    if policy.keeps_budget and cost > budget.available + SLACK:
        raise OverspentError(
            f"the policy {policy.name!r} chose {chosen.size} entries for {cost:g} cost units; "
            f"the budget of this evaluation is {budget.available:g}"
        )


def whole_requests(
    selection: Selection, missing: Bools, price: Price, available: float, of_misses: Price | None = None,
    fits: bool = True,
) -> Selection:  # fmt: skip
    """Return the part of a selection that full and started requests pay for, the best first.

    `fits` says that one by one they are paid for.
    """
    of_misses = of_misses or price
    if (fits and price.batch == of_misses.batch == 1) or not selection.chosen.size:
        return selection
    order = np.argsort(-np.asarray(selection.scores), kind="stable")
    misses = np.cumsum(missing[order])
    plain = np.arange(1, order.size + 1) - misses
    cost = [of_misses.of(m) + price.of(p) for m, p in zip(misses.tolist(), plain.tolist(), strict=True)]
    paid = order[: int(np.searchsorted(cost, available + SLACK, side="right"))]
    return Selection(selection.chosen[paid], selection.scores[paid], selection.reason)


def preferring(first: Ids, selection: Selection) -> Selection:
    """Return a selection in which these slots are the best."""
    others = ~np.isin(selection.chosen, first)
    best = np.full(first.size, selection.scores.max(initial=0.0))
    chosen = np.concatenate([first, selection.chosen[others]]).astype(np.int32)
    return Selection(chosen, np.concatenate([best, selection.scores[others]]), selection.reason)


def _listed(values: frozenset[Case] | frozenset[Knowledge]) -> str:
    return ", ".join(sorted(values))
