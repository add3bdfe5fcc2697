"""Evaluations from end to end: the only place where window, view, graph, policy, budget and source meet.

    arrivals ─▶ window ─▶ graph ─▶ round ─▶ policy ─▶ selection ─▶ endpoint ─▶ view ─▶ answers and a record

`evaluate` does it all. `decide`, `fetch` and `conclude` are its three parts, for callers that fetch in their own way.
Where views share a budget, `decide` is split into `prepare_round`, `bid` and `choose` (`evaluate_together.py`).
"""

import math
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.answer_checks import AnswerChecks, AnswerWeights, observed
from freshkeeper.maintenance.cache.budget.audit import Auditor, Draws
from freshkeeper.maintenance.cache.budget.controller import AUDITS
from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule, Ledger, rule_of
from freshkeeper.maintenance.cache.budget.selection import check_handles, preferring, whole_requests
from freshkeeper.maintenance.cache.budget.shared_budget import SharedIncome
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome, ledger_of
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.maintenance.cache.evaluation import (
    Answers,
    Decision,
    Evaluation,
    Join,
    PreparedRound,
    Record,
    Refreshes,
)
from freshkeeper.maintenance.cache.round_builder import LONGEST_HORIZON, KeyText, RoundBuilder, plain_key_text
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.view.regular import Regular, regular_entries
from freshkeeper.maintenance.cache.view_writer import LateRefreshes, ViewWriter
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
from freshkeeper.policies.runner import PolicyRunner


