"""One evaluation from end to end: the only place where window, view, graph, policy, budget and source meet.

    arrivals ─▶ window ─▶ graph ─▶ round ─▶ policy ─▶ selection ─▶ endpoint ─▶ view ─▶ answers and a record

`evaluate` does it all. `decide`, `fetch` and `conclude` are its three parts, for those who fetch in their own way.
Where views share a budget `decide` has three of its own, `look`, `bid` and `choose` (`evaluate_together.py`).
"""

import math
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from freshkeeper.maintenance.budget.audit import Audit, Auditor, Draws, Sampled, still_fresh
from freshkeeper.maintenance.budget.controller import AUDITS, Observed
from freshkeeper.maintenance.budget.ledger import Amount, BudgetRule, Ledger
from freshkeeper.maintenance.budget.selection import check_handles, check_selection, whole_requests
from freshkeeper.maintenance.budget.shared_budget import Member
from freshkeeper.maintenance.budget.target_ledger import TargetLedger
from freshkeeper.maintenance.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON, RoundBuilder
from freshkeeper.maintenance.demand.window import Window, WindowSpec
from freshkeeper.maintenance.demand.window_counts import WindowCounts
from freshkeeper.maintenance.evaluation import Answers, Decision, Evaluation, Join, Prospect, Record, Refreshes, Regular
from freshkeeper.maintenance.service.asking import Waiting, finished
from freshkeeper.maintenance.service.endpoint import (
    Choosy,
    Copy,
    Endpoint,
    Expanded,
    Late,
    Order,
    Overlapping,
    Remote,
    delivering,
    miss_price,
)
from freshkeeper.maintenance.service.given_source import Given, source_of
from freshkeeper.maintenance.view.changes import ChangeModel, Evidence, TellsClocks
from freshkeeper.maintenance.view.local_view import View
from freshkeeper.policies.arrays import Bools, Floats, Ids, Ints
from freshkeeper.policies.base import NEVER, Budget, Case, Kind, Policy, Results, Round, Selection
from freshkeeper.policies.errors import ConfigError, InputError, TimeError
from freshkeeper.policies.registry import make

LONGEST_WAIT = 1_000
"""Evaluations that are remembered for what may still come of what they asked for."""


