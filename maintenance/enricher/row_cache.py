"""Rows by key, read by anybody at any time, and kept fresh in rounds by one manager: what all enrichers have in common.

`get` reads cells and never waits for a round. A round takes in what was asked for since the last one, lets the policy
choose, fetches, and lays out new cells and beliefs. Keys that are not there are queued, fetched out of the reserve, and
handed to the next round. Nothing here knows of threads' or event loops' ways to wait.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.enricher.cached_row import HELD, CachedRow, Cell, nothing
from freshkeeper.maintenance.enricher.callers import in_this_thread
from freshkeeper.maintenance.enricher.counts import Counts
from freshkeeper.maintenance.enricher.lookup_source import LookupSource, RowFetcher, row_fetcher
from freshkeeper.maintenance.enricher.reserve import Reserve
from freshkeeper.maintenance.enricher.reuse_gaps import ReuseGaps
from freshkeeper.maintenance.enricher.settings import EnricherSettings
from freshkeeper.maintenance.fetching.asking import Waiting, finished
from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded
from freshkeeper.maintenance.fetching.requests import Executor, SentRequest
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.policies.base import NEVER

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.stored_rows import StoredRows

Beliefs: TypeAlias = "tuple[int, memoryview, memoryview]"
"""Since when, how likely each slot's copy is fresh then, and how much more a millisecond later; new ones come last."""
NEW_KEYS = 4
"""Keys that are not there enter a round up to so many times as many as its budget fetches: the most asked for."""
STEPS, LONGEST = 8, 7 * 86_400_000
"""A horizon that is learned has at least so many steps, and is no longer than this, in ms."""
SPARE = 20
"""A full cache lets go of a part of so many more than it must, so that it does not have to in every round."""