@dataclass(frozen=True)
class PolicyContext:
    """Says where a policy works, whether its errors end an evaluation, and how it sees keys."""

    label: str = ""
    """the setting or source, and the seed; default: the seed"""
    skips_errors: bool = False
    """an evaluation whose policy fails refreshes nothing and is counted; otherwise the error is raised"""
    key_text: KeyText = plain_key_text


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
    """the source: a fetcher, a function, or anything with `fetch(keys)` (docs/writing-a-source.md)"""
    policy: Policy
    """the policy, or its name with settings"""
    budget: BudgetRule | Ledger
    """a rule, a ledger of a shared budget, or the number of requests for every evaluation"""
    model: ChangeModel
    case: Case = Case.BGP
    capacity: int | None = None
    seed: int | np.random.SeedSequence = 0
    answers: bool = True
    """whether evaluations carry their answers; otherwise `answers_of` makes them"""
    audit: Amount = 0
    """the share of the budget that checks how fresh the answers are; with a target a tenth by default"""
    target: float | None = None
    """the share of answers that is to be fresh: the budget is then the most that an evaluation may cost"""
    timer: Callable[[], int] = time.perf_counter_ns
    context: PolicyContext = field(default_factory=PolicyContext)
    runner: PolicyRunner = field(init=False)
    view: View = field(init=False)
    ledger: Ledger = field(init=False)

    if TYPE_CHECKING:  # the constructor takes more types than the attributes have

        def __init__(
            self, window: WindowSpec, endpoint: SourceLike, policy: Policy | str, budget: BudgetRule | Ledger | Amount,
            model: ChangeModel, case: Case = ..., capacity: int | None = ..., seed: int | np.random.SeedSequence = ...,
            answers: bool = ..., audit: Amount = ..., target: float | None = ..., timer: Callable[[], int] = ...,
            context: PolicyContext = ...,
        ) -> None: ...  # fmt: skip

    def __post_init__(self) -> None:
        if self.window.step > self.window.range:
            warnings.warn(_gap(self.window), stacklevel=3)
        self.endpoint = fetcher_of(self.endpoint)
        self.policy = make(self.policy) if isinstance(self.policy, str) else self.policy
        self.budget = rule_of(self.budget)
        check_handles(self.policy, self.case, self.model.knowledge)
        label = self.context.label or _seed_label(self.seed)
        self.runner = PolicyRunner(self.policy, label, self.context.skips_errors)
        content = Window(self.window, LONGEST_HORIZON)
        self.graph = MaintenanceGraph(content)
        self.view = View(self.graph, self.model, self.capacity)
        self.demand = WindowDemand(content, self.view)
        self.writer = ViewWriter(self.view, self.model, self.runner, self.demand, self.context.key_text)
        self.late = LateRefreshes(self.writer)
        self.rounds = self._round_builder()
        self.ledger = ledger_of(self.budget, self.target)
        if not self.audit and isinstance(self.ledger.income, TargetIncome):
            self.audit = AUDITS
        self.ledger.overdraft = not self.policy.keeps_budget
        self.rng = np.random.default_rng(self.seed)
        self.auditor = Auditor.of(self.audit, self.case, self.rng.spawn(1)[0]) if self.audit else None
        self.checks = AnswerChecks(self.auditor, self.writer)
        self._lock = RLock()

    def __getstate__(self) -> dict[str, object]:
        # The lock belongs to this process.
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state, _lock=RLock())

    @property
    def content(self) -> Window:
        """The window with its present content."""
        return self.demand.content

    def evaluate(self, now: int, mappings: Iterable[tuple[int, Hashable]] = ()) -> Evaluation:
        """Evaluate at `now`, after the arrivals (time, lookup key) since the last evaluation."""
        with self._lock:
            decision = self.choose(self.prepare_round(now, mappings))
            return self.conclude(decision, self.fetch(decision))

    def evaluate_slots(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Evaluation:
        """Evaluate at `now`, after arrivals whose lookup keys are given as slots of the view."""
        with self._lock:
            decision = self.decide(now, at, sns, identity)
            return self.conclude(decision, self.fetch(decision))

    def decide(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> Decision:
        """Move the window, build the round, and let the policy choose; nothing is fetched or spent yet."""
        return self.choose(self.prepare_round_slots(now, at, sns, identity))

    def prepare_round(self, now: int, mappings: Iterable[tuple[int, Hashable]] = ()) -> PreparedRound:
        """Move the window to `now`, with what arrived, and build the round; the budget is not opened yet."""
        pairs = list(mappings)
        times = self.demand.times(now, [at for at, _ in pairs])
        return self.prepare_round_slots(now, times, self.view.sn_slots([sn for _, sn in pairs]))

    def prepare_round_slots(
        self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None
    ) -> PreparedRound:
        """Do what `prepare_round` does, for arrivals whose lookup keys are given as slots of the view."""
        began = self.timer()
        self.demand.check(now)
        self.demand.advance(now, at, sns, identity)
        return self._prepared(now, began)

    def _prepared(self, now: int, began: int) -> PreparedRound:
        """Build the round of the present window; the evaluation `began` at this reading of the timer."""
        srs, round = self.rounds.build(now, self.demand.k, self.endpoint.price, self.endpoint.miss_price)
        present, counts = self.demand.present()
        return PreparedRound(
            k=self.demand.k,
            now=now,
            round=round,
            srs=srs,
            sns=present,
            counts=counts,
            prepare_us=(self.timer() - began) / 1e3,
        )

    def bid(self, prepared: PreparedRound) -> None:
        """Tell a shared budget, before it is allocated, what requests would bring to this view.

        The policy chooses as if all the money were this view's, on copies: the choice that counts is made later, with
        the part that the view gets. Policies whose scores are not answers, and overdrafts, bid nothing.
        """
        scores_answers = self.case in getattr(self.policy, "scores_answers", ())
        income = self.ledger.income
        if not isinstance(income, SharedIncome) or not scores_answers or self.ledger.overdraft:
            return
        budget = self._capped_by_source(income.most_available(prepared.now), prepared.now)
        round = self.rounds.without(self.endpoint.keys_in_backoff(), prepared.srs, prepared.round, budget)
        selection = self.runner.preview(round, budget, self.rng)
        if selection is not None:
            income.bid(selection.scores, round.cost[selection.chosen])

    def choose(self, prepared: PreparedRound, first: Sequence[int] = ()) -> Decision:
        """Open the budget and let the policy choose; entries in the slots `first` go before its choice."""
        began = self.timer()
        budget = self._capped_by_source(self.ledger.open(prepared.now), prepared.now)
        draws = self.checks.draw(prepared, budget, self.ledger, self.endpoint.price)
        budget = replace(budget, available=budget.available - draws.cost)
        round = self.rounds.without(self.endpoint.keys_in_backoff(), prepared.srs, prepared.round, budget)
        selection = self.runner.select(round, budget, self.rng)
        # The policy numbers entries within the round; from here on they have the slots of the view.
        chosen = Selection(prepared.srs[selection.chosen].astype(np.int32), selection.scores, selection.reason)
        if len(first):
            chosen = preferring(np.array(first, np.int32), chosen)
        if not self.ledger.overdraft:
            missing, price = self.view.missing(chosen.chosen), self.endpoint.price
            prices = price, budget.available, self.endpoint.miss_price
            chosen = whole_requests(chosen, missing, *prices, fits=not len(first))
        return Decision(
            **(vars(prepared) | {"round": round}),
            draws=draws,
            selection=chosen,
            budget=budget,
            window_mappings=self.content.size,
            decide_us=prepared.prepare_us + (self.timer() - began) / 1e3,
        )

    def reserve(self, decision: Decision) -> None:
        """Reserve what the choice costs at most, of budget and source: others decide before it is fetched."""
        if self.ledger.overdraft:
            return
        kinds, extra = self.view.kinds[decision.selection.chosen], decision.draws.srs.size
        plain = int(np.count_nonzero(kinds == Kind.COPY)) + extra
        cost = self.endpoint.price.of(plain) + self.endpoint.miss_price.of(kinds.size + extra - plain)
        self.ledger.keep(cost)
        self.endpoint.reserve_capacity(cost)

    def fetch(self, decision: Decision) -> Refreshes:
        """Fetch what was chosen, pay for it, and put the responses into the view."""
        return run_until_complete(self.fetching(decision))

    def fetching(self, decision: Decision) -> Pending[Refreshes]:
        """Do what `fetch` does, pausing while requests are in flight."""
        began = self.timer()
        chosen = decision.selection.chosen
        kinds, keys = self.view.kinds[chosen], [self.view.srs.keys[slot] for slot in chosen.tolist()]
        plain, missed, edges = ([keys[n] for n in np.flatnonzero(kinds == kind).tolist()] for kind in Kind)
        allowance = math.inf if self.ledger.overdraft else float(self.ledger.available)
        extra: list[int] = []
        if decision.draws.srs.size:
            extra = np.setdiff1d(decision.draws.srs, chosen).tolist()
        plain += [self.view.srs.keys[slot] for slot in extra]
        delivery = yield from self.endpoint.carry_out(Order(decision.now, plain, missed, allowance, edges))
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
        copies_of_audits = delivery.copies[len(plain) - len(extra) :]
        refreshes = Refreshes(
            srs=chosen,
            kinds=kinds,
            keys=keys,
            gain=decision.selection.scores,
            changed=changed,
            errors=errors,
            read_at=at,
            sent=sent,
            k=np.full(chosen.size, decision.k),
            t_ms=at,
            late=np.zeros(chosen.size, bool),
            requests=delivery.requests,
            spent=delivery.spent,
            fetch_ms=taken,
            audited=dict(zip(extra, copies_of_audits, strict=True)),
        )
        return refreshes.with_late(late)

    def receive(self, srs: Ids, keys: Sequence[Hashable], outcome: Sequence[Copy | Expanded], read_at: int) -> Bools:
        """Put responses into the view, in time or late; return which values had changed."""
        return self.writer.receive(srs, keys, outcome, read_at)

    def conclude(self, decision: Decision, refreshes: Refreshes, again: bool = False) -> Evaluation:
        """Join the window with the view as it is now, and record the evaluation.

        `again` says that it is from before a restart, so that a controller has learned from it already.
        """
        needed = self.demand.needed(decision.now, decision.sns, decision.counts)
        copies = self._fresh_now(decision, needed)
        aggregate = self.case is Case.AGGREGATE
        weights: Ints | Ids
        join = Join(
            now=decision.now,
            graph=self.graph,
            sns=decision.sns,
            counts=decision.counts,
            copies=copies,
            all_inputs_fresh=aggregate,
            refreshed=self.view.last_refresh,
        )
        # Sums over entries, with the demand that is kept for each: the rows of the join are not made for them.
        if aggregate:
            weights, fresh = join.counts * (join.degrees > 0), join.fresh_by_sn
            results, expected = float(weights.sum()), float((join.counts * fresh).sum())
        else:
            weights, fresh = needed, copies
            expected_of_misses = float(needed[list(self.view.misses.values())].sum()) * (self.view.degree - 1.0)
            results, expected = float(needed.sum()) + expected_of_misses, float((needed * copies).sum())
        audits = self.checks.judge(decision, refreshes, self.endpoint.price)
        if isinstance(self.ledger.income, TargetIncome) and not again:
            answers_now = AnswerWeights(weights.astype(np.float64), fresh, copies)
            self.ledger.income.controller.note(observed(decision, refreshes, audits, answers_now))
        record = Record(
            k=decision.k,
            t_ms=decision.now,
            results=results,
            expected_fresh=expected,
            window_mappings=decision.window_mappings,
            candidates=int(decision.round.candidates.sum()),
            stale=int(decision.round.stale_candidates.sum()),
            budget=decision.budget.available + decision.draws.cost,
            spent=refreshes.spent,
            carried=float(self.ledger.available),
            decide_us=decision.decide_us,
            fetch_ms=refreshes.fetch_ms,
            errors=refreshes.failed,
            requests=refreshes.requests,
            missed=int(needed[self.view.last_refresh == NEVER].sum()),
        )
        answers = Answers.of(join, self.view) if self.answers else None
        self.view.evict()
        return Evaluation(
            record=record,
            refreshes=refreshes,
            carried_answers=answers,
            join=self.checks.keep(refreshes.audited, join),
            sns=decision.sns,
            counts=decision.counts,
            audits=audits,
            policy_metrics=self.runner.metrics(),
        )

    def revisit(
        self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None, had: float = 0.0, spent: float = 0.0
    ) -> Evaluation:
        """Repeat an evaluation from before a restart with the view as it is; nothing is chosen or fetched."""
        self.demand.advance_again(now, at, sns, identity)
        decision = Decision(
            **vars(self._prepared(now, self.timer())),
            draws=Draws(),
            selection=Selection(np.empty(0, np.int32), np.empty(0), ""),
            budget=Budget(had, had),
            window_mappings=self.content.size,
            decide_us=0.0,
        )
        return self.conclude(decision, Refreshes.none(spent), again=True)

    def move_to(self, window: WindowSpec, now: int) -> None:
        """Count demand in another window from now on; of earlier arrivals, keep those that both windows reach."""
        self.demand.move_to(window, LONGEST_HORIZON, now)
        self.window = window
        self.rounds = self._round_builder()

    def dump(self) -> dict[str, Any]:
        """Return what must survive a restart beside the view, as JSON: ledger, random state, audits, policy."""
        state: dict[str, Any] = {"ledger": self.ledger.dump(), "rng_state": self.rng.bit_generator.state}
        if self.auditor is not None:
            state["audits"] = self.auditor.dump()
        policy_state = self.runner.dump()
        if policy_state is not None:
            state["policy"] = [self.policy.name, policy_state]
        return state

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from an earlier run; the state of a policy with another name is ignored."""
        self.ledger.load(state["ledger"])
        self.rng.bit_generator.state = state["rng_state"]
        if self.auditor is not None and "audits" in state:
            self.auditor.load(state["audits"])
        name, policy_state = state.get("policy", ("", None))
        if name == self.policy.name:
            self.runner.load(policy_state)

    def attach(self, policy: Policy) -> None:
        """Go on with a policy that was made anew and gets the state of the one before, as after a restart."""
        self.policy = policy
        self.runner.attach(policy)

    def regular(self) -> list[Regular]:
        """Return the entries that are believed to change by a clock, the surest first."""
        return regular_entries(self.model, self.view.srs.keys)

    def _round_builder(self) -> RoundBuilder:
        return RoundBuilder(self.window, self.view, self.model, self.runner, self.case, key_text=self.context.key_text)

    def _capped_by_source(self, budget: Budget, now: int) -> Budget:
        """Cap a budget by what the source takes now; the rest may be banked."""
        capacity = self.endpoint.capacity(now)
        return budget if capacity >= budget.available else replace(budget, available=capacity)

    def _fresh_now(self, decision: Decision, needed: Ids) -> Floats:
        """Return the probability that each copy is fresh at the evaluation, by slot: 1 for what was read at it."""
        refreshed = self.view.last_refresh
        fresh = np.zeros(refreshed.size)
        fresh[decision.srs] = decision.round.fresh_if_kept[:, 0]
        if self.writer.overtaken:
            # Late responses to earlier evaluations may have replaced copies since `decide()`.
            at_decision = np.full(refreshed.size, NEVER)
            at_decision[decision.srs] = decision.round.last_refresh
            replaced = np.flatnonzero((refreshed != at_decision) & (needed[: refreshed.size] > 0))
            instants = np.array([decision.now])
            fresh[replaced] = self.model.beliefs(instants, refreshed[replaced], False, replaced).kept[:, 0]
        fresh[refreshed >= decision.now] = 1.0
        fresh[refreshed == NEVER] = 0.0
        return fresh

    def answers_of(self, evaluation: Evaluation) -> Answers:
        """Return the answers of the last evaluation, also where evaluations do not carry them."""
        carried = evaluation.carried_answers
        return Answers.of(evaluation.join, self.view) if carried is None else carried


def _seed_label(seed: int | np.random.SeedSequence) -> str:
    return f"seed {seed.entropy if isinstance(seed, np.random.SeedSequence) else seed}"


def _gap(window: WindowSpec) -> str:
    """Return a warning about windows with gaps between them, as where range and step were confused."""
    return (
        f"a window with range {window.range} and step {window.step} leaves out what comes in the "
        f"{window.step - window.range} {'elements' if window.count else 'ms'} between two of them"
    )
