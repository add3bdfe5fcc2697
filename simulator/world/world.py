"""The simulated world, driven by simpy: a stream that arrives, evaluations that fall due, a remote that takes its time.

It drives the same manager and policies as production. Without latency an evaluation is `Manager.evaluate`, which is
002's instantaneous semantics; with latency every request is a process of its own that waits for a place and for the
rate limit, may fail, and may come back after its evaluation's deadline: it is in the view then, but came late. What
comes at the deadline itself is in time.

Requests are paid for when they are sent. As in production, what was not sent by the deadline or by the next evaluation
is not sent at all, and what is on its way is not asked for again: both are errors that cost nothing.
"""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias, cast

import numpy as np
import simpy
from pydantic import BaseModel, ConfigDict, Field
from simpy.events import EventPriority

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.evaluation import Decision, Evaluation, Refreshes
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.fetching.endpoint import PENDING, Copy, EntryId
from freshkeeper.maintenance.fetching.function_source import FunctionSource
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.requests import FetchReply, FetchRequest, Outcome
from freshkeeper.simulator.trace.trace import Trace, TraceArrivals
from freshkeeper.simulator.world.simulated_remote import RequestPace, SimulatedRemote
from freshkeeper.simulator.world.truth import NO_NUMBER, TraceNumbers

Process: TypeAlias = Generator[Any, Any, None]
NOT_SENT = "not sent: there was no time left"
FAILED = FetchReply(error="failed", refused=True)
LAST = EventPriority(2)
"""The priority of what happens after everything else at its instant."""


