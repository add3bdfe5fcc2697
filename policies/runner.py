"""A policy at work: the one place that calls it, checks its choices and keeps its state.

Manager, shards on Spark and the contract call policies through `PolicyRunner` alone, so run, serve, replay, simulate
and `enrich` cannot differ.
"""

import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import BadSelectionError, OverspentError, PolicyError
from freshkeeper.maintenance.base.term_text import decode, encode
from freshkeeper.policies.base import Budget, Policy, Results, Round, Selection
from freshkeeper.policies.choose import SLACK
from freshkeeper.policies.ranked import Ranked
from freshkeeper.policies.registry import title_of

Outcome = TypeVar("Outcome")
FRESHKEEPER = Path(__file__).parents[1]


@dataclass(eq=False)
class PolicyRunner:
    """Calls a policy; whatever it raises is a `PolicyError` that names it, its settings and where it ran."""

    policy: Policy
    context: str = ""
    """for messages: the setting or source, and the seed"""
    skips_errors: bool = False
    """a round whose policy fails chooses nothing; otherwise the error is raised"""
    failed_rounds: int = 0
    error: str = ""
    """why the policy failed in the last round; empty if it did not"""
    _now: int | None = None
    """the instant of the last round"""
    _state: str | None = None
    """the last state that could be written"""

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Return the policy's choice, which is a valid one; nothing if the policy failed and failures are skipped."""
        self._begin(round.now)
        try:
            return self._checked(self.policy, round, budget, rng)
        except PolicyError as error:
            self._count(error)
            return Selection(np.empty(0, np.int32), np.empty(0), "the policy failed")

    def preview(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection | None:
        """Return what the policy would choose, on copies of its state and of the generator; None if it failed."""
        self._begin(round.now)
        return self._guarded(lambda: self._checked(deepcopy(self.policy), round, budget, deepcopy(rng)), None)

    def score(self, round: Round) -> Floats:
        """Return the scores of a ranked policy."""
        policy = self.policy
        assert isinstance(policy, Ranked)
        return self._call("score", lambda: policy.checked_score(round))

    def observe(self, results: Results) -> None:
        """Tell the policy what came of its choices, if it wants to know."""
        observe = getattr(self.policy, "observe", None)
        if observe is not None:
            self._guarded(lambda: self._call("observe", lambda: observe(results)), None)

    @property
    def observes(self) -> bool:
        """True if the policy wants to know what came of its choices."""
        return hasattr(self.policy, "observe")

    def metrics(self) -> dict[str, float]:
        """Return the numbers that the policy tells of itself, by name."""
        told = getattr(self.policy, "metrics", None)
        if told is None:
            return {}
        return self._guarded(lambda: self._call("metrics", lambda: _numbers(told())), {})

    def dump(self) -> str | None:
        """Return the state of the policy as text, or None if it has none."""
        state = getattr(self.policy, "state", None)
        if state is not None:
            self._state = self._guarded(lambda: self._call("state", lambda: encode(state())), self._state)
        return self._state

    def load(self, text: str | None) -> None:
        """Restore the state that `dump` returned."""
        restore = getattr(self.policy, "restore", None)
        if text is not None and restore is not None:
            self._state = text
            self._guarded(lambda: self._call("restore", lambda: restore(decode([text])[0])), None)

    def __getstate__(self) -> dict[str, Any]:
        # With the state as every other host keeps it, for a policy that is made anew (`attach`).
        state = self.dump()
        return vars(self) | {"_state": state}

    def attach(self, policy: Policy) -> None:
        """Go on with a policy that was made anew and gets the state of the one before, if it has the same name."""
        state = self._state if policy.name == self.policy.name else None
        self.policy, self._state = policy, None
        self.load(state)

    def _begin(self, now: int) -> None:
        if now != self._now:
            self._now, self.error = now, ""

    def _checked(self, policy: Policy, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        try:
            selection = policy.select(round, budget, rng)
        except Exception as error:
            raise as_policy_error(policy, "select", error, self.context) from error
        check_selection(policy, selection, round, budget, self.context)
        return selection

    def _call(self, method: str, call: Callable[[], Outcome]) -> Outcome:
        """Return the result of a method; raise PolicyError, which names the line that failed, for any exception."""
        try:
            return call()
        except Exception as error:
            raise as_policy_error(self.policy, method, error, self.context) from error

    def _guarded(self, call: Callable[[], Outcome], instead: Outcome) -> Outcome:
        try:
            return call()
        except PolicyError as error:
            self._count(error)
            return instead

    def _count(self, error: PolicyError) -> None:
        """Raise the error unless errors are skipped; a round counts once, however many methods fail in it."""
        if not self.skips_errors:
            raise error
        if not self.error:
            self.failed_rounds += 1
            self.error = str(error)


def as_policy_error(policy: Policy, method: str, error: Exception, context: str = "") -> PolicyError:
    """Return an error that names the policy, its settings, the method and the line."""
    if isinstance(error, PolicyError):
        return error if context in str(error) else type(error)(f"{error} ({context})")
    said = " ".join(str(error).split())
    return PolicyError(
        f"{subject_of(policy, context)} raised {type(error).__name__} in {method}() at {line_of(policy, method, error)}"
        + (f": {said}" if said else "")
    )


def subject_of(policy: Policy, context: str = "") -> str:
    """Return a policy with its settings and where it ran, as the subject of a message."""
    return f"the policy {title_of(policy)!r}" + (f" ({context})" if context else "")


def line_of(policy: Policy, method: str, error: BaseException | None = None) -> str:
    """Return where a policy failed, as mine.py:12: its last line on the way to an error, or the method itself."""
    files = files_of(policy)
    frames = [] if error is None else traceback.extract_tb(error.__traceback__)
    own = [(frame.filename, frame.lineno) for frame in frames if frame.filename in files]
    if not own:
        code = inspect.unwrap(getattr(type(policy), method)).__code__
        own = [(code.co_filename, code.co_firstlineno)]
    file, line = own[-1]
    return f"{Path(file).name}:{line}"


def files_of(policy: Policy) -> set[str]:
    """Return the source files of a policy and its bases, those of freshkeeper only if there is no other."""
    modules = [sys.modules.get(kind.__module__) for kind in type(policy).__mro__[:-1]]
    files = {getattr(module, "__file__", None) or "" for module in modules}
    return {file for file in files if FRESHKEEPER not in Path(file).parents} or files


def check_selection(policy: Policy, selection: Selection, round: Round, budget: Budget, context: str = "") -> None:
    """Raise PolicyError for a choice of strangers, duplicates, NaN or beyond the budget, or of a wrong type."""
    fault = _fault_of_form(selection) or _fault_of_choice(selection, round)
    if fault:
        raise BadSelectionError(f"{subject_of(policy, context)} {fault}")
    cost = float(round.cost[selection.chosen].sum())
    if policy.keeps_budget and cost > budget.available + SLACK:
        raise OverspentError(
            f"{subject_of(policy, context)} chose {selection.chosen.size} entries for {cost:g} cost units; "
            f"the budget of this evaluation is {budget.available:g}"
        )


def _fault_of_form(selection: object) -> str:
    """Return what is wrong with the types and shapes of a selection; empty if nothing is."""
    if not isinstance(selection, Selection):
        return f"must return a Selection, not {_brief(selection)}"
    chosen, scores = selection.chosen, selection.scores
    if not isinstance(chosen, np.ndarray) or chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        return f"must choose entry numbers, a numpy array of integers in one dimension, not {_brief(chosen)}"
    if not isinstance(scores, np.ndarray) or scores.dtype.kind not in "iuf" or scores.ndim != 1:
        return f"must give scores as a numpy array of numbers in one dimension, not {_brief(scores)}"
    if scores.size != chosen.size:
        return f"gave {scores.size} scores for {chosen.size} choices"
    if scores.dtype.kind == "f" and math.isnan(scores.dot(scores)):  # of squares only a NaN makes NaN
        return f"gave the score NaN to entry {int(chosen[np.isnan(scores)][0])}"
    return ""


def _fault_of_choice(selection: Selection, round: Round) -> str:
    """Return which entry cannot be chosen and why; empty if all can."""
    chosen = selection.chosen
    ordered = np.sort(chosen)
    if ordered.size and (ordered[0] < 0 or ordered[-1] >= round.srs):
        strangers = chosen[(chosen < 0) | (chosen >= round.srs)]
        return f"chose entry {int(strangers[0])}, the round has 0 to {round.srs - 1}"
    repeated = ordered[1:] == ordered[:-1]
    return f"chose entry {int(ordered[1:][repeated][0])} more than once" if repeated.any() else ""


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with the shape {value.shape}"
    return repr(value) if value is None else f"{type(value).__name__} {repr(value)[:60]}"


def _numbers(told: Mapping[str, Any]) -> dict[str, float]:
    numbers = {str(name): float(value) for name, value in told.items()}
    wrong = [name for name, value in numbers.items() if math.isnan(value)]
    if wrong:
        raise ValueError(f"{wrong[0]} is NaN")
    return numbers
