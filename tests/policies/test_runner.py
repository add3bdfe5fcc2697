"""One place calls policies: it names what fails, keeps their state as text, and checks what they choose."""

import datetime
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyoxigraph import BlankNode, Literal, NamedNode

from freshkeeper import BudgetRule, InMemory, Learned, Manager, Ranked, WindowSpec
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import BadSelectionError, PolicyError
from freshkeeper.maintenance.base.term_text import decode
from freshkeeper.maintenance.cache.manager import PolicyContext
from freshkeeper.policies.base import BasePolicy, Budget, Results, Round, Selection
from freshkeeper.policies.rounds_by_hand import round_of
from freshkeeper.policies.runner import PolicyRunner

ROUND = round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1])
SOURCE = InMemory({"jazz": ["ann", "bob"]}, {"ann": 10, "bob": 20})


@dataclass
class Failing(Ranked):
    """Fails as often as it is told to."""

    method: str = "score"
    seen: int = field(default=0, init=False)

    def score(self, round: Round) -> Floats:
        if self.method == "score":
            raise ZeroDivisionError("nothing to\ndivide by")
        return round.staleness

    def observe(self, results: Results) -> None:
        self.seen += 1
        if self.method == "observe":
            raise KeyError(results.keys[0])

    def state(self) -> Any:
        return {"seen": range(3)} if self.method == "state" else {"seen": self.seen}

    def restore(self, state: Any) -> None:
        self.seen = state["gone" if self.method == "restore" else "seen"]

    def metrics(self) -> dict[str, float]:
        return {"seen": float("nan") if self.method == "metrics" else self.seen}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("score", "raised ZeroDivisionError in select() at test_runner.py:34: nothing to divide by"),
        ("observe", "raised KeyError in observe() at test_runner.py:40: 'ann'"),
        ("state", "raised InputError in state() at test_runner.py:42: range(0, 3) cannot be kept: "),
        ("restore", "raised KeyError in restore() at test_runner.py:46: 'gone'"),
        ("metrics", "raised ValueError in metrics() at test_runner.py:48: seen is NaN"),
    ],
)
def test_an_exception_names_policy_settings_place_method_and_line(method: str, message: str) -> None:
    settings = "" if method == "score" else f"(method={method})"
    runner = PolicyRunner(Failing(method), "setting budget=5, seed 3")
    one = np.zeros(1, np.int32)
    results = Results(one, one == 0, one == 0, now=1, keys=("ann",))
    calls = {
        "score": lambda: runner.select(ROUND, Budget(1, 1), np.random.default_rng(0)),
        "observe": lambda: runner.observe(results),
        "state": runner.dump,
        "restore": lambda: runner.load('{"dict":[]}'),
        "metrics": runner.metrics,
    }
    with pytest.raises(PolicyError) as caught:
        calls[method]()
    assert str(caught.value).startswith(f"the policy 'failing{settings}' (setting budget=5, seed 3) {message}")
    assert "\n" not in str(caught.value)


@dataclass
class Returning(BasePolicy):
    """Returns what its test tells it to."""

    selection: Any = None

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        selection: Selection = self.selection
        return selection


def chosen(numbers: Any, scores: Any = None) -> Selection:
    return Selection(numbers, np.zeros(len(numbers)) if scores is None else scores)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (None, "must return a Selection, not None"),
        (chosen([0]), "must choose entry numbers, a numpy array of integers in one dimension, not list [0]"),
        (chosen(np.array([True, False])), "must choose entry numbers, a numpy array of integers in one dimension, not "
         "an array of bool with the shape (2,)"),
        (chosen(np.array([[0]])), "must choose entry numbers, a numpy array of integers in one dimension, not "
         "an array of int64 with the shape (1, 1)"),
        (chosen(np.array([0.0])), "must choose entry numbers, a numpy array of integers in one dimension, not "
         "an array of float64 with the shape (1,)"),
        (chosen(np.array([0]), np.zeros(2)), "gave 2 scores for 1 choices"),
        (chosen(np.array([0]), [1.0]), "must give scores as a numpy array of numbers in one dimension, not list [1.0]"),
        (chosen(np.array([1]), np.array([np.nan])), "gave the score NaN to entry 1"),
        (chosen(np.array([2])), "chose entry 2, the round has 0 to 1"),
        (chosen(np.array([0, 0])), "chose entry 0 more than once"),
        (chosen(np.array([0, 1])), "chose 2 entries for 2 cost units; the budget of this evaluation is 1"),
    ],
)  # fmt: skip
def test_a_choice_that_cannot_be_is_refused(selection: Selection, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        PolicyRunner(Returning(selection), "seed 0").select(ROUND, Budget(1, 1), np.random.default_rng(0))
    assert message in str(caught.value)


@dataclass
class Scoring(Ranked):
    """Scores as its test tells it to."""

    scores: Any = None

    def score(self, round: Round) -> Floats:
        scores: Floats = self.scores
        return scores


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([1.0, np.nan]), "score() gave the score NaN to entry 1"),
        (np.zeros(3), "score() must return 2 numbers, one for each entry, not float64 of the shape (3,)"),
        ([1.0, 2.0], "score() must return 2 numbers, one for each entry, not [1.0, 2.0]"),
        (None, "score() must return 2 numbers, one for each entry, not None"),
    ],
)
def test_scores_that_are_no_numbers_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(BadSelectionError) as caught:
        PolicyRunner(Scoring(scores), "seed 0").select(ROUND, Budget(1, 1), np.random.default_rng(0))
    assert message in str(caught.value)