@dataclass(eq=False)
class Manager:
    """Keeps a local view of one source fresh for one window, within a budget.

    >>> from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
    >>> source = InMemory({"jazz": ["ann", "bob"]}, {"ann": 10, "bob": 20})
    >>> manager = Manager(WindowSpec(4000, 1000), source, policy("gain"), BudgetRule.of(1), Learned())
    >>> sorted((answer.entry, answer.value) for answer in manager.evaluate(1000, [(900, "jazz")]).answers)
    [('ann', 10), ('bob', 20)]
    """

    window: WindowSpec
    endpoint: Endpoint | Remote
    """or a function, or anything with `fetch(keys)` (docs/writing-a-source.md)"""
    policy: Policy
    """or its name"""
    budget: BudgetRule | Ledger
    """or the requests of an evaluation"""
    model: ChangeModel
    case: Case = Case.BGP
    capacity: int | None = None
    seed: int | np.random.SeedSequence = 0
    answers: bool = True
    """whether evaluations carry their answers; without, they are told when somebody asks"""
    audit: Amount = 0
    """the share of the budget that checks how fresh the answers are; with a target a tenth unless said otherwise"""
    target: float | None = None
    """the share of answers that is to be fresh: the budget is then the most that an evaluation may cost"""
    timer: Callable[[], int] = time.perf_counter_ns
    view: View = field(init=False)
    ledger: Ledger = field(init=False)

    if TYPE_CHECKING:  # what can be said, of which what it comes to is kept

        def __init__(
            self, window: WindowSpec, endpoint: Given, policy: Policy | str, budget: BudgetRule | Ledger | Amount,
            model: ChangeModel, case: Case = ..., capacity: int | None = ..., seed: int | np.random.SeedSequence = ...,
            answers: bool = ..., audit: Amount = ..., target: float | None = ..., timer: Callable[[], int] = ...,
        ) -> None: ...  # fmt: skip

    def __post_init__(self) -> None:
        """Wire the parts, and refuse a policy that cannot work here."""
        if self.window.step > self.window.range:
            warnings.warn(_gap(self.window), stacklevel=3)
        self.endpoint = source_of(self.endpoint)
        self.policy = make(self.policy) if isinstance(self.policy, str) else self.policy
        self.budget = _rule_of(self.budget)
        check_handles(self.policy, self.case, self.model.knowledge)
        self.content = Window(self.window, LONGEST_HORIZON)
        self.graph = MaintenanceGraph(self.content)
        self.view = View(self.graph, self.model, self.capacity)
        self.rounds = RoundBuilder(self.window, self.view, self.model, self.policy, self.case)
        self.ledger = self._ledger_of(self.budget)
        self.audit = self.audit or (AUDITS if isinstance(self.ledger, TargetLedger) else 0)
        self.ledger.overdraft = not self.policy.keeps_budget
        self.rng = np.random.default_rng(self.seed)
        self.auditor = Auditor.of(self.audit, self.case, self.rng.spawn(1)[0]) if self.audit else None
        self._now: int | None = None
        self._overtaken = False
        self._one_by_one = RLock()
        self._asked: dict[int, int] = {}

    def __getstate__(self) -> dict[str, object]:
        """All but its lock, which belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "_one_by_one"}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """With a lock of its own."""
        self.__dict__.update(state, _one_by_one=RLock())

    def evaluate(self, now: int, mappings: Iterable[tuple[int, Hashable]] = ()) -> Evaluation:
        """Evaluate at `now`, after the arrivals (time, SN) since the last evaluation."""
        with self._one_by_one:
            decision = self.choose(self.look(now, mappings))
            return self.conclude(decision, self.fetch(decision))

    def evaluate_slots(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Evaluation:
        """The same for arrivals whose SNs are slots of the view already."""
        with self._one_by_one:
            decision = self.decide(now, at, sns, identity)
            return self.conclude(decision, self.fetch(decision))

    def decide(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Decision:
        """Move the window, build the round, let the policy choose; nothing is fetched or spent yet."""
        return self.choose(self.look_slots(now, at, sns, identity))

    def look(self, now: int, mappings: Iterable[tuple[int, Hashable]] = ()) -> Prospect:
        """Move the window to `now`, with what arrived, and build the round; there is no money yet."""
        pairs = list(mappings)
        times = self._times(now, [at for at, _ in pairs])
        return self.look_slots(now, times, self.view.sn_slots([sn for _, sn in pairs]))

    def look_slots(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Prospect:
        """The same for arrivals whose SNs are slots of the view already."""
        began = self.timer()
        self._check_time(now)
        self._advance(now, at, sns, identity)
        counts = self.content.counts(self.graph.sns)
        present = np.flatnonzero(counts)
        srs, round = self.rounds.build(now, self._k, self.endpoint.price, miss_price(self.endpoint))
        weights = counts[present].astype(np.int64)
        return Prospect(self._k, now, round, srs, present, weights, (self.timer() - began) / 1e3)

    def bid(self, prospect: Prospect) -> None:
        """Of a shared budget: what requests would bring here, before it is parted; nothing where that cannot be said.

        The policy chooses as if all the money were its own, on copies: the choice that counts is made with its part.
        """
        valued = self.case in getattr(self.policy, "scores_answers", ())
        if not isinstance(self.ledger, Member) or not valued or self.ledger.overdraft:
            return
        budget = self._as_source_takes(self.ledger.foreseen(prospect.now), prospect.now)
        round = self._without_resting(prospect.srs, prospect.round, budget)
        wanted = deepcopy(self.policy).select(round, budget, deepcopy(self.rng))
        check_selection(self.policy, round, wanted, budget)
        self.ledger.bid(wanted.scores, round.cost[wanted.chosen])

    def choose(self, prospect: Prospect) -> Decision:
        """Open the budget and let the policy choose."""
        began = self.timer()
        budget = self._as_source_takes(self.ledger.open(prospect.now), prospect.now)
        draws = self._draw(prospect, budget)
        budget = replace(budget, available=budget.available - draws.cost)
        round = self._without_resting(prospect.srs, prospect.round, budget)
        selection = self.policy.select(round, budget, self.rng)
        check_selection(self.policy, round, selection, budget)
        chosen = Selection(prospect.srs[selection.chosen].astype(np.int32), selection.scores, selection.reason)
        if not self.ledger.overdraft:
            missing, price = self.view.missing(chosen.chosen), self.endpoint.price
            chosen = whole_requests(chosen, missing, price, budget.available, miss_price(self.endpoint))
        taken = prospect.looked_us + (self.timer() - began) / 1e3
        return Decision(
            prospect.k,
            prospect.now,
            round,
            prospect.srs,
            prospect.sns,
            prospect.counts,
            draws,
            chosen,
            budget,
            self.content.size,
            taken,
        )

    def reserve(self, decision: Decision) -> None:
        """Others decide before this is fetched: what it costs at most is kept for it, of budget and source."""
        if self.ledger.overdraft:
            return
        kinds, extra = self.view.kinds[decision.selection.chosen], decision.draws.srs.size
        plain = int(np.count_nonzero(kinds == Kind.COPY)) + extra
        cost = self.endpoint.price.of(plain) + miss_price(self.endpoint).of(kinds.size + extra - plain)
        self.ledger.keep(cost)
        if isinstance(self.endpoint, Overlapping):
            self.endpoint.book(cost)

    def fetch(self, decision: Decision) -> Refreshes:
        """Fetch what was chosen, pay for it, and put what came into the view."""
        return finished(self.fetching(decision))

    def fetching(self, decision: Decision) -> Waiting[Refreshes]:
        """The same, pausing while requests are on their way."""
        began = self.timer()
        chosen = decision.selection.chosen
        kinds, keys = self.view.kinds[chosen], [self.view.srs.keys[slot] for slot in chosen.tolist()]
        plain, missed, edges = ([keys[n] for n in np.flatnonzero(kinds == kind).tolist()] for kind in Kind)
        allowance = math.inf if self.ledger.overdraft else float(self.ledger.available)
        extra = np.setdiff1d(decision.draws.srs, chosen).tolist()
        wanted = [*plain, *(self.view.srs.keys[slot] for slot in extra)]
        delivery = yield from delivering(self.endpoint, Order(decision.now, wanted, missed, allowance, edges))
        self.ledger.spend(delivery.spent)
        late = self._receive_late(delivery.late)
        came: tuple[Iterator[Copy | Expanded], ...]
        came = iter(delivery.copies), iter(delivery.expanded), iter(delivery.edges)
        outcome = [next(came[kind]) for kind in kinds.tolist()]
        shares = [iter(of_kind) for of_kind in delivery.shares]
        sent = np.array([next(shares[kind]) for kind in kinds.tolist()], np.float64)
        changed = self.receive(chosen, keys, outcome, decision.now)
        taken = (self.timer() - began) / 1e6
        at, errors = np.full(chosen.size, decision.now), [result.error for result in outcome]
        self._remember(decision, errors)
        return Refreshes(
            chosen, kinds, keys, decision.selection.scores, changed, errors, at, sent,
            np.full(chosen.size, decision.k), at, np.zeros(chosen.size, bool), delivery.requests, delivery.spent, taken,
            dict(zip(extra, delivery.copies[len(plain) :], strict=True)),
        ).with_late(late)  # fmt: skip

    def receive(self, srs: Ids, keys: Sequence[Hashable], outcome: Sequence[Copy | Expanded], read_at: int) -> Bools:
        """Put what was fetched into the view, now or late; tells which values had changed."""
        self._overtaken |= self._now is not None and read_at < self._now
        good = np.array([result.error is None for result in outcome], bool)
        plain = good & np.array([isinstance(result, Copy) for result in outcome], bool)
        copies = [result for result in outcome if isinstance(result, Copy) and result.error is None]
        changed = np.zeros(len(keys), bool)
        changed[plain] = self._store(srs[plain], copies, read_at)
        brought: dict[int, Copy] = {}  # lookup keys that were fetched together share entries
        for key, result in zip(keys, outcome, strict=True):
            if isinstance(result, Expanded) and result.error is None:
                slots = self.view.complete(key, list(result.copies), result.edges is not None).tolist()
                copies = [*result.copies.values(), *([] if result.edges is None else [result.edges])]
                brought |= {slot: copy for slot, copy in zip(slots, copies, strict=True) if copy.error is None}
        if brought:
            self._store(np.array(list(brought), np.int32), list(brought.values()), read_at)
        if hasattr(self.policy, "observe"):
            self.policy.observe(Results(srs, good, changed, read_at, tuple(keys), self.view.kinds[srs]))
        return changed

    def conclude(self, decision: Decision, refreshes: Refreshes, again: bool = False) -> Evaluation:
        """Join the window with the view as it is now: of what windows need, all that is counted is kept by SR."""
        needed = self._needed(decision)
        copies = self._fresh_now(decision, needed)
        whole, refreshed = self.case is Case.AGGREGATE, self.view.last_refresh
        join = Join(decision.now, self.graph, decision.sns, decision.counts, copies, whole, refreshed)
        if whole:
            results, expected = float(join.counts[join.degrees > 0].sum()), float((join.counts * join.wholes).sum())
        else:
            lost = float(needed[list(self.view.misses.values())].sum()) * (self.view.degree - 1.0)
            results, expected = float(needed.sum()) + lost, float((needed * copies).sum())
        audits = self._audited(decision, refreshes)
        if isinstance(self.ledger, TargetLedger) and not again:
            weights, fresh = (join.counts * (join.degrees > 0), join.wholes) if whole else (needed, copies)
            self.ledger.controller.note(
                self._observed(decision, refreshes, audits, weights.astype(np.float64), fresh, copies)
            )
        record = Record(
            decision.k, decision.now, results, expected, decision.window_mappings,
            int(decision.round.candidates.sum()), int(decision.round.stale_candidates.sum()),
            decision.budget.available + decision.draws.cost, refreshes.spent, float(self.ledger.available),
            decision.decide_us, refreshes.fetch_ms, refreshes.failed, refreshes.requests,
            int(needed[self.view.last_refresh == NEVER].sum()),
        )  # fmt: skip
        answers = self._answered(join) if self.answers else None
        self.view.evict()
        join = self._keep_audited(refreshes.audited, join)
        return Evaluation(record, refreshes, answers, join, decision.sns, decision.counts, audits)

    def _observed(
        self, decision: Decision, refreshes: Refreshes, audits: Sequence[Audit], weights: Floats, fresh: Floats,
        copies: Floats,
    ) -> Observed:  # fmt: skip
        """What a controller sees: whether copies that were replaced, and answers that were checked, were fresh."""
        kept = np.full(copies.size, np.nan)
        had = decision.round.last_refresh != NEVER
        kept[decision.srs[had]] = decision.round.fresh_if_kept[had, 0]
        good = np.array([error is None for error in refreshes.errors], bool) & ~refreshes.late
        good[good] = ~np.isnan(kept[refreshes.srs[good]])
        draws = decision.draws.answers if audits else ()
        told = [(one.fresh, float(np.prod(copies[list(draw.srs)]))) for one, draw in zip(audits, draws, strict=True)]
        known = [(verdict, believed) for verdict, believed in told if verdict is not None]
        return Observed(
            weights, fresh, kept[refreshes.srs[good]], refreshes.changed[good],
            np.array([believed for _, believed in known]), np.array([verdict for verdict, _ in known], bool),
            refreshes.spent,
        )  # fmt: skip

    def revisit(
        self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None, had: float = 0.0, spent: float = 0.0
    ) -> Evaluation:
        """An evaluation from before a restart: the window as it was then, and the view; nothing is chosen or fetched.

        What a restored view knows of arrivals has those of this window already.
        """
        known = [deepcopy(one.rates) for one in self._tallies] if self.content.k is None else None
        self._advance(now, at, sns, identity)
        for one, rates in zip(self._tallies, known or (), strict=False):
            rates.extend(one.total.size)
            one.rates = rates
        srs, round = self.rounds.build(now, self._k, self.endpoint.price, miss_price(self.endpoint))
        counts = self.content.counts(self.graph.sns)
        present = np.flatnonzero(counts)
        none, budget = Selection(np.empty(0, np.int32), np.empty(0), ""), Budget(had, had)
        weights = counts[present].astype(np.int64)
        decision = Decision(self._k, now, round, srs, present, weights, Draws(), none, budget, self.content.size, 0.0)
        return self.conclude(decision, Refreshes.none(spent), again=True)

    def move_to(self, window: WindowSpec, now: int) -> None:
        """Demand is counted in another window from now on; of what came so far, as much as both reach."""
        self.content = self.content.moved(window, LONGEST_HORIZON, now)
        self.graph.follow(self.content)
        self.window, self.rounds = window, RoundBuilder(window, self.view, self.model, self.policy, self.case)

    def dump(self) -> dict[str, Any]:
        """What must survive a restart beside the view, as JSON: the ledger, the lots, the audits, the policy."""
        found: dict[str, Any] = {"ledger": self.ledger.dump(), "lots": self.rng.bit_generator.state}
        if self.auditor is not None:
            found["audits"] = self.auditor.dump()
        if hasattr(self.policy, "state"):
            found["policy"] = [self.policy.name, self.policy.state()]
        return found

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run; what a policy of another name knew is of no use."""
        self.ledger.load(state["ledger"])
        self.rng.bit_generator.state = state["lots"]
        if self.auditor is not None and "audits" in state:
            self.auditor.load(state["audits"])
        name, known = state.get("policy", ("", None))
        if name == self.policy.name and hasattr(self.policy, "restore"):
            self.policy.restore(known)

    def regular(self) -> list[Regular]:
        """Which entries are believed to change by a clock, the surest first."""
        model: object = self.model
        while not isinstance(model, TellsClocks) and hasattr(model, "model"):
            model = model.model
        return regular_entries(model, self.view.srs.keys) if isinstance(model, TellsClocks) else []

    def _ledger_of(self, budget: BudgetRule | Ledger) -> Ledger:
        if self.target is None:
            return budget if isinstance(budget, Ledger) else Ledger(budget)
        if isinstance(budget, Ledger):
            raise ConfigError("a target needs a budget of its own, as BudgetRule.of(10): others share this ledger")
        return TargetLedger.towards(self.target, budget)

    @property
    def _tallies(self) -> tuple[WindowCounts, WindowCounts]:
        return self.content.tallies, self.graph.tallies

    def _as_source_takes(self, budget: Budget, now: int) -> Budget:
        """A budget as far as the source takes requests; what it does not take may be banked."""
        if not isinstance(self.endpoint, Remote):
            return budget
        return replace(budget, available=min(budget.available, self.endpoint.room(now)))

    def _without_resting(self, srs: Ints, round: Round, budget: Budget) -> Round:
        """What the source refused not long ago costs more than there is, so that no policy waits for it."""
        by_kind = self.view.srs.by_kind
        resting = self.endpoint.resting() if isinstance(self.endpoint, Choosy) else ()
        slots = [by_kind[kind][key] for kind, key in resting if key in by_kind[kind]]
        if not slots:
            return round
        return replace(round, cost=np.where(np.isin(srs, slots), budget.available + round.cost + 1, round.cost))

    def _draw(self, prospect: Prospect, budget: Budget) -> Draws:
        """The answers that this evaluation checks."""
        if self.auditor is None:
            return Draws()
        sns, counts = prospect.sns, prospect.counts
        missed = [self.view.sns.numbers[sn] for sn in self.view.misses]
        degrees = self.graph.degrees(sns)
        sampled = Sampled(sns, counts, degrees, np.isin(sns, missed), self.view.degree)
        return self.auditor.draw(self.ledger.paid, budget.available, self.endpoint.price, sampled, self.view)

    def _audited(self, decision: Decision, refreshes: Refreshes) -> list[Audit]:
        """What the checks say: read at the evaluation is fresh, and a miss that was not fetched has no answers."""
        if self.auditor is None or not decision.draws.answers:
            return []
        price, extra = self.endpoint.price, len(refreshes.audited)
        plain = int(np.count_nonzero(refreshes.kinds != Kind.MISS))
        fresh: dict[int, bool | None] = dict.fromkeys(decision.draws.missing, False)
        for slot, copy in refreshes.audited.items():
            fresh[slot] = still_fresh(copy, self.view.values[slot], int(self.view.last_refresh[slot]))
        for slot, error, at in zip(refreshes.srs.tolist(), refreshes.errors, refreshes.read_at.tolist(), strict=True):
            if at == decision.now:
                fresh[slot] = True if error is None else fresh.get(slot)
        return self.auditor.judge(decision.draws, fresh, price.of(plain + extra) - price.of(plain), self.view)

    def _keep_audited(self, audited: Mapping[int, Copy], join: Join) -> Join:
        """What was checked into the view; the join is of what was there before."""
        good = {slot: copy for slot, copy in audited.items() if copy.error is None}
        if not good:
            return join
        join = replace(join, refreshed=join.refreshed.copy(), audited={slot: self.view.values[slot] for slot in good})
        self._store(np.array(list(good), np.int32), list(good.values()), join.now)
        return join

    def _receive_late(self, late: Sequence[Late]) -> Refreshes:
        """What earlier evaluations had asked for; what is no longer in the view is let go."""
        by_kind = self.view.srs.by_kind
        known = [one for one in late if one.key in by_kind[one.kind]]
        slots = [by_kind[one.kind][one.key] for one in known]
        changed = [
            bool(self.receive(np.array([slot], np.int32), [one.key], [one.outcome], one.read_at)[0])
            for slot, one in zip(slots, known, strict=True)
        ]
        return Refreshes.of_late(known, slots, changed, [self._asked.get(one.read_at, self._k) for one in known])

    def _remember(self, decision: Decision, errors: Sequence[str | None]) -> None:
        """Which evaluation it was: what was asked for and is not there may still come."""
        if any(errors):
            self._asked[decision.now] = decision.k
        if len(self._asked) > LONGEST_WAIT:
            del self._asked[next(iter(self._asked))]

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
            raise InputError(f"an arrival names lookup key {int(sns.max())}; the view has {self.view.sns.width} slots")
        self.graph.extend(self.view.sns.width, self.view.srs.width)
        self.content.insert(at, sns, identity)
        self._k = self.content.due() if self.window.count else self.window.index(now)
        self.graph.apply(self.content.advance(self._k))
        self._now = now

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

    def _needed(self, decision: Decision) -> Ids:
        """How often the window needs each entry; where a later window has been decided on since, by its own counts."""
        if decision.now == self._now:
            return self.graph.tallies.total[: self.graph.srs]
        _, srs = self.graph.edges_of(decision.sns)
        weights = np.repeat(decision.counts, self.graph.degrees(decision.sns))
        needed: Ids = np.bincount(srs, weights, self.graph.srs).astype(np.int32)
        return needed

    def _fresh_now(self, decision: Decision, needed: Ids) -> Floats:
        """The probability that each copy is fresh at the evaluation, by slot: 1 for what was read at it."""
        refreshed = self.view.last_refresh
        fresh = np.zeros(refreshed.size)
        fresh[decision.srs] = decision.round.fresh_if_kept[:, 0]
        if self._overtaken:  # copies of earlier evaluations may have come since it was decided
            known = np.full(refreshed.size, NEVER)
            known[decision.srs] = decision.round.last_refresh
            came = np.flatnonzero((refreshed != known) & (needed[: refreshed.size] > 0))
            fresh[came] = self.model.beliefs(np.array([decision.now]), refreshed[came], False, came).kept[:, 0]
        fresh[refreshed >= decision.now] = 1.0
        fresh[refreshed == NEVER] = 0.0
        return fresh

    def answers_of(self, evaluation: Evaluation) -> Answers:
        """The answers of the last evaluation, also where evaluations do not carry them."""
        return self._answered(evaluation.join) if evaluation.answers is None else evaluation.answers

    def _answered(self, join: Join) -> Answers:
        """The answers that a join stands for."""
        sn, sr = join.rows
        held = join.refreshed[sr] != NEVER
        sn, sr = sn[held], sr[held]
        sns, srs = self.view.sns.keys, self.view.srs.keys
        numbers = sr.tolist()
        return Answers(
            join.now, sn, sr, join.weight[held], join.refreshed[sr], join.fresh[held], self.view.kinds[sr],
            [sns[n] for n in sn.tolist()], [srs[n] for n in numbers], join.values(numbers, self.view.values),
        )  # fmt: skip


def _gap(window: WindowSpec) -> str:
    """What somebody should know whose windows leave gaps, as when range and step are the wrong way round."""
    return (
        f"a window with range {window.range} and step {window.step} leaves out what comes in the "
        f"{window.step - window.range} {'elements' if window.count else 'ms'} between two of them"
    )


def _rule_of(budget: BudgetRule | Ledger | Amount | str) -> BudgetRule | Ledger:
    """A rule, or a number of requests for every evaluation."""
    if isinstance(budget, BudgetRule | Ledger):
        return budget
    if isinstance(budget, int | float | Fraction) and not isinstance(budget, bool):
        return BudgetRule.of(budget)
    raise ConfigError(f"a budget is what an evaluation may spend, as BudgetRule.of(2) or 2, not {budget!r}")


def regular_entries(model: TellsClocks, keys: Sequence[Hashable]) -> list[Regular]:
    """Which of the entries of these slots a model believes to change by a clock, the surest first."""
    chance, period = model.regular(np.arange(len(keys)))
    believed = np.flatnonzero(chance > 0.5)
    order = believed[np.argsort(-chance[believed], kind="stable")]
    return [Regular(keys[slot], float(chance[slot]), float(period[slot])) for slot in order.tolist()]
