"""The round of one evaluation: what the policy sees, built from graph, view and change knowledge."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, overload

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints, Kinds
from freshkeeper.maintenance.base.term_text import key_as_text
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.fetching.endpoint import EntryId, Price
from freshkeeper.policies.base import Budget, Case, Round, Scope
from freshkeeper.policies.runner import PolicyRunner

LONGEST_HORIZON = 64
"""H is cut here: a window of more steps is planned for only so far ahead."""

KeyText: TypeAlias = Callable[[int, Hashable], str]
"""Writes the key of an entry of a kind as policies and journals have it."""


def plain_key_text(kind: int, key: Hashable) -> str:
    """Write a source's key, whatever its kind."""
    del kind
    return key_as_text(key)


@dataclass(eq=False)
class RoundBuilder:
    """Builds a round for every evaluation."""

    window: WindowSpec
    view: View
    model: ChangeModel
    runner: PolicyRunner
    case: Case
    key_text: KeyText = plain_key_text
    horizon: int = field(init=False)
    _pace: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.horizon = max(1, min(LONGEST_HORIZON, self.window.span * self.runner.policy.reach))

    def build(self, now: int, k: int, price: Price, of_misses: Price | None = None) -> tuple[Ints, Round]:
        """Return the slots of the round and the round; `of_misses` is the price of lookup keys that are not there."""
        graph = self.view.graph
        scope = self.runner.policy.scope
        active = graph.active(scope)
        srs = np.arange(graph.srs) if active is None else active
        last_refresh = self.view.last_refresh[srs]
        instants = self._instants(now, k)
        beliefs = self.model.beliefs(instants, last_refresh, False, active)
        expects, kinds = scope is Scope.EXPECTED, self.view.kinds[srs]
        return srs, Round(
            demand=self._with_misses(graph.demand(self.horizon, active), srs),
            fresh_if_refreshed=beliefs.refreshed,
            fresh_if_kept=beliefs.kept,
            cost=self._costs(srs, price.key_price, price.key_price if of_misses is None else of_misses.key_price),
            last_refresh=last_refresh,
            build=lambda: graph.structure(self.horizon, active),
            expected_arrivals=self._with_misses(graph.arrivals(srs), srs) if expects else None,
            foresee=lambda: self._changes(instants, last_refresh, active),
            case=self.case,
            knowledge=self.model.knowledge,
            now=now,
            span=self.window.span,
            keys=Keys(self.view.srs.keys, srs, kinds, self.key_text),
            kinds=kinds,
        )

    def _costs(self, srs: Ints, each: float, missing: float) -> Floats:
        cost = np.full(srs.size, each)
        if missing != each:
            cost[self.view.missing(srs)] = missing
        return cost

    def without(self, resting: Iterable[EntryId], srs: Ints, round: Round, budget: Budget) -> Round:
        """Price entries in back-off above the budget, so that no policy chooses them."""
        by_kind = self.view.srs.by_kind
        slots = [by_kind[kind][key] for kind, key in resting if key in by_kind[kind]]
        if not slots:
            return round
        return replace(round, cost=np.where(np.isin(srs, slots), budget.available + round.cost + 1, round.cost))

    def _instants(self, now: int, k: int) -> Ints:
        """Return the evaluations ahead; those of a count window at the pace seen so far."""
        step = self.window.step
        self._pace = self._pace or (now, k)
        if self.window.count:
            began, first = self._pace
            step = max(1, (now - began) // max(1, k - first))
        return now + step * np.arange(self.horizon)

    def _with_misses(self, answers: Floats, srs: Ints) -> Floats:
        """Count a miss as many answers as a lookup key has on average."""
        if self.view.misses and self.case is Case.BGP:
            answers[self.view.missing(srs)] *= self.view.degree
        return answers

    def _changes(self, instants: Ints, last_refresh: Ints, active: Ints | None) -> Floats:
        change = self.model.beliefs(instants, last_refresh, True, active).change
        assert change is not None
        return change


@dataclass(frozen=True, eq=False)
class Keys(Sequence[str]):
    """The keys of some slots as text, written only when somebody asks."""

    keys: Sequence[Hashable]
    slots: Ints
    kinds: Kinds
    key_text: KeyText

    def __len__(self) -> int:
        return self.slots.size

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[str]: ...

    def __getitem__(self, number: int | slice) -> str | Sequence[str]:
        if isinstance(number, slice):
            kinds, slots = self.kinds[number].tolist(), self.slots[number].tolist()
            return [self.key_text(kind, self.keys[slot]) for kind, slot in zip(kinds, slots, strict=True)]
        return self.key_text(int(self.kinds[number]), self.keys[int(self.slots[number])])