def test_infinite_scores_of_both_signs_are_permitted() -> None:
    runner = PolicyRunner(Scoring(np.array([np.inf, -np.inf])))
    assert runner.select(ROUND, Budget(2, 2), np.random.default_rng(0)).chosen.tolist() == [0]


@dataclass
class Keeping(Ranked):
    """Keeps whatever its test hands it."""

    held: Any = field(default=None, init=False)

    def score(self, round: Round) -> Floats:
        return round.staleness

    def state(self) -> Any:
        return self.held

    def restore(self, state: Any) -> None:
        self.held = state


@pytest.mark.parametrize(
    "state",
    [
        {NamedNode("urn:a"): 1, (Literal("x", language="en"), BlankNode("b")): [2], ("a", 1): None, 3: "c"},
        {"int": np.int64(3), "float": np.float32(0.5), "bool": np.True_, "date": np.datetime64("2026-01-01")},
        {"at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "day": datetime.date(2026, 1, 1), "s": {1, "b"}},
        None,
        [],
    ],
)
def test_a_state_of_any_keys_scalars_and_dates_comes_back(state: object) -> None:
    runner, again = PolicyRunner(Keeping()), PolicyRunner(Keeping())
    assert isinstance(runner.policy, Keeping)
    assert isinstance(again.policy, Keeping)
    runner.policy.held = state
    again.load(runner.dump())
    assert again.policy.held == state


@pytest.mark.parametrize(
    "array",
    [np.arange(6).reshape(2, 3), np.empty(0), np.array([True]), np.array(["a", "bc"]), np.array([1, "a"], object)],
)
def test_a_state_of_arrays_comes_back_with_types_and_shapes(array: NDArray[Any]) -> None:
    runner = PolicyRunner(Keeping())
    assert isinstance(runner.policy, Keeping)
    runner.policy.held = [array]
    text = runner.dump()
    assert text is not None
    (again,) = decode([text])[0]
    assert (again.dtype, again.shape, again.tolist()) == (array.dtype, array.shape, array.tolist())
    again[:] = again[::-1].copy()  # what comes back can be written into


def manager(policy: Failing, skips: bool) -> Manager:
    context = PolicyContext("source urn:s, seed 0", skips)
    return Manager(WindowSpec(4000, 1000), SOURCE, policy, BudgetRule.of(1), Learned(), context=context)


def test_a_failing_policy_ends_an_evaluation_unless_errors_are_skipped() -> None:
    with pytest.raises(PolicyError, match=r"^the policy 'failing' \(source urn:s, seed 0\) raised ZeroDivisionError"):
        manager(Failing(), False).evaluate(1000, [(900, "jazz")])


def test_skipped_errors_are_counted_by_evaluation_and_answers_come_from_the_view() -> None:
    policy = Failing("")
    skipping = manager(policy, True)
    skipping.evaluate(1000, [(900, "jazz")])
    policy.method = "score"
    for now in (2000, 3000):
        evaluation = skipping.evaluate(now)
        assert (len(evaluation.answers), evaluation.record.spent) == (2, 0)
    assert (skipping.runner.failed_rounds, "ZeroDivisionError" in skipping.runner.error) == (2, True)
    policy.method = "observe"
    assert skipping.evaluate(4000).record.spent == 1
    assert skipping.runner.failed_rounds == 3
    policy.method = ""
    skipping.evaluate(5000)
    assert (skipping.runner.failed_rounds, skipping.runner.error) == (3, "")


def test_arrays_of_rounds_cannot_be_written() -> None:
    names = ("demand", "fresh_if_refreshed", "fresh_if_kept", "cost", "last_refresh", "expected_arrivals", "kinds",
             "profile", "candidates", "stale", "staleness", "missing", "stale_candidates", "expected_profile",
             "expected_demand", "change")  # fmt: skip
    for name in names:
        with pytest.raises(ValueError, match="read-only"):
            getattr(ROUND, name)[...] = 0
    for name in ("sn_start", "sn_neighbours", "sr_start", "sr_neighbours"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(ROUND.graph, name)[...] = 0
