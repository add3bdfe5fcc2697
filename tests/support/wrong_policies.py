"""Wrong policies, each as an author could write it by mistake; the contract catches every one of them."""

import datetime
import random
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from freshkeeper import BasePolicy, Budget, Ranked, Round, Selection
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import NEVER, Results, Scope
from freshkeeper.policies.choose import best


def stalest(round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
    """A choice that is in order."""
    return best(round.staleness, round.stale_candidates, round.cost, budget.available, rng)


class Overspends(BasePolicy):
    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        affordable = np.flatnonzero(round.stale_candidates & (round.cost <= max(2.0, budget.available)))
        chosen = affordable.astype(np.int32)[: int(budget.available)]
        return Selection(chosen, np.ones(chosen.size))


class WritesDemand(Ranked):
    def score(self, round: Round) -> Floats:
        round.demand[:, 0] *= round.staleness  # line: writes demand
        return np.where(round.stale_candidates, round.demand[:, 0], -np.inf)


class WritesExpected(Ranked):
    scope = Scope.EXPECTED

    def score(self, round: Round) -> Floats:
        worth = round.expected_demand
        worth[:, 0] = 0.0  # line: writes expected
        return np.where(round.stale_candidates, worth.sum(axis=1), -np.inf)


class WritesMasks(Ranked):
    def score(self, round: Round) -> Floats:
        round.stale_candidates[round.kinds == 1] = False  # line: writes masks
        return np.where(round.stale_candidates, round.staleness, -np.inf)


class OwnNumpyGenerator(Ranked):
    def score(self, round: Round) -> Floats:
        noise = np.random.default_rng(3).random(round.srs)  # line: own numpy generator
        return np.where(round.stale_candidates, round.staleness + noise, -np.inf)


class ModuleRandom(Ranked):
    def score(self, round: Round) -> Floats:
        noise = [random.random() for _ in range(round.srs)]  # line: module random
        return np.where(round.stale_candidates, round.staleness + noise, -np.inf)


@dataclass
class KeptGenerator(Ranked):
    rng: Any = field(default_factory=np.random.default_rng, init=False)  # line: kept generator

    def score(self, round: Round) -> Floats:
        return np.where(round.stale_candidates, self.rng.random(round.srs), -np.inf)


class SaltedHash(Ranked):
    waives = frozenset()

    def score(self, round: Round) -> Floats:  # line: salted hash
        order = np.array([hash(key) % 1000 for key in round.keys], float) / 1e6
        return np.where(round.stale_candidates, round.staleness + order, -np.inf)


class SetOrder(BasePolicy):
    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:  # line: set order
        keys = [round.keys[n] for n in np.flatnonzero(round.stale_candidates & (round.staleness >= 1)).tolist()]
        chosen = [round.keys.index(key) for key in list(set(keys))]
        affordable = np.cumsum(round.cost[chosen]) <= budget.available
        return Selection(np.array(chosen, np.int32)[affordable], np.ones(int(affordable.sum())))


class WallClock(Ranked):
    def score(self, round: Round) -> Floats:
        age = time.time() - round.last_refresh / 1000  # line: wall clock
        return np.where(round.stale_candidates, age, -np.inf)


class WallDate(Ranked):
    def score(self, round: Round) -> Floats:
        at = datetime.datetime.now(tz=datetime.UTC).timestamp()  # line: wall date
        return np.where(round.stale_candidates, at - round.last_refresh, -np.inf)


class NanScores(Ranked):
    def score(self, round: Round) -> Floats:  # line: nan scores
        with np.errstate(invalid="ignore", divide="ignore"):
            return round.demand[:, 0] * round.staleness / round.demand[:, 0]


class NanSelection(BasePolicy):
    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:  # line: nan selection
        chosen = stalest(round, budget, rng).chosen
        with np.errstate(invalid="ignore"):
            return Selection(chosen, np.zeros(chosen.size) / np.zeros(chosen.size))


class KeepsRounds(BasePolicy):
    def __init__(self) -> None:
        self.history: list[Round] = []

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        self.history.append(round)
        return stalest(round, budget, rng)


class KeepsArrays(BasePolicy):
    def __init__(self) -> None:
        self.before: Any = None

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        self.before = round.demand  # line: keeps arrays
        return stalest(round, budget, rng)


class ReusesNumbers(BasePolicy):
    """Fetches what it chose last time once more, if there is such a number."""

    def __init__(self) -> None:
        self.last: list[int] = []

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:  # line: reuses numbers
        scores = round.staleness.copy()
        scores[[number for number in self.last if number < round.srs]] *= 0.1
        chosen = best(scores, round.stale_candidates, round.cost, budget.available, rng)
        self.last = chosen.chosen.tolist()
        return chosen

    def state(self) -> Any:
        return self.last

    def restore(self, state: Any) -> None:
        self.last = state


class ForgetsItsState(BasePolicy):
    """Remembers without a state that survives a restart."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:  # line: forgets its state
        known = np.array([key in self.seen for key in round.keys], bool)
        return best(
            round.staleness * np.where(known, 0.1, 1), round.stale_candidates, round.cost, budget.available, rng
        )

    def observe(self, results: Results) -> None:
        self.seen.update(results.keys)


class Stateful(BasePolicy):
    """Counts what has changed, in order."""

    def __init__(self) -> None:
        self.changes: dict[str, int] = {}

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        bonus = np.array([1 + self.changes.get(key, 0) for key in round.keys])
        return best(round.staleness * bonus, round.stale_candidates, round.cost, budget.available, rng)

    def observe(self, results: Results) -> None:
        for key, changed in zip(results.keys, results.changed.tolist(), strict=True):
            self.changes[key] = self.changes.get(key, 0) + changed

    def state(self) -> Any:
        return self.changes

    def restore(self, state: Any) -> None:
        self.changes = state


class ObserveRaises(Stateful):
    def observe(self, results: Results) -> None:
        for key in results.keys:
            self.changes[key] += 1  # line: observe raises


class StateRaises(Stateful):
    def state(self) -> Any:
        return {"mean": sum(self.changes.values()) / 0}  # line: state raises


class StateCannotBeWritten(Stateful):
    def state(self) -> Any:  # line: state cannot be written
        return {"changes": self.changes, "lock": object()}


class RestoreRaises(Stateful):
    def restore(self, state: Any) -> None:
        self.changes = state["changes"]  # line: restore raises


class RestoresWrongly(Stateful):
    def restore(self, state: Any) -> None:  # line: restores wrongly
        self.changes = dict.fromkeys(state, 0)


class NeedsArrivals(Ranked):
    def score(self, round: Round) -> Floats:
        arrivals: Any = round.expected_arrivals
        return np.where(round.stale_candidates, 1 + 2 * arrivals, -np.inf)  # line: needs arrivals


@dataclass
class Returns(BasePolicy):
    """Returns its choice in a wrong form."""

    form: str = "nothing"

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:  # line: returns
        selection = stalest(round, budget, rng)
        chosen: Any = selection.chosen
        if self.form == "nothing":
            chosen = None
        elif self.form == "array":
            return chosen  # type: ignore[no-any-return]
        elif self.form == "list":
            chosen = chosen.tolist()
        elif self.form == "floats":
            chosen = chosen.astype(float)
        elif self.form == "mask":
            chosen = np.isin(np.arange(round.srs), chosen)
        elif self.form == "column":
            chosen = chosen[:, None]
        elif self.form == "twice":
            chosen = np.concatenate([chosen[:1], chosen])[: chosen.size]
        elif self.form == "strangers":
            chosen = chosen + round.srs
        return Selection(chosen, selection.scores)


class ReturnsNothing(BasePolicy):
    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:  # line: returns nothing
        return None  # type: ignore[return-value]


class RefreshesFresh(BasePolicy):
    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        return best(1.0 - round.staleness, round.last_refresh != NEVER, round.cost, budget.available, rng)


class WrongCases(Stateful):
    cases = frozenset({"bgp"})  # type: ignore[arg-type]
