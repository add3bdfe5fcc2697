"""What a person on call needs to know of a service: of each query, view, source and stream how it is, and how it was.

The last evaluations of queries and views are kept in columns, so that memory is flat. The thread that evaluates writes
them, and /status, /metrics and the page read the same numbers.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.audit import Measured
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget, SharedIncome
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.serve.look_up import key_text
from freshkeeper.maintenance.serve.service import Service
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.policies.base import NEVER

KEPT = 720
"""Evaluations of each query and view that are remembered."""
LATELY = 60
"""Those of which rates and shares are told."""
STALEST = 10
"""Cached entries that are named, the most likely stale first."""
AGAIN = 1.0
"""Seconds before the stalest of a view are looked for again."""
GAPS = 100
CHECKED = 1_000
"""Audited answers that are remembered."""
OF_QUERY = ("wall_ms", "t", "answers", "errors", "took_ms")
OF_VIEW = (
    "wall_ms", "t", "results", "expected_fresh", "checked", "checked_fresh", "budget", "spent", "carried", "candidates",
    "missed", "errors", "requests", "fetch_ms",
)  # fmt: skip
Keep = Mapping[str, list[float | None]]


@dataclass(eq=False)
class Track:
    """The last evaluations of one thing, a column for each number."""

    names: Sequence[str]
    capacity: int = KEPT
    count: int = 0
    """of all evaluations so far"""

    def __post_init__(self) -> None:
        self._rows = np.full((self.capacity, len(self.names)), np.nan)

    def add(self, *row: float) -> None:
        """One more, in the order of the names."""
        self._rows[self.count % self.capacity] = row
        self.count += 1

    def last(self, count: int, name: str) -> Floats:
        """The last values of one number, oldest first."""
        many = min(count, self.count, self.capacity)
        places = np.arange(self.count - many, self.count) % self.capacity
        found: Floats = self._rows[places, self.names.index(name)]
        return found

    def columns(self, count: int) -> Keep:
        """The last values of all numbers, oldest first; None where there is none."""
        return {name: [_number(one) for one in self.last(count, name).tolist()] for name in self.names}


@dataclass(eq=False)
class ViewTrack:
    """What is remembered of one view."""

    track: Track = field(default_factory=lambda: Track(OF_VIEW))
    stalest: list[dict[str, Any]] = field(default_factory=list)
    looked: float = -math.inf
    last_error: str | None = None


@dataclass(eq=False)
class Status:
    """All of it; `version` grows with every evaluation."""

    version: int = 0
    clock: Callable[[], float] = time.time
    gaps: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=GAPS))
    """stretches of streams of which nothing is known, as while a source of elements was away"""
    audits: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=CHECKED))
    """answers that were checked, the last ones"""
    _queries: dict[str, Track] = field(default_factory=dict)
    _views: WeakKeyDictionary[Manager, ViewTrack] = field(default_factory=WeakKeyDictionary)

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        """One evaluation of a view, from the thread that evaluates."""
        known = self._views.get(manager)
        if known is None:
            known = self._views[manager] = ViewTrack()
        record, verdicts = evaluation.record, [audit.fresh for audit in evaluation.audits if audit.fresh is not None]
        known.track.add(
            self.clock() * 1000, record.t_ms, record.results, record.expected_fresh, len(verdicts), sum(verdicts),
            record.budget, record.spent, record.carried, record.candidates, record.missed, record.errors,
            record.requests, record.fetch_ms,
        )  # fmt: skip
        known.last_error = next((shown(e) for e in evaluation.refreshes.errors if e is not None), known.last_error)
        for one in evaluation.audits:
            keys, read = [key_text(sr) for sr in one.srs], list(one.refreshed)
            told = {"t": record.t_ms, "view": source, "key": key_text(one.sn), "entries": keys, "fetched_ms": read}
            self.audits.append(told | {"fresh": one.fresh})
        if (now := time.monotonic()) >= known.looked + AGAIN:
            known.looked, known.stalest = now, _stalest(manager, evaluation)
        self.version += 1

    def answered(self, result: Result, took: float) -> None:
        """One evaluation of a query is out, after so many seconds."""
        track = self._queries.get(result.query)
        if track is None:
            track = self._queries[result.query] = Track(OF_QUERY)
        track.add(self.clock() * 1000, result.t, len(result.answers), result.errors, took * 1000)
        self.version += 1

    def forget(self, query: str) -> None:
        """A query is no more."""
        self._queries.pop(query, None)

    def gap(self, stream: str, since: int | None, until: int | None, why: str) -> None:
        """Elements of a stream between two instants may be missing."""
        self.gaps.append({"stream": stream, "since": since, "until": until, "why": why, "wall_ms": self.clock() * 1000})
        self.version += 1

    def as_json(self, service: Service, history: int = 0) -> dict[str, Any]:
        """Everything as JSON has it, with so many evaluations that are over."""
        views = self._by_view(service)
        numbers = {manager: number for number, manager in enumerate(views)}
        queries = [self._query(service, one, numbers, history) for one in list(service.queries.all.values())]
        return {
            "version": self.version,
            "wall_ms": int(self.clock() * 1000),
            "watermark": service.watermark,
            "late": service.late,
            "waiting_bytes": service.waiting,
            "queries": queries,
            "shared_budget": _shared(service),
            "views": [self._view(manager, *views[manager], history) for manager in views],
            "sources": [self.source(service, name) for name in service.queries.sources],
            "streams": [self._stream(service, name) for name in service.streams],
            "gaps": list(self.gaps),
        }

    def state(self, service: Service, name: str) -> str:
        """Running, paused or failed."""
        if name in service.failures:
            return "failed"
        return "running" if name in service.queries.running else "paused"

    def source(self, service: Service, name: str) -> dict[str, Any]:
        """One source: what limits it, what it cost, whether it answers."""
        source, managers = service.queries.sources[name], [m for m, v in self._by_view(service).items() if v[0] == name]
        tracks = [self._views[manager].track for manager in managers if manager in self._views]
        errors = sum(float(np.nansum(track.last(LATELY, "errors"))) for track in tracks)
        said = [self._views[m].last_error for m in managers if m in self._views and self._views[m].last_error]
        price = source.price
        return {
            "name": name,
            "volatile": list(source.volatile),
            "price": {"per_request": price.per_request, "per_key": price.per_key, "batch": price.batch},
            **_limits(source),
            "spent": sum(float(manager.ledger.spent) for manager in managers),
            "requests": sum(float(np.nansum(track.last(LATELY, "requests"))) for track in tracks),
            "errors": errors,
            "last_error": said[-1] if said else None,
        }

    def left_alone(self, service: Service) -> dict[str, str]:
        """The sources that running queries need and that are not asked for now, as their breaker is open.

        One that would be asked again is not among them: without evaluations nobody would, and nothing would end it.
        """
        needed = dict.fromkeys(name for name, _ in self._by_view(service).values())
        limits = {name: _limits(service.queries.sources[name])["breaker"] for name in needed}
        return {
            name: f"failed {breaker['failures']} times in a row"
            for name, breaker in limits.items()
            if breaker is not None and breaker["tried_again_in_s"] > 0
        }

    def _by_view(self, service: Service) -> dict[Manager, tuple[str, list[str]]]:
        """The views of running queries: of which source, and whose they are."""
        found: dict[Manager, tuple[str, list[str]]] = {}
        for query in list(service.queries.running):
            for source, view in service.queries.views_of(query):
                found.setdefault(view.manager, (source, []))[1].append(query)
        return found

    def _query(
        self, service: Service, one: RegisteredQuery, numbers: Mapping[Manager, int], history: int
    ) -> dict[str, Any]:
        name, track = one.name, self._queries.get(one.name, Track(OF_QUERY, 1))
        running = service.queries.running.get(name)
        answered = service.queries.progress(name).answered if running is not None else None
        times, wall = track.last(LATELY, "t"), track.last(LATELY, "wall_ms")
        apart = (wall[-1] - wall[0]) / 1000 if wall.size > 1 else 0.0
        views = [numbers[view.manager] for _, view in service.queries.views_of(name) if view.manager in numbers]
        clock = int(self.clock() * 1000)
        return {
            "name": name,
            "state": self.state(service, name),
            "failure": service.failures.get(name),
            "evaluator": None if running is None else "snapshot" if running.dictionary is None else "native",
            "streams": [] if running is None else list(running.streams),
            "views": views,
            "answered": answered,
            "lag_ms": None if answered is None else max(0, (service.watermark or 0) - answered),
            "behind_clock_ms": None if answered is None else clock - answered,
            "evaluations": track.count,
            "evaluations_per_s": (wall.size - 1) / apart if apart > 0 else None,
            "answers_per_s": float(track.last(LATELY, "answers")[1:].sum()) / apart if apart > 0 else None,
            "last": {key: column[-1] for key, column in track.columns(1).items()} if times.size else None,
            "history": track.columns(history) if history else None,
        }

    def _view(self, manager: Manager, source: str, queries: list[str], history: int) -> dict[str, Any]:
        known, ledger = self._views.get(manager, ViewTrack()), manager.ledger
        track, rule = known.track, manager.ledger.rule
        results, expected, checked, fresh = (
            float(track.last(LATELY, name).sum()) for name in ("results", "expected_fresh", "checked", "checked_fresh")
        )
        measured = Measured(int(fresh), int(checked))
        target = ledger.income.controller.target if isinstance(ledger.income, TargetIncome) else None
        shared = isinstance(ledger.income, SharedIncome)
        return {
            "source": source,
            "queries": queries,
            "policy": manager.policy.name,
            "case": manager.case.value,
            "freshness": {
                "over": min(LATELY, track.count),
                "believed": expected / results if results else None,
                "audited": measured.share,
                "interval": list(measured.interval) if measured.checked else None,
                "checked": measured.checked,
                "target": target,
            },
            "budget": {"per_evaluation": float(rule.per_evaluation), "bank": float(rule.bank), "shared": shared},
            "ledger": {
                "evaluations": ledger.evaluations, "spent": float(ledger.spent), "left": float(ledger.available),
                "paid": None if shared else float(rule.paid(ledger.evaluations)),
            },
            "entries": len(manager.view.srs) - len(manager.view.misses),
            "missing": len(manager.view.misses),
            "errors": float(track.last(LATELY, "errors").sum()),
            "last_error": known.last_error,
            "stalest": known.stalest,
            "last": {key: column[-1] for key, column in track.columns(1).items()} if track.count else None,
            "history": track.columns(history) if history else None,
        }  # fmt: skip

    def _stream(self, service: Service, name: str) -> dict[str, Any]:
        return {"name": name, **service.stream(name), "gaps": [gap for gap in self.gaps if gap["stream"] == name]}


def _shared(service: Service) -> dict[str, Any] | None:
    """The budget that all queries have together, those that are no more included."""
    budget = service.queries.settings.budget
    if not isinstance(budget, SharedBudget):
        return None
    ledger = budget.ledger
    return {
        "per_period": float(budget.rule.per_evaluation), "period_ms": budget.period, "periods": ledger.evaluations,
        "paid": float(budget.rule.paid(ledger.evaluations)), **budget.summary(),
        "members": len(budget.members),
    }  # fmt: skip


def _limits(source: Source) -> dict[str, Any]:
    """What keeps requests to a source within bounds; a source inside the process has nothing of it."""
    dispatcher = source.transport.dispatcher
    if dispatcher is None:
        return {"kind": "embedded", "limits": [], "breaker": None, "room": None, "under_way": 0, "sent": None}
    limiter, breaker = dispatcher.limiter, dispatcher.limiter.breaker
    now = limiter.clock()
    state = "closed" if breaker.opened is None else "open" if breaker.probing is None else "probing"
    room = limiter.room()
    return {
        "kind": "remote",
        "limits": [{"limit": one.rate.written, "free": one.free(now)} for one in limiter.limits],
        "breaker": {"state": state, "failures": breaker.failed, "tried_again_in_s": round(breaker.wait(now), 1)},
        "room": None if room == math.inf else room,
        "under_way": dispatcher.busy,
        "sent": limiter.sent,
    }


def _stalest(manager: Manager, evaluation: Evaluation) -> list[dict[str, Any]]:
    """The entries in the windows whose copies are the most likely stale, each with what it would cost to fetch it."""
    join = evaluation.join
    _, srs = join.rows
    here = np.unique(srs)
    here = here[here < join.copies.size]
    worst = here[np.argsort(join.copies[here], kind="stable")[:STALEST]]
    view, now = manager.view, join.now
    found = []
    for slot in worst.tolist():
        key, read = view.srs.keys[slot], int(view.last_refresh[slot])
        if key is not None:
            found.append({
                "key": key_text(key), "freshness": round(float(join.copies[slot]), 6),
                "age_ms": None if read == NEVER else now - read, "missing": int(view.kinds[slot]) == Kind.MISS,
                "weight": int(manager.graph.tallies.total[slot]), "cost": manager.endpoint.price.of(1),
            })  # fmt: skip
    return found


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