class RemoteSettings(BaseModel):
    """Settings of the remote; by default it answers at once and never fails, as in 002."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    latency_ms: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="mean time from asking to answer")
    latency_law: Literal["constant", "exponential", "lognormal"] = Field(
        default="constant", description="law of the latency around its mean; lognormal has σ = 1"
    )
    concurrency: int | None = Field(default=None, ge=1, description="requests under way at once; null: any number")
    requests_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="rate limit, which also bounds what an evaluation may spend; null: none"
    )
    failure_rate: float = Field(default=0.0, ge=0, le=1, description="share of requests that fail, paid all the same")
    deadline_ms: int | None = Field(
        default=None, ge=0, description="how long an evaluation waits for its refreshes; null: half a step"
    )

    @property
    def instantaneous(self) -> bool:
        """True if requests take no time and always succeed."""
        return not self.latency_ms and not self.failure_rate and self.requests_per_second is None

    def draw(self, rng: np.random.Generator) -> float:
        """Draw the latency of one request, in ms."""
        if self.latency_law == "exponential":
            return float(rng.exponential(self.latency_ms))
        if self.latency_law == "lognormal":
            return float(self.latency_ms * rng.lognormal(-0.5, 1.0))
        return self.latency_ms


@dataclass(frozen=True)
class Request:
    """A refresh request: its entry, its result, and when it was read."""

    position: int
    what: EntryId
    error: str | None
    read_at: int
    took_ms: float = 0.0
    changed: bool = False
    sent: bool = True


class AnswerDeadline(simpy.Event):
    """A time-out that comes after everything else that happens at its instant."""

    def __init__(self, env: simpy.Environment, delay: float) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, priority=LAST, delay=delay)


@dataclass(frozen=True, eq=False)
class RequestBatch:
    """The state that the requests of one evaluation share: their deadline, which were sent, and their results."""

    decision: Decision
    over: AnswerDeadline
    until: float
    """nothing is sent from here on"""
    started: set[int] = field(default_factory=set)
    finished: list[Request] = field(default_factory=list)

    @classmethod
    def of(cls, env: simpy.Environment, decision: Decision, deadline: int | None, step: int) -> "RequestBatch":
        """Begin a batch now; nothing is sent once the next evaluation, which has its own budget, is due."""
        patience = step // 2 if deadline is None else deadline
        return cls(decision, AnswerDeadline(env, patience), decision.now + min(patience, step))

    def may_send(self, now: float, wait: float) -> bool:
        """Tell whether a request can start in time; one that need not wait is always sent."""
        return now + wait < self.until or (now == self.decision.now and not wait)


@dataclass(eq=False)
class World:
    """The simulated world of one run: one policy over one trace."""

    trace: Trace
    manager: Manager
    remote: SimulatedRemote
    pace: RequestPace
    settings: RemoteSettings
    evaluations: int
    rng: np.random.Generator
    late: list[Refreshes] = field(default_factory=list)
    """refreshes that arrived after their deadline"""
    events: int = 0
    _done: deque[Evaluation] = field(default_factory=deque)

    @property
    def fetcher(self) -> KeyFetcher[FunctionSource]:
        """The fetcher that sends requests, and knows which keys are in flight or in back-off."""
        return cast("KeyFetcher[FunctionSource]", self.manager.endpoint)

    def run(self) -> Generator[Evaluation, None, None]:
        """Let time pass, and yield every evaluation when it is concluded.

        Where the deadline is longer than a step evaluations overlap, and a later one may be concluded before.
        """
        window = self.manager.window
        self._env = simpy.Environment(initial_time=window.start)
        self._places = simpy.Resource(self._env, capacity=self.settings.concurrency or 10**9)
        self._stream: simpy.Store = simpy.Store(self._env)
        self._numbers = TraceNumbers(self.trace.sns)
        self._env.process(self._arrivals())
        self._env.process(self._evaluations())
        while self._env.peek() < float("inf"):
            self._env.step()
            while self._done:
                yield self._done.popleft()

    def _arrivals(self) -> Process:
        """Put the arrivals up to each evaluation into the stream."""
        instants = (self.manager.window.instant(k) for k in range(1, self.evaluations + 1))
        for now, batch in self.trace.batches(instants):
            yield self._env.timeout(now - self._env.now)
            self.events += len(batch)
            self._stream.put(batch)

    def _evaluations(self) -> Process:
        """Start each evaluation when its arrivals are in."""
        for k in range(1, self.evaluations + 1):
            batch: TraceArrivals = yield self._stream.get()
            now, sns = self.manager.window.instant(k), self._slots(batch)
            self.events += 1
            if self.settings.instantaneous:
                self._done.append(self.manager.evaluate_slots(now, batch.t_ms, sns))
                continue
            decision = self.manager.decide(now, batch.t_ms, sns)
            self._env.process(self._evaluate(decision))

    def _slots(self, batch: TraceArrivals) -> Ints:
        """Return the slots of the lookup keys that arrived; those that the view lacks become misses."""
        slots = self._numbers.slots(self.manager.view.sns, batch.sn)
        if not (slots == NO_NUMBER).any():
            return slots
        return self.manager.view.sn_slots(batch.sn.tolist())

    def _evaluate(self, decision: Decision) -> Process:
        """Send the requests, wait for them until the deadline, answer with what has come."""
        batch = RequestBatch.of(self._env, decision, self.settings.deadline_ms, self.manager.window.step)
        view, chosen = self.manager.view, decision.selection.chosen.tolist()
        wanted: list[EntryId] = [(Kind(view.kinds[slot]), view.srs.keys[slot]) for slot in chosen]
        position = {entry: n for n, entry in enumerate(wanted)}
        had = float(self.manager.ledger.available)
        held_back: dict[EntryId, Outcome] = {}
        self.fetcher.backoff.begin_order()
        requests = {position[one.entries[0]]: one for one in self.fetcher.plan(wanted, decision.now, held_back)}
        sent = [self._env.process(self._request(batch, n, requests[n])) for n in sorted(requests)]
        yield self._env.all_of(sent) | batch.over
        here = {request.position for request in batch.finished}
        for n, what in enumerate(wanted):
            if n not in batch.started:
                why = held_back[what].error if what in held_back else NOT_SENT
                batch.finished.append(self._unsent(decision, n, what, why))
            elif n not in here:
                batch.finished.append(Request(n, what, PENDING, decision.now))
        refreshes = self._refreshes(decision, sorted(batch.finished, key=lambda request: request.position))
        spent = len(batch.started) * self.remote.price.of(1)
        evaluation = self.manager.conclude(decision, replace(refreshes, requests=len(batch.started), spent=spent))
        self._done.append(replace(evaluation, record=replace(evaluation.record, carried=had - spent)))

    def _request(self, batch: RequestBatch, position: int, request: FetchRequest) -> Process:
        """Wait for a place and for the rate limit, read, and bring what was read into the view."""
        began = self._env.now
        (what,) = request.entries
        with self._places.request() as place:
            yield place | batch.over
            wait = self.pace.wait(self._env.now)
            if not place.triggered or not batch.may_send(self._env.now, wait):
                return
            self.pace.start(self._env.now + wait)
            yield self._env.timeout(wait)
            batch.started.add(position)  # from now on it is on its way, and paid for
            self.fetcher.note_sent([request])
            self.pace.busy += 1
            self.manager.ledger.spend(self.remote.price.of(1))
            read_at = int(self._env.now)
            failed = self.rng.random() < self.settings.failure_rate
            reply = FAILED if failed else self.fetcher.source.fetch(replace(request, now=read_at))
            yield self._env.timeout(self.settings.draw(self.rng))
        (outcome,), _ = self.fetcher.settle(request, reply)
        self.pace.busy -= 1
        self.events += 1
        decision = batch.decision
        slot = decision.selection.chosen[position : position + 1]
        changed = self.manager.receive(slot, [what[1]], [outcome], read_at)[0]
        came = Request(
            position=position,
            what=what,
            error=outcome.error,
            read_at=read_at,
            took_ms=self._env.now - began,
            changed=bool(changed),
        )
        if batch.over.processed:
            self.late.append(self._refreshes(decision, [came], late=True))
        else:
            batch.finished.append(came)

    def _unsent(self, decision: Decision, position: int, what: EntryId, error: str | None) -> Request:
        """Report a request that was not sent to the policy, and return it."""
        slot = decision.selection.chosen[position : position + 1]
        self.manager.receive(slot, [what[1]], [Copy(error=error)], decision.now)
        return Request(position, what, error, decision.now, sent=False)

    def _refreshes(self, decision: Decision, came: list[Request], late: bool = False) -> Refreshes:
        """Return refreshes with the time at which each was read; late ones were counted when they were sent."""
        rows = len(came)
        places = np.array([request.position for request in came], dtype=np.int64)
        return Refreshes(
            srs=decision.selection.chosen[places],
            kinds=np.array([request.what[0] for request in came], np.int8),
            keys=[request.what[1] for request in came],
            gain=np.zeros(rows) if late else decision.selection.scores[places],
            changed=np.array([request.changed for request in came], bool),
            errors=[request.error for request in came],
            read_at=np.array([request.read_at for request in came], dtype=np.int64),
            sent=np.array([float(request.sent and not late) for request in came]),
            k=np.full(rows, decision.k),
            t_ms=np.full(rows, decision.now),
            late=np.full(rows, late),
            requests=rows,
            spent=rows * self.remote.price.of(1),
            fetch_ms=max((request.took_ms for request in came), default=0.0),
        )
