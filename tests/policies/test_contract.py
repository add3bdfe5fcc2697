"""One contract for all policies, in every case and at every knowledge level that they declare."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import wrong_policies
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import ConfigError, PolicyError
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Knowledge, Round, Selection, Trait
from freshkeeper.policies.contract import check, check_contract, check_staler_first
from freshkeeper.policies.ibm import Ibm
from freshkeeper.policies.lru import Lru
from freshkeeper.policies.random import Random
from freshkeeper.policies.rounds_by_hand import round_of

VARIANTS = ["fba(literal=true)", "sbm(weighted=true)", "ibm(weighted=true)", "bundle(starts=1)", "gain(expect=false)",
            "plan(expect=false)", "oracle(ahead=true)"]  # fmt: skip
NEWEST = Path(__file__).parents[2] / "docs" / "writing-a-policy.md"


@pytest.mark.parametrize("name", [*registry.BUILTIN, *VARIANTS])
def test_every_policy_keeps_the_contract(name: str) -> None:
    assert check_contract(name, another_process=False) > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plan", "bundle", "refresh-ahead"])
def test_a_policy_chooses_the_same_in_a_process_with_another_hash_seed(name: str) -> None:
    check_contract(name)


def test_the_example_of_the_docs_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in of docs/writing-a-policy.md, as its reader would write it."""
    (tmp_path / "newest.py").write_text(NEWEST.read_text().split("```python file=newest.py\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    assert check_contract("newest:Newest(patience=2)") > 50


WRONG = [
    ("1", "Overspends", "within the budget", "chose", ""),
    ("2", "WritesDemand", "read-only rounds", "read-only", "writes demand"),
    ("2", "WritesExpected", "read-only rounds", "read-only", "writes expected"),
    ("2", "WritesMasks", "read-only rounds", "read-only", "writes masks"),
    ("3", "OwnNumpyGenerator", "own generator", "np.random.default_rng", "own numpy generator"),
    ("3", "ModuleRandom", "own generator", "module random", "module random"),
    ("3", "KeptGenerator", "own generator", "self.rng is a generator of its own", "kept generator"),
    ("4", "SaltedHash", "another process", "with another hash seed it chose", "salted hash"),
    ("4", "SetOrder", "another process", "with another hash seed it chose", "set order"),
    ("5", "WallClock", "wall clock", "reads the clock with time()", "wall clock"),
    ("5", "WallDate", "wall clock", "reads the clock with now()", "wall date"),
    ("6", "NanScores", "valid choice", "score() gave the score NaN", "nan scores"),
    ("7", "NanSelection", "valid choice", "gave the score NaN", "nan selection"),
    ("8", "KeepsRounds", "kept rounds", "it keeps the round when the evaluation is over", ""),
    ("8", "KeepsArrays", "kept rounds", "it keeps round.demand when the evaluation is over", ""),
    ("9", "ReusesNumbers", "numbers of one round", "remember keys instead", "reuses numbers"),
    ("10", "ObserveRaises", "no exception", "raised KeyError in observe()", "observe raises"),
    ("10", "StateRaises", "no exception", "raised ZeroDivisionError in state()", "state raises"),
    ("10", "StateCannotBeWritten", "no exception", "cannot be kept", "state cannot be written"),
    ("10", "RestoreRaises", "no exception", "raised KeyError in restore()", "restore raises"),
    ("10", "RestoresWrongly", "restart", "restored at evaluation 3 it chose", "restores wrongly"),
    ("10", "ForgetsItsState", "restart", "it has no state() and no restore()", "forgets its state"),
    ("11", "NeedsArrivals", "expected arrivals", "which are None unless its scope", "needs arrivals"),
    ("12", "ReturnsNothing", "valid choice", "must return a Selection, not None", "returns nothing"),
    ("12", "Returns(form=nothing)", "valid choice", "must choose entry numbers", "returns"),
    ("12", "Returns(form=array)", "valid choice", "must return a Selection, not an array", "returns"),
    ("12", "Returns(form=list)", "valid choice", "must choose entry numbers", "returns"),
    ("12", "Returns(form=floats)", "valid choice", "not an array of float64", "returns"),
    ("12", "Returns(form=mask)", "valid choice", "not an array of bool", "returns"),
    ("12", "Returns(form=column)", "valid choice", "not an array of int32 with the shape (", "returns"),
    ("12", "Returns(form=twice)", "valid choice", "more than once", "returns"),
    ("12", "Returns(form=strangers)", "valid choice", "the round has 0 to", "returns"),
    ("", "RefreshesFresh", "never fresh", "certainly fresh", ""),
    ("", "WrongCases", "declarations", "cases must be a frozenset of Case", ""),
]
"""The number of the mistake, the policy, the check that finds it, part of the sentence, and the mark of the line."""
LINES = Path(wrong_policies.__file__).read_text().splitlines()
SLOW = {"SaltedHash", "SetOrder"}


@pytest.mark.parametrize(
    ("name", "check", "said", "mark"),
    [
        pytest.param(name, *rest, id=f"{number}-{name}", marks=[pytest.mark.slow] * (name in SLOW))
        for number, name, *rest in WRONG
    ],
)
def test_the_contract_catches_every_wrong_policy(name: str, check: str, said: str, mark: str) -> None:
    with pytest.raises(PolicyError) as caught:
        check_contract(f"wrong_policies:{name}")
    message = str(caught.value)
    title = registry.title_of(registry.make(f"wrong_policies:{name}"))
    assert message.startswith(f"the policy {title!r} fails the check {check!r}: ")
    assert said in message
    assert "\n" not in message
    if mark:
        line = next(n for n, text in enumerate(LINES, 1) if text.endswith(f"# line: {mark}"))
        assert f"wrong_policies.py:{line}" in message


@pytest.mark.slow
def test_a_policy_with_state_that_makes_no_mistake_is_not_accused() -> None:
    check_contract("wrong_policies:Stateful")


def test_a_class_in_a_function_is_refused_for_another_process() -> None:
    class Local(Lru):
        pass

    assert check_contract(Local, another_process=False) > 50
    with pytest.raises(ConfigError, match="is defined in a function"):
        check_contract(Local())


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
    [
        ([0, 0], "more than once"),
        ([9], "the round has 0 to 2"),
        ([0, 1], "the budget of this evaluation is 1"),
        ([2], "certainly fresh"),
    ],
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