@dataclass(eq=False)
class RowCache:
    """The rows of one enricher."""

    settings: EnricherSettings
    fetcher: RowFetcher
    start: int
    """the first instant of the window's grid"""
    ledger: Reserve = field(init=False)
    manager: Manager = field(init=False)
    counts: Counts = field(default_factory=Counts)
    cells: dict[Hashable, Cell] = field(default_factory=dict)
    reuse: ReuseGaps = field(default_factory=ReuseGaps)
    last: int | None = None
    """the last round"""
    _round: int = 0
    _touched: deque[Cell] = field(default_factory=deque)
    """cells that were asked for since the last round"""
    _wanted: dict[Hashable, int] = field(default_factory=dict)
    """keys that were not there, and how often they were asked for"""
    _queue: list[Hashable] = field(default_factory=list)
    """of them those that are to be fetched at once"""
    _came: deque[tuple[int, list[tuple[Hashable, Copy]]]] = field(default_factory=deque)
    _forgotten: deque[Hashable] = field(default_factory=deque)
    _new: list[Cell] = field(default_factory=list)
    """cells that have no slot yet"""
    _beliefs: Beliefs = field(init=False)
    _lock: Lock = field(default_factory=Lock)
    """of what misses leave"""

    stored: "StoredRows | None" = None

    def __post_init__(self) -> None:
        settings, known = self.settings, self.settings.believed()
        first = settings.first_horizon if self.stored is None else self.stored.horizon(settings.first_horizon)
        self.ledger = settings.ledger()
        self.manager = Manager(
            settings.window(self.start, first), self.fetcher, settings.planned(), self.ledger,
            known if self.stored is None else self.stored.recording(known),
            seed=settings.seed, answers=False, audit=settings.audit,
        )  # fmt: skip
        self._beliefs = (self.start, np.ones(1).data, np.zeros(1).data)
        if self.stored is not None:
            self._restore(self.stored.restored(self.manager, self.fetcher.source))

    def row(self, key: Hashable, now: int) -> CachedRow | None:
        """What is held of a key; this is all that a hit costs."""
        cell = self.cells.get(key)
        if cell is None:
            return None
        cell.asked += 1  # two threads at once may count as one: nothing but demand is made of it
        if cell.round != self._round:
            cell.round = self._round
            self._touched.append(cell)
        value, fetched = cell.copy
        since, fresh, slope = self._beliefs
        slot = cell.slot
        chance = fresh[slot] + slope[slot] * (now - since if slot != HELD else now - fetched)
        return CachedRow(value, chance if chance > 0.0 else 0.0, now - fetched, True)

    def want(self, key: Hashable, fetch: bool) -> None:
        """A key is not there: it counts as asked for, and is queued where it is to be fetched at once."""
        with self._lock:
            self.counts.misses += 1
            self._wanted[key] = self._wanted.get(key, 0) + 1
            if fetch:
                self._queue.append(key)

    def next_request(self, now: int, executor: Executor) -> SentRequest | None:
        """Ask for queued keys, as many as one request holds, if the reserve pays for it."""
        with self._lock:
            keys = self._queue[: self.settings.pricing.batch]
            cost = self.settings.pricing.paid(1, len(keys))
            if not keys or self.fetcher.capacity(now) <= 0 or not self.ledger.take(cost):
                return None
            del self._queue[: len(keys)]
            self.counts.requests += 1
            self.counts.at_once += len(keys)
        return self.fetcher.start(Kind.MISS, keys, now, executor)

    def pay(self) -> bool:
        """Take one request out of the reserve, if it pays for one."""
        with self._lock:
            paid = self.ledger.take(self.settings.pricing.paid(1, 1))
            self.counts.requests += paid
            return paid

    @property
    def queued(self) -> bool:
        """Whether a key is to be fetched at once."""
        return bool(self._queue)

    def abandoned(self) -> list[Hashable]:
        """The queued keys that nothing is left for."""
        with self._lock:
            left, self._queue = self._queue, []
            return left

    def received(self, sent: SentRequest) -> dict[Hashable, CachedRow]:
        """What came of queued keys; the next round hears of it."""
        rows: dict[Hashable, CachedRow] = {}
        good: list[tuple[Hashable, Copy]] = []
        request = sent.request
        outcomes, _ = self.fetcher.settle(request, sent.reply())
        for key, result in zip(request.keys, outcomes, strict=True):
            if isinstance(result, Copy) or result.error is not None:
                rows[key] = nothing(result.error or "")
                continue
            copy = result.copies[key]
            self.cells[key] = Cell(key, copy.value, request.now)
            good.append((key, copy))
            rows[key] = CachedRow(copy.value, 1.0, 0, False)
        with self._lock:
            self.counts.failed += len(rows) - len(good)
        if good:
            self._came.append((request.now, good))
        return rows

    def turn(self, now: int) -> Waiting[Evaluation]:
        """One round, pausing while its requests are on their way."""
        self._take_in()
        sns = self._arrived(now)
        decision = self.manager.decide(now, np.full(sns.size, now), sns)
        if self.stored is not None:
            self.stored.intend(decision)
        refreshes = yield from self.manager.fetching(decision)
        evaluation = self.manager.conclude(decision, refreshes)
        self._lay_out(evaluation)
        self._evict()
        self._believe(now)
        self._look_ahead(now)
        if self.stored is not None:
            self.stored.commit(evaluation, sns)
        self.last = now
        self.counts.note(evaluation, len(self.cells), float(self.ledger.spent))
        return evaluation

    def forget(self, key: Hashable) -> None:
        """Somebody knows that a row has changed: it is fetched again when it is next asked for."""
        self._forgotten.append(key)
        self.cells.pop(key, None)

    def _restore(self, last: int | None) -> None:
        """The rows of an earlier run, which nobody has asked for yet."""
        view, self.last = self.manager.view, last
        for key, slot in view.srs.numbers.items():
            if view.last_refresh[slot] != NEVER:
                self.cells[key] = Cell(key, view.values[slot], int(view.last_refresh[slot]))
                self.cells[key].seen = HELD
                self._place(self.cells[key])
        if last is not None:
            self._believe(last)

    def _take_in(self) -> None:
        """Rows that were fetched between rounds become the view's."""
        view = self.manager.view
        while self._forgotten:
            if (slot := view.srs.numbers.get(self._forgotten.popleft())) is not None:
                view.last_refresh[slot] = NEVER
        while self._came:
            at, rows = self._came.popleft()
            view.sn_slots([key for key, _ in rows])
            missed = [(view.misses[key], key, Expanded({key: copy})) for key, copy in rows if key in view.misses]
            known = [(view.srs.numbers[key], key, copy) for key, copy in rows if key not in view.misses]
            for part in (missed, known):
                if part:
                    slots = np.array([slot for slot, _, _ in part], np.int32)
                    self.manager.receive(slots, [key for _, key, _ in part], [one for _, _, one in part], at)
            for key, _ in rows:
                if (cell := self.cells.get(key)) is not None:
                    self._place(cell)

    def _look_ahead(self, now: int) -> None:
        """Demand is counted within the horizon that is said, or else within the one that was learned."""
        settings, held = self.settings, self.manager.window.range
        wanted = settings.first_horizon
        if settings.horizon is None:
            wanted = self.reuse.horizon(held, STEPS * settings.every, LONGEST)
        if wanted != held:
            self.manager.move_to(settings.window(self.start, wanted), now)
            LOGGER.info("%s: keys that were asked for count as needed for %s", settings.name, to_unit(wanted))

    def _arrived(self, now: int) -> Ints:
        """The SNs that were asked for since the last round, each as often as it was."""
        self._round += 1
        sns, counts, gaps = [], [], []
        for _ in range(len(self._touched)):
            cell = self._touched.popleft()
            asked, cell.asked = cell.asked, 0
            self.counts.hits += asked
            if cell.seen != HELD:
                gaps.append(now - cell.seen)
            cell.seen = now
            if cell.sn != HELD:
                sns.append(cell.sn)
                counts.append(asked)
        self.reuse.note(gaps)
        new = self._most_wanted()
        sns += self.manager.view.sn_slots(new).tolist()
        counts += new.values()
        return np.repeat(np.array(sns, np.int64), np.array(counts, np.int64))

    def _most_wanted(self) -> dict[Hashable, int]:
        """The keys that are not there and were asked for most; the rest waits, or is forgotten where it is too much."""
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        numbers = self.manager.view.sns.numbers
        known = {key: count for key, count in wanted.items() if key in numbers}
        new = sorted((key for key in wanted if key not in numbers), key=lambda key: -wanted[key])
        rule = self.ledger.rule
        most = 64 + NEW_KEYS * int(float(rule.per_evaluation + rule.bank) / max(self.settings.pricing.each, 1e-9))
        with self._lock:
            for key in new[most : most + self.settings.capacity]:
                self._wanted[key] = self._wanted.get(key, 0) + wanted[key]
        return known | {key: wanted[key] for key in new[:most]}

    def _lay_out(self, evaluation: Evaluation) -> None:
        """New copies into the cells; the cells of keys that were missing are there from now on."""
        view, refreshes = self.manager.view, evaluation.refreshes
        came = zip(refreshes.keys, refreshes.errors, strict=True)
        for key in [key for key, error in came if error is None]:
            slot = view.srs.numbers.get(key)
            if slot is None or view.last_refresh[slot] == NEVER:
                continue
            copy = view.values[slot], int(view.last_refresh[slot])
            cell = self.cells.get(key)
            if cell is None:
                self.cells[key] = Cell(key, *copy)
                self._place(self.cells[key])
            elif copy[1] >= cell.copy[1]:
                cell.copy = copy

    def _place(self, cell: Cell) -> None:
        """The view has it now; its beliefs are laid out at the end of the round."""
        cell.sn = self.manager.view.sns.numbers[cell.key]
        self._new.append(cell)

    def _evict(self) -> None:
        """Let go of the least asked for, however lately, until there is room."""
        view, capacity = self.manager.view, self.settings.capacity
        excess = len(view.srs) - capacity
        if excess <= 0:
            return
        slots = np.fromiter(view.sns.numbers.values(), np.int64, len(view.sns))
        often = view.graph.window.tallies.rates.counts[slots]
        least = np.argsort(often, kind="stable")[: excess + capacity // SPARE]
        for slot in slots[least].tolist():
            if (cell := self.cells.pop(view.sns.keys[slot], None)) is not None:
                cell.sn = HELD
        view.release(slots[least])
        self.counts.evicted += int(least.size)

    def _believe(self, now: int) -> None:
        """How likely each copy is fresh until the next round; slots that are new in it come after their beliefs."""
        view, every = self.manager.view, self.settings.every
        held = view.last_refresh
        beliefs = self.manager.model.beliefs(np.array([now, now + every]), held, False)
        slope = (beliefs.kept[:, 1] - beliefs.kept[:, 0]) / every
        new = (beliefs.refreshed[held != NEVER, 1] - 1.0) / every
        fresh = np.append(beliefs.kept[:, 0], 1.0)
        self._beliefs = now, fresh.data, np.append(slope, new.mean() if new.size else 0.0).data
        numbers = view.srs.numbers
        for cell in self._new:
            cell.slot = numbers.get(cell.key, HELD) if cell.sn != HELD else HELD
        self._new.clear()


def warm_up() -> None:
    """Load what rounds need before anybody waits for it: compiled loops take a moment, in which no thread runs."""
    settings = EnricherSettings(_keys_themselves, "9/s")
    cache = RowCache(settings, row_fetcher(LookupSource(_keys_themselves), in_this_thread, settings.pricing), 0)
    for n in range(3):
        for key in range(n + 1):
            cache.want(key, False)
        finished(cache.turn(1 + n * settings.every))


def _keys_themselves(keys: list[Hashable]) -> dict[Hashable, Hashable]:
    return {key: key for key in keys}
