"""A policy that is a score of each SR by itself: parts of a round have the scores of the whole, and the highest win."""

from dataclasses import replace

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Knowledge, Round
from freshkeeper.policies.contract_rounds import examples
from freshkeeper.policies.ranked import NO, Ranked

MADE = {name: registry.make(name) for name in sorted(registry.available())}
RANKED = [
    pytest.param(policy, knowledge, id=f"{name}-{knowledge}")
    for name, policy in MADE.items()
    if isinstance(policy, Ranked)
    for knowledge in sorted(policy.ranks_under)
]


def part(round: Round, rows: Ints) -> Round:
    """Some SRs of a round, with nothing that tells of the others."""
    columns = ("demand", "fresh_if_refreshed", "fresh_if_kept", "cost", "last_refresh", "expected_arrivals")
    cut = {name: getattr(round, name)[rows] for name in columns if getattr(round, name) is not None}
    return replace(round, **cut, build=lambda: pytest.fail("looked at the graph"), foresee=lambda: round.change[rows])


def test_the_policies_of_one_score_are_known() -> None:
    assert {policy.name for policy in MADE.values() if isinstance(policy, Ranked)} == {
        "gain",
        "ibm",
        "lru",
        "plan",
        "random",
        "sbm",
    }


@pytest.mark.parametrize(("policy", "knowledge"), RANKED)
def test_scores_of_parts_are_scores_of_the_whole_and_the_highest_are_chosen(
    policy: Ranked, knowledge: Knowledge
) -> None:
    for round in examples(Case.BGP, knowledge):
        round = replace(round, cost=np.ones(round.srs))
        whole = policy.score(round)
        halves = np.array_split(np.arange(round.srs), 2)
        assert np.concatenate([policy.score(part(round, rows)) for rows in halves]) == pytest.approx(whole)
        for money in (1, 3):
            chosen = policy.select(round, Budget(money, money), np.random.default_rng(0)).chosen
            highest = np.sort(whole[whole > NO])[::-1][:money]
            assert np.sort(whole[chosen])[::-1].tolist() == highest.tolist()
