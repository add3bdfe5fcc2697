"""One evaluation from end to end: the only place where window, view, graph, policy, budget and source meet.

    arrivals ─▶ window ─▶ graph ─▶ round ─▶ policy ─▶ selection ─▶ endpoint ─▶ view ─▶ answers and a record

`evaluate` does it all. `decide`, `fetch` and `conclude` are its three parts, for those who fetch in their own way.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from maintenance.budget import BudgetRule, Ledger
from maintenance.evaluation import Answers, Decision, Evaluation, Record, Refreshes
from maintenance.graph import MaintenanceGraph
from maintenance.selection import check_handles, check_selection, whole_requests
from maintenance.service.endpoint import Copy, Endpoint, Expanded, Late, Order, Remote, deliver
from maintenance.view.changes import Beliefs, ChangeModel, Evidence
from maintenance.view.table import Miss, View
from maintenance.window import Window, WindowSpec
from policies.arrays import Bools, Floats, Ids, Ints
from policies.base import NEVER, Budget, Case, Policy, Results, Round, Scope, Selection
from policies.errors import InputError, TimeError

LONGEST_HORIZON = 64
"""H is cut here: a window of more steps is planned for only so far ahead."""


@dataclass(eq=False)
class Manager:
    """Keeps a local view of one source fresh for one window, within a budget."""

    window: WindowSpec
    endpoint: Endpoint | Remote
    policy: Policy
    budget: BudgetRule
    model: ChangeModel
    case: Case = Case.BGP
    capacity: int | None = None
    seed: int | np.random.SeedSequence = 0
    answers: bool = True
    """whether evaluations carry their answers; without, only their numbers"""
    timer: Callable[[], int] = time.perf_counter_ns
    view: View = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Wire the parts, and refuse a policy that cannot work here."""
        check_handles(self.policy, self.case, self.model.knowledge)
        self.horizon = max(1, min(LONGEST_HORIZON, self.window.span * self.policy.reach))
        self.content = Window(self.window, LONGEST_HORIZON)
        self.graph = MaintenanceGraph(self.content)
        self.view = View(self.graph, self.model, self.capacity)
        self.ledger = Ledger(self.budget, overdraft=not self.policy.honest)
        self._rng = np.random.default_rng(self.seed)
        self._now: int | None = None
        self._pace: tuple[int, int] | None = None

    def evaluate(self, now: int, mappings: Iterable[tuple[int, Hashable]] = ()) -> Evaluation:
        """Evaluate at `now`, after the arrivals (time, SN) since the last evaluation."""
        pairs = list(mappings)
        times = self._times(now, [at for at, _ in pairs])
        return self.evaluate_slots(now, times, self.view.sn_slots([sn for _, sn in pairs]))

    def evaluate_slots(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Evaluation:
        """The same for arrivals whose SNs are slots of the view already."""
        decision = self.decide(now, at, sns, identity)
        return self.conclude(decision, self.fetch(decision))

    def decide(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Decision:
        """Move the window, build the round, let the policy choose; nothing is fetched or spent yet."""
        began = self.timer()
        self._check_time(now)
        self._advance(now, at, sns, identity)
        budget = self._budget(now)
        srs, round = self._round(now)
        selection = self.policy.select(round, budget, self._rng)
        check_selection(self.policy, round, selection, budget)
        chosen = Selection(srs[selection.chosen].astype(np.int32), selection.scores, selection.reason)
        if not self.ledger.overdraft:
            chosen = whole_requests(chosen, self._missing(chosen.chosen), self.endpoint.price, budget.available)
        counts = self.content.counts(self.graph.sns)
        present = np.flatnonzero(counts)
        taken = (self.timer() - began) / 1e3
        return Decision(
            self._k,
            now,
            round,
            srs,
            present,
            counts[present].astype(np.int64),
            chosen,
            budget,
            self.content.size,
            taken,
        )

    def fetch(self, decision: Decision) -> Refreshes:
        """Fetch what was chosen, pay for it, and put what came into the view."""
        began = self.timer()
        chosen = decision.selection.chosen
        keys = [self.view.srs.keys[slot] for slot in chosen.tolist()]
        plain = [key for key in keys if not isinstance(key, Miss)]
        missed = [key.sn for key in keys if isinstance(key, Miss)]
        allowance = math.inf if self.ledger.overdraft else float(self.ledger.available)
        delivery = deliver(self.endpoint, Order(decision.now, plain, missed, allowance))
        self.ledger.spend(delivery.spent)
        late = self._receive_late(delivery.late)
        copies, expanded = iter(delivery.copies), iter(delivery.expanded)
        outcome = [next(expanded) if isinstance(key, Miss) else next(copies) for key in keys]
        changed = self.receive(chosen, keys, outcome, decision.now)
        taken = (self.timer() - began) / 1e6
        return Refreshes(
            np.concatenate([chosen, np.array([slot for slot, _, _ in late], np.int32)]),
            [*keys, *(one.key for _, one, _ in late)],
            np.concatenate([decision.selection.scores, np.zeros(len(late))]),
            np.concatenate([changed, np.array([new for _, _, new in late], bool)]),
            [*(result.error for result in outcome), *(one.outcome.error for _, one, _ in late)],
            np.concatenate([np.full(chosen.size, decision.now), np.array([o.read_at for _, o, _ in late], np.int64)]),
            delivery.requests,
            delivery.spent,
            taken,
        )

    def receive(self, srs: Ids, keys: Sequence[Hashable], outcome: Sequence[Copy | Expanded], read_at: int) -> Bools:
        """Put what was fetched into the view, now or late; tells which values had changed."""
        good = np.array([result.error is None for result in outcome], bool)
        plain = good & np.array([not isinstance(key, Miss) for key in keys], bool)
        copies = [result for result in outcome if isinstance(result, Copy) and result.error is None]
        changed = np.zeros(len(keys), bool)
        changed[plain] = self._store(srs[plain], copies, read_at)
        for key, result in zip(keys, outcome, strict=True):
            if isinstance(key, Miss) and isinstance(result, Expanded) and result.error is None:
                slots = self.view.complete(key.sn, list(result.copies))
                read = np.array([copy.error is None for copy in result.copies.values()], bool)
                self._store(slots[read], [copy for copy in result.copies.values() if copy.error is None], read_at)
        if hasattr(self.policy, "observe"):
            self.policy.observe(Results(srs, good, changed, read_at))
        return changed

    def conclude(self, decision: Decision, refreshes: Refreshes) -> Evaluation:
        """Join the window with the view as it is now."""
        sn, sr = self.graph.edges_of(decision.sns)
        weight = np.repeat(decision.counts, self.graph.degrees(decision.sns))
        fresh = self._fresh_now(decision)[sr]
        if self.case is Case.AGGREGATE:
            fresh, results, expected = self._aggregates(decision, fresh)
        else:
            lost = float(weight[self._missing(sr)].sum()) * (self.view.degree - 1.0) if self.view.misses else 0.0
            results, expected = float(weight.sum()) + lost, float(weight @ fresh)
        record = Record(
            decision.k, decision.now, results, expected, decision.window_mappings,
            int(decision.round.candidates.sum()), int(decision.round.stale_candidates.sum()),
            decision.budget.available, refreshes.spent, float(self.ledger.available),
            decision.decide_us, refreshes.fetch_ms, refreshes.failed,
        )  # fmt: skip
        answers = self._answers(sn, sr, weight, fresh) if self.answers else None
        self.view.evict()
        return Evaluation(record, refreshes, answers, decision.sns, decision.counts)

    def _budget(self, now: int) -> Budget:
        """This evaluation's budget, as far as the source takes requests; what it does not take may be banked."""
        budget = self.ledger.open()
        if not isinstance(self.endpoint, Remote):
            return budget
        return replace(budget, available=min(budget.available, self.endpoint.room(now)))

    def _receive_late(self, late: Sequence[Late]) -> list[tuple[int, Late, bool]]:
        """Slot, what came, and whether it had changed; what is no longer in the view is let go."""
        known = [(self.view.srs.numbers[one.key], one) for one in late if one.key in self.view.srs.numbers]
        return [
            (slot, one, bool(self.receive(np.array([slot], np.int32), [one.key], [one.outcome], one.read_at)[0]))
            for slot, one in known
        ]

    def _times(self, now: int, times: list[int]) -> Ints:
        self._check_time(now)
        at = np.array(times, dtype=np.int64)
        if at.size and at.max() > now:
            raise TimeError(f"an arrival at {at.max()} lies after the evaluation at {now}: hand it to a later one")
        return at

    def _check_time(self, now: int) -> None:
        if self._now is not None and now <= self._now:
            raise TimeError(f"time goes backwards: evaluation at {now} after the one at {self._now}")
        if not self.window.count:
            self.window.index(now)

    def _advance(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None) -> None:
        if sns.size and (int(sns.max()) >= self.view.sns.width or int(sns.min()) < 0):
            raise InputError(f"an arrival names SN slot {int(sns.max())}; the view has {self.view.sns.width} slots")
        self.graph.extend(self.view.sns.width, self.view.srs.width)
        self.content.insert(at, sns, identity)
        self._k = self.content.due() if self.window.count else self.window.index(now)
        self.graph.apply(self.content.advance(self._k))
        self._pace = self._pace or (now, self._k)
        self._now = now

    def _instants(self, now: int) -> Ints:
        """The evaluations ahead; those of a count window at the pace seen so far."""
        step = self.window.step
        if self.window.count:
            began, first = self._pace or (now, self._k)
            step = max(1, (now - began) // max(1, self._k - first))
        return now + step * np.arange(self.horizon)

    def _round(self, now: int) -> tuple[Ints, Round]:
        """The slots that the round is about, and the round."""
        active = self.graph.active(self.policy.scope)
        srs = np.arange(self.graph.srs) if active is None else active
        last_refresh = self.view.last_refresh[srs]
        instants = self._instants(now)
        beliefs: Beliefs = self.model.beliefs(instants, last_refresh, False, active)
        expects = self.policy.scope is Scope.EXPECTED
        expected = self._with_misses(self.graph.arrivals(srs), srs) if expects else None
        return srs, Round(
            demand=self._with_misses(self.graph.demand(self.horizon, active), srs),
            fresh_if_refreshed=beliefs.refreshed,
            fresh_if_kept=beliefs.kept,
            cost=np.full(srs.size, self.endpoint.price.each),
            last_refresh=last_refresh,
            build=lambda: self.graph.structure(self.horizon, active),
            expected_arrivals=expected,
            foresee=lambda: self._changes(instants, last_refresh, active),
            case=self.case,
            knowledge=self.model.knowledge,
            now=now,
            span=self.window.span,
            keys=Keys(self.view.srs.keys, srs),
        )

    def _with_misses(self, answers: Floats, srs: Ints) -> Floats:
        """A miss stands for as many answers as an SN has on average."""
        if self.view.misses and self.case is Case.BGP:
            answers[self._missing(srs)] *= self.view.degree
        return answers

    def _missing(self, srs: Ints | Ids) -> Bools:
        """Which of these slots are placeholders."""
        misses = np.fromiter(self.view.misses, np.int64, len(self.view.misses))
        found: Bools = np.isin(srs, misses)
        return found

    def _changes(self, instants: Ints, last_refresh: Ints, active: Ints | None) -> Floats:
        change = self.model.beliefs(instants, last_refresh, True, active).change
        assert change is not None
        return change

    def _store(self, slots: Ids, copies: Sequence[Copy], now: int) -> Bools:
        """New copies into the view; one that was read before the one held comes too late to be of use."""
        previous = self.view.last_refresh[slots]
        if (previous > now).any():
            newer, changed = previous <= now, np.zeros(len(slots), bool)
            changed[newer] = self._store(slots[newer], [copies[n] for n in np.flatnonzero(newer).tolist()], now)
            return changed
        changed = self.view.store(slots, [copy.value for copy in copies], now)
        modified = np.array([copy.modified for copy in copies], dtype=np.int64)
        expires = np.array([copy.expires for copy in copies], dtype=np.int64)
        self.model.observe(Evidence(slots, now, previous, changed, modified, expires))
        return changed

    def _fresh_now(self, decision: Decision) -> Floats:
        """The probability that each copy is fresh at the evaluation, by slot: 1 for what was read at it."""
        refreshed = self.view.last_refresh
        fresh = np.zeros(refreshed.size)
        fresh[decision.srs] = decision.round.fresh_if_kept[:, 0]
        fresh[refreshed >= decision.now] = 1.0
        fresh[refreshed == NEVER] = 0.0
        return fresh

    def _aggregates(self, decision: Decision, fresh: Floats) -> tuple[Floats, float, float]:
        """An aggregate is fresh when all its inputs are; per edge, and how many there are and are expected fresh."""
        degrees = self.graph.degrees(decision.sns)
        connected = degrees > 0
        starts = (np.cumsum(degrees) - degrees)[connected]
        whole = np.zeros(degrees.size)
        if starts.size:
            whole[connected] = np.multiply.reduceat(fresh, starts)
        counts = decision.counts[connected]
        return np.repeat(whole, degrees), float(counts.sum()), float(counts @ whole[connected])

    def _answers(self, sn: Ints, sr: Ids, weight: Ints, fresh: Floats) -> Answers:
        held = self.view.last_refresh[sr] != NEVER
        sn, sr = sn[held], sr[held]
        sns, srs, values = self.view.sns.keys, self.view.srs.keys, self.view.values
        numbers = sr.tolist()
        return Answers(
            sn, sr, weight[held], self.view.last_refresh[sr], fresh[held],
            [sns[n] for n in sn.tolist()], [srs[n] for n in numbers], [values[n] for n in numbers],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Keys(Sequence[object]):
    """The sources' keys of some slots, looked up only when somebody asks."""

    keys: Sequence[object]
    slots: Ints

    def __len__(self) -> int:
        """How many."""
        return self.slots.size

    @overload
    def __getitem__(self, number: int) -> object: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[object]: ...

    def __getitem__(self, number: int | slice) -> object:
        """The key of a number, or of several."""
        if isinstance(number, slice):
            return [self.keys[slot] for slot in self.slots[number].tolist()]
        return self.keys[int(self.slots[number])]
