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
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.answer_checks import AnswerChecks, observed
from freshkeeper.maintenance.cache.budget.audit import Auditor, Draws
from freshkeeper.maintenance.cache.budget.controller import AUDITS
from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule, Ledger, rule_of
from freshkeeper.maintenance.cache.budget.selection import check_handles, check_selection, preferring, whole_requests
from freshkeeper.maintenance.cache.budget.shared_budget import SharedIncome
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome, ledger_of
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.maintenance.cache.evaluation import Answers, Decision, Evaluation, Join, Prospect, Record, Refreshes
from freshkeeper.maintenance.cache.late_refreshes import LateRefreshes
from freshkeeper.maintenance.cache.round_builder import LONGEST_HORIZON, RoundBuilder
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.view.regular import Regular, regular_entries
from freshkeeper.maintenance.cache.view_writer import ViewWriter
from freshkeeper.maintenance.cache.window_demand import WindowDemand
from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded, Order
from freshkeeper.maintenance.fetching.fetch_jobs import Pending, run_until_complete
from freshkeeper.maintenance.fetching.fetcher import Fetcher
from freshkeeper.maintenance.fetching.function_source import SourceLike, fetcher_of
from freshkeeper.policies.base import (
    NEVER,
    Budget,
    Case,
    Policy,
    Selection,
)
from freshkeeper.policies.registry import make


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
    endpoint: Fetcher
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
            self, window: WindowSpec, endpoint: SourceLike, policy: Policy | str, budget: BudgetRule | Ledger | Amount,
            model: ChangeModel, case: Case = ..., capacity: int | None = ..., seed: int | np.random.SeedSequence = ...,
            answers: bool = ..., audit: Amount = ..., target: float | None = ..., timer: Callable[[], int] = ...,
        ) -> None: ...  # fmt: skip

    def __post_init__(self) -> None:
        """Wire the parts, and refuse a policy that cannot work here."""
        if self.window.step > self.window.range:
            warnings.warn(_gap(self.window), stacklevel=3)
        self.endpoint = fetcher_of(self.endpoint)
        self.policy = make(self.policy) if isinstance(self.policy, str) else self.policy
        self.budget = rule_of(self.budget)
        check_handles(self.policy, self.case, self.model.knowledge)
        content = Window(self.window, LONGEST_HORIZON)
        self.graph = MaintenanceGraph(content)
        self.view = View(self.graph, self.model, self.capacity)
        self.demand = WindowDemand(content, self.view)
        self.writer = ViewWriter(self.view, self.model, self.policy, self.demand)
        self.late = LateRefreshes(self.writer)
        self.rounds = RoundBuilder(self.window, self.view, self.model, self.policy, self.case)
        self.ledger = ledger_of(self.budget, self.target)
        self.audit = self.audit or (AUDITS if isinstance(self.ledger.income, TargetIncome) else 0)
        self.ledger.overdraft = not self.policy.keeps_budget
        self.rng = np.random.default_rng(self.seed)
        self.auditor = Auditor.of(self.audit, self.case, self.rng.spawn(1)[0]) if self.audit else None
        self.checks = AnswerChecks(self.auditor, self.writer)
        self._one_by_one = RLock()

    def __getstate__(self) -> dict[str, object]:
        """All but its lock, which belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "_one_by_one"}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """With a lock of its own."""
        self.__dict__.update(state, _one_by_one=RLock())

    @property
    def content(self) -> Window:
        """What is in the window."""
        return self.demand.content

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
        times = self.demand.times(now, [at for at, _ in pairs])
        return self.look_slots(now, times, self.view.sn_slots([sn for _, sn in pairs]))

    def look_slots(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Prospect:
        """The same for arrivals whose SNs are slots of the view already."""
        began = self.timer()
        self.demand.check(now)
        self.demand.advance(now, at, sns, identity)
        srs, round = self.rounds.build(now, self.demand.k, self.endpoint.price, self.endpoint.miss_price)
        return Prospect(self.demand.k, now, round, srs, *self.demand.present(), (self.timer() - began) / 1e3)

    def bid(self, prospect: Prospect) -> None:
        """Of a shared budget: what requests would bring here, before it is parted; nothing where that cannot be said.

        The policy chooses as if all the money were its own, on copies: the choice that counts is made with its part.
        """
        valued = self.case in getattr(self.policy, "scores_answers", ())
        income = self.ledger.income
        if not isinstance(income, SharedIncome) or not valued or self.ledger.overdraft:
            return
        budget = self._as_source_takes(income.most_available(prospect.now), prospect.now)
        round = self.rounds.without(self.endpoint.keys_in_backoff(), prospect.srs, prospect.round, budget)
        wanted = deepcopy(self.policy).select(round, budget, deepcopy(self.rng))
        check_selection(self.policy, round, wanted, budget)
        income.bid(wanted.scores, round.cost[wanted.chosen])

    def choose(self, prospect: Prospect, first: Sequence[int] = ()) -> Decision:
        """Open the budget and let the policy choose, after what somebody wants `first`, by slot."""
        began = self.timer()
        budget = self._as_source_takes(self.ledger.open(prospect.now), prospect.now)
        draws = self.checks.draw(prospect, budget, self.ledger, self.endpoint.price)
        budget = replace(budget, available=budget.available - draws.cost)
        round = self.rounds.without(self.endpoint.keys_in_backoff(), prospect.srs, prospect.round, budget)
        selection = self.policy.select(round, budget, self.rng)
        check_selection(self.policy, round, selection, budget)
        chosen = Selection(prospect.srs[selection.chosen].astype(np.int32), selection.scores, selection.reason)
        if len(first):
            chosen = preferring(np.array(first, np.int32), chosen)
        if not self.ledger.overdraft:
            missing, price = self.view.missing(chosen.chosen), self.endpoint.price
            prices = price, budget.available, self.endpoint.miss_price
            chosen = whole_requests(chosen, missing, *prices, fits=not len(first))
        taken = prospect.looked_us + (self.timer() - began) / 1e3
        return Decision(
            prospect.k, prospect.now, round, prospect.srs, prospect.sns, prospect.counts, draws, chosen, budget,
            self.content.size, taken,
        )  # fmt: skip

    def reserve(self, decision: Decision) -> None:
        """Others decide before this is fetched: what it costs at most is kept for it, of budget and source."""
        if self.ledger.overdraft:
            return
        kinds, extra = self.view.kinds[decision.selection.chosen], decision.draws.srs.size
        plain = int(np.count_nonzero(kinds == Kind.COPY)) + extra
        cost = self.endpoint.price.of(plain) + self.endpoint.miss_price.of(kinds.size + extra - plain)
        self.ledger.keep(cost)
        self.endpoint.reserve_capacity(cost)

    def fetch(self, decision: Decision) -> Refreshes:
        """Fetch what was chosen, pay for it, and put what came into the view."""
        return run_until_complete(self.fetching(decision))

    def fetching(self, decision: Decision) -> Pending[Refreshes]:
        """The same, pausing while requests are on their way."""
        began = self.timer()
        chosen = decision.selection.chosen
        kinds, keys = self.view.kinds[chosen], [self.view.srs.keys[slot] for slot in chosen.tolist()]
        plain, missed, edges = ([keys[n] for n in np.flatnonzero(kinds == kind).tolist()] for kind in Kind)
        allowance = math.inf if self.ledger.overdraft else float(self.ledger.available)
        extra = np.setdiff1d(decision.draws.srs, chosen).tolist()
        wanted = [*plain, *(self.view.srs.keys[slot] for slot in extra)]
        delivery = yield from self.endpoint.carry_out(Order(decision.now, wanted, missed, allowance, edges))
        self.ledger.spend(delivery.spent)
        late = self.late.receive(delivery.late, self.demand.k)
        came: tuple[Iterator[Copy | Expanded], ...]
        came = iter(delivery.copies), iter(delivery.expanded), iter(delivery.edges)
        outcome = [next(came[kind]) for kind in kinds.tolist()]
        shares = [iter(of_kind) for of_kind in delivery.shares]
        sent = np.array([next(shares[kind]) for kind in kinds.tolist()], np.float64)
        changed = self.receive(chosen, keys, outcome, decision.now)
        taken = (self.timer() - began) / 1e6
        at, errors = np.full(chosen.size, decision.now), [result.error for result in outcome]
        self.late.remember(decision, errors)
        return Refreshes(
            chosen, kinds, keys, decision.selection.scores, changed, errors, at, sent,
            np.full(chosen.size, decision.k), at, np.zeros(chosen.size, bool), delivery.requests, delivery.spent, taken,
            dict(zip(extra, delivery.copies[len(plain) :], strict=True)),
        ).with_late(late)  # fmt: skip

    def receive(self, srs: Ids, keys: Sequence[Hashable], outcome: Sequence[Copy | Expanded], read_at: int) -> Bools:
        """Put what was fetched into the view, now or late; tells which values had changed."""
        return self.writer.receive(srs, keys, outcome, read_at)

    def conclude(self, decision: Decision, refreshes: Refreshes, again: bool = False) -> Evaluation:
        """Join the window with the view as it is now: of what windows need, all that is counted is kept by SR."""
        needed = self.demand.needed(decision.now, decision.sns, decision.counts)
        copies = self._fresh_now(decision, needed)
        whole, refreshed = self.case is Case.AGGREGATE, self.view.last_refresh
        join = Join(decision.now, self.graph, decision.sns, decision.counts, copies, whole, refreshed)
        if whole:
            results, expected = float(join.counts[join.degrees > 0].sum()), float((join.counts * join.wholes).sum())
        else:
            lost = float(needed[list(self.view.misses.values())].sum()) * (self.view.degree - 1.0)
            results, expected = float(needed.sum()) + lost, float((needed * copies).sum())
        audits = self.checks.judge(decision, refreshes, self.endpoint.price)
        if isinstance(self.ledger.income, TargetIncome) and not again:
            weights, fresh = (join.counts * (join.degrees > 0), join.wholes) if whole else (needed, copies)
            self.ledger.income.controller.note(
                observed(decision, refreshes, audits, weights.astype(np.float64), fresh, copies)
            )
        record = Record(
            decision.k, decision.now, results, expected, decision.window_mappings,
            int(decision.round.candidates.sum()), int(decision.round.stale_candidates.sum()),
            decision.budget.available + decision.draws.cost, refreshes.spent, float(self.ledger.available),
            decision.decide_us, refreshes.fetch_ms, refreshes.failed, refreshes.requests,
            int(needed[self.view.last_refresh == NEVER].sum()),
        )  # fmt: skip
        answers = Answers.of(join, self.view) if self.answers else None
        self.view.evict()
        join = self.checks.keep(refreshes.audited, join)
        return Evaluation(record, refreshes, answers, join, decision.sns, decision.counts, audits)

    def revisit(
        self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None, had: float = 0.0, spent: float = 0.0
    ) -> Evaluation:
        """An evaluation from before a restart: the window as it was, and the view; nothing is chosen or fetched."""
        self.demand.advance_again(now, at, sns, identity)
        k, none = self.demand.k, Selection(np.empty(0, np.int32), np.empty(0), "")
        srs, round = self.rounds.build(now, k, self.endpoint.price, self.endpoint.miss_price)
        size, budget = self.content.size, Budget(had, had)
        decision = Decision(k, now, round, srs, *self.demand.present(), Draws(), none, budget, size, 0.0)
        return self.conclude(decision, Refreshes.none(spent), again=True)

    def move_to(self, window: WindowSpec, now: int) -> None:
        """Demand is counted in another window from now on; of what came so far, as much as both reach."""
        self.demand.move_to(window, LONGEST_HORIZON, now)
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
        return regular_entries(self.model, self.view.srs.keys)

    def _as_source_takes(self, budget: Budget, now: int) -> Budget:
        """A budget as far as the source takes requests; what it does not take may be banked."""
        capacity = self.endpoint.capacity(now)
        return budget if capacity >= budget.available else replace(budget, available=capacity)

    def _fresh_now(self, decision: Decision, needed: Ids) -> Floats:
        """The probability that each copy is fresh at the evaluation, by slot: 1 for what was read at it."""
        refreshed = self.view.last_refresh
        fresh = np.zeros(refreshed.size)
        fresh[decision.srs] = decision.round.fresh_if_kept[:, 0]
        if self.writer.overtaken:  # copies of earlier evaluations may have come since it was decided
            known = np.full(refreshed.size, NEVER)
            known[decision.srs] = decision.round.last_refresh
            came = np.flatnonzero((refreshed != known) & (needed[: refreshed.size] > 0))
            fresh[came] = self.model.beliefs(np.array([decision.now]), refreshed[came], False, came).kept[:, 0]
        fresh[refreshed >= decision.now] = 1.0
        fresh[refreshed == NEVER] = 0.0
        return fresh

    def answers_of(self, evaluation: Evaluation) -> Answers:
        """The answers of the last evaluation, also where evaluations do not carry them."""
        carried = evaluation.carried_answers
        return Answers.of(evaluation.join, self.view) if carried is None else carried


def _gap(window: WindowSpec) -> str:
    """What somebody should know whose windows leave gaps, as when range and step are the wrong way round."""
    return (
        f"a window with range {window.range} and step {window.step} leaves out what comes in the "
        f"{window.step - window.range} {'elements' if window.count else 'ms'} between two of them"
    )
