"""Checks of what a policy handles, and the price of its choice in requests."""

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ids
from freshkeeper.maintenance.base.errors import BadSelectionError
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.policies.base import Case, Knowledge, Policy, Selection
from freshkeeper.policies.choose import SLACK


def check_handles(policy: Policy, case: Case, knowledge: Knowledge) -> None:
    """Refuse a policy that does not declare the case or the knowledge level."""
    if case not in policy.cases:
        raise BadSelectionError(f"the policy {policy.name!r} does not handle case {case}, only {_listed(policy.cases)}")
    if knowledge not in policy.knowledge:
        raise BadSelectionError(
            f"the policy {policy.name!r} does not work with {knowledge} knowledge, only {_listed(policy.knowledge)}"
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
