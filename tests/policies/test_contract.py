"""One contract for all policies, in every case and at every knowledge level that they declare."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from freshkeeper.maintenance.base.errors import PolicyError
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Knowledge, Policy, Round, Selection, Trait
from freshkeeper.policies.bound.future import Future
from freshkeeper.policies.contract import check, check_staler_first
from freshkeeper.policies.ibm import Ibm
from freshkeeper.policies.lru import Lru
from freshkeeper.policies.random import Random
from freshkeeper.policies.rounds_by_hand import round_of

DECLARED = [
    pytest.param(name, case, knowledge, id=f"{name}-{case}-{knowledge}")
    for name, policy in sorted(registry.available().items())
    for case in sorted(policy.cases)
    for knowledge in sorted(policy.knowledge)
]
VARIANTS = [("fba", {"literal": True}), ("sbm", {"weighted": True}), ("ibm", {"weighted": True}),
            ("bundle", {"starts": 1}), ("gain", {"expect": False}), ("plan", {"expect": False}),
            ("oracle", {"ahead": True})]  # fmt: skip
budgets = st.builds(
    Budget,
    available=st.sampled_from([0.0, 1.0, 2.0, 3.0, 100.0]),
    remaining=st.sampled_from([None, 1, 3]),
    per_evaluation=st.sampled_from([0.0, 1.0, 2.5]),
    bank=st.sampled_from([0.0, 2.0, 50.0]),
)


@pytest.mark.parametrize(("name", "case", "knowledge"), DECLARED)
def test_every_policy_keeps_the_contract(
    make_rounds: Callable[[Case, Knowledge], st.SearchStrategy[Round]], name: str, case: Case, knowledge: Knowledge
) -> None:
    keeps_it(make_rounds, registry.make(name), case, knowledge, 8 if name == "oracle" else 40)


@pytest.mark.parametrize(("name", "case", "knowledge"), DECLARED)
def test_of_entries_that_are_alike_the_staler_go_first(name: str, case: Case, knowledge: Knowledge) -> None:
    check_staler_first(registry.make(name), case, knowledge)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_every_variant_keeps_the_contract(
    make_rounds: Callable[[Case, Knowledge], st.SearchStrategy[Round]], name: str, variant: dict[str, object]
) -> None:
    policy = registry.make(name, variant)
    for case in sorted(policy.cases):
        keeps_it(make_rounds, policy, case, Knowledge.EXACT, 8 if name == "oracle" else 25)


def test_the_example_of_the_docs_keeps_the_contract(
    make_rounds: Callable[[Case, Knowledge], st.SearchStrategy[Round]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plug-in of docs/writing-a-policy.md, as its reader would write it."""
    text = (Path(__file__).parents[2] / "docs" / "writing-a-policy.md").read_text(encoding="utf-8")
    (tmp_path / "newest.py").write_text(text.split("```python file=newest.py\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    policy = registry.make("newest:Newest")
    for case in sorted(policy.cases):
        for knowledge in sorted(policy.knowledge):
            keeps_it(make_rounds, policy, case, knowledge, 15)
            check_staler_first(policy, case, knowledge)


def keeps_it(
    make_rounds: Callable[[Case, Knowledge], st.SearchStrategy[Round]],
    policy: Policy,
    case: Case,
    knowledge: Knowledge,
    most: int,
) -> None:
    @settings(max_examples=examples(most), suppress_health_check=list(HealthCheck))
    @given(make_rounds(case, knowledge), budgets)
    def holds(round: Round, budget: Budget) -> None:
        if hasattr(policy, "foresee"):
            policy.foresee(told(round, budget))
        check(policy, round, budget)

    holds()


def told(round: Round, budget: Budget) -> Future:
    """The future of a run that ends with this round."""
    return Future.of(
        csr_array(round.profile[:, :1].T),
        round.graph,
        changed_at=np.empty(0, np.int64),
        changed_sr=np.empty(0, np.int64),
        weight=np.ones(1),
        pay=np.array([budget.available]),
        fresh_at_start=~round.stale,
        cost=round.cost,
    )


@pytest.mark.parametrize("name", ["random", "lru", "sbm", "ibm"])
def test_a_budget_for_all_refreshes_all_stale_candidates(
    make_rounds: Callable[[Case, Knowledge], st.SearchStrategy[Round]], name: str
) -> None:
    @settings(max_examples=examples(30))
    @given(make_rounds(Case.BGP, Knowledge.LEARNED))
    def holds(round: Round) -> None:
        chosen = registry.make(name).select(round, Budget(1e6, 1e6), np.random.default_rng(1)).chosen
        assert sorted(chosen.tolist()) == np.flatnonzero(round.stale_candidates).tolist()

    holds()


def test_equal_scores_are_broken_by_the_seed_and_only_by_it() -> None:
    round = round_of([(0, sr) for sr in range(8)], [1], [1] * 8)
    picks = {
        seed: tuple(
            sorted(registry.make("sbm").select(round, Budget(3, 3), np.random.default_rng(seed)).chosen.tolist())
        )
        for seed in range(20)
    }
    assert len(set(picks.values())) > 5


class Backwards(Lru):
    """The youngest copies first."""

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        chosen = np.argsort(-round.last_refresh)[: int(budget.available)].astype(np.int32)
        return Selection(chosen, np.zeros(chosen.size))


def test_the_contract_finds_who_takes_the_fresher_first() -> None:
    with pytest.raises(PolicyError, match="left out a staler entry for a fresher one"):
        check_staler_first(Backwards(), Case.BGP, Knowledge.LEARNED)


class Absolute(Ibm):
    """Refreshes what at least ten answers need."""

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        chosen = np.flatnonzero(round.demand[:, 0] >= 10)[: int(budget.available)].astype(np.int32)
        return Selection(chosen, np.zeros(chosen.size))


def test_the_contract_finds_what_heeds_the_scale_of_demand() -> None:
    with pytest.raises(PolicyError, match="chose otherwise when every demand was 8 times as high"):
        check(Absolute(), round_of([(0, 0), (0, 1)], [4], [1, 1]), Budget(1, 1))


class Broken(Random):
    """Chooses what its test tells it to."""

    wrong: ClassVar[list[int]] = []

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        chosen = np.array(self.wrong, dtype=np.int32)
        return Selection(chosen, np.zeros(chosen.size))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [([0, 0], "chose an entry twice"), ([9], "does not have"), ([0, 1], "spent more"), ([2], "certainly fresh")],
)
def test_the_contract_finds_what_is_broken(wrong: list[int], said: str) -> None:
    Broken.wrong = wrong
    round = round_of([(0, 0), (0, 1), (0, 2)], [1], [1, 1, 1], fresh=[2])
    with pytest.raises(PolicyError, match=said):
        check(Broken(), round, Budget(1, 1))


def test_what_a_policy_waives_is_not_asked_of_it() -> None:
    round = round_of([(0, 0), (0, 1)], [4], [1, 1], fresh=[1])
    with pytest.raises(PolicyError, match="chose otherwise"):
        check(Absolute(), round, Budget(1, 1))
    meant = type("Meant", (Absolute,), {"waives": frozenset({Trait.ANY_SCALE})})
    assert check(meant(), round, Budget(1, 1)).chosen.size == 0
