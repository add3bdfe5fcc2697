"""A budget for several views: where it brings most or by weights, with a part that nobody else can take.

Every period the budget is paid once and allocated: each view's minimum first, the rest by weights. Views that bid
before they open have theirs allocated anew among each other, by what each unit of money brings (`bids.py`). What a view
leaves when it has evaluated is there for those that come after it in the period, and then for the common bank.

Several threads may share it: what an evaluation may spend is reserved in the common ledger until it has spent. A thread
does one evaluation after the other, so what it reserved for an earlier one is back when it begins the next.

Several views may also ask their sources at the same time: each opens and decides, and keeps what its choice costs;
when all have, what nobody kept is divided among them for retries.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock, get_ident
from typing import Any

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.bids import Bid, allocate
from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule, Income, Ledger, exact
from freshkeeper.policies.base import Budget

NO_MONEY = Fraction(0)


@dataclass(eq=False)
class SharedBudget:
    """γ per period of event time, for all views together.

    >>> from freshkeeper import BudgetRule, SharedBudget
    >>> shared = SharedBudget(BudgetRule.of(4), period=1000)
    >>> news, blogs = shared.member("news"), shared.member("blogs", weight=3)
    >>> news.open(1000).available
    1.0
    >>> news.spend(1)
    >>> blogs.open(1000).available
    3.0
    """

    rule: BudgetRule
    period: int
    """milliseconds"""
    members: list["SharedIncome"] = field(default_factory=list)
    ledger: Ledger = field(init=False)
    """what all views together were paid and spent, with a reservation for every evaluation that has not spent yet"""
    overlapping: bool = False
    """whether an evaluation may begin while others of its thread wait for what they have chosen"""
    lock: Lock = field(default_factory=Lock)
    _period_number: int | None = None
    _allocated: Fraction = NO_MONEY
    """what belongs to views that have not evaluated in this period"""
    _minimum: Fraction = NO_MONEY
    """the minimum shares of all views together"""
    _holds: dict["SharedIncome", "Hold"] = field(default_factory=dict)
    """whose reservations there are"""
    _bids: dict["SharedIncome", Bid] = field(default_factory=dict)
    """bids of this period, by views that have not evaluated in it"""
    _dumped: int | None = None
    """the period whose parts were dumped last"""
    _unextended: int = 0
    """how many views keep what their choice costs and have not asked for more"""

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ConfigError(f"a budget is shared per period of at least 1 ms, not {self.period}")
        self.ledger = Ledger(self.rule)

    def summary(self) -> dict[str, float]:
        """Return what was spent, and what evaluations may spend that have decided and are still fetching."""
        with self.lock:
            decided = [self.ledger.reservations[one] for one, hold in self._holds.items() if hold.decided]
            return {"spent": float(self.ledger.spent), "reserved": float(sum(decided, NO_MONEY))}

    def member(self, name: str, weight: Amount = 1, minimum: Amount = 0, users: int = 1) -> Ledger:
        """Return a ledger for one view; `minimum` is the share of the budget that no other view can take.

        Of several `users` the weight is that of all together.
        """
        share, part = exact(minimum, f"the minimum share of {name}"), exact(weight, f"the weight of {name}")
        if part == 0 and share == 0:
            raise ConfigError(f"{name} has neither weight nor a minimum share: it would starve")
        with self.lock:
            if self._minimum + share > 1:
                raise ConfigError(f"the minimum shares up to that of {name} are more than the whole budget")
            added = SharedIncome(self, name=name, weight=part, minimum=share, users=users)
            self._minimum += share
            self.members.append(added)
        return Ledger(self.rule, paid_by=added)

    def leave(self, member: "SharedIncome") -> None:
        """Remove a view; what it had is there for the others."""
        with self.lock:
            self._give_back(member)
            self._bids.pop(member, None)
            if member in self.members:
                self.members.remove(member)
                self._minimum -= member.minimum
            self._count_allocated()

    @property
    def begun(self) -> bool:
        """True once a period has been paid for, here or in an earlier process whose state was loaded."""
        return self._period_number is not None

    def open(self, member: "SharedIncome", now: int) -> Fraction:
        """Reserve what a view may spend until it has spent, or until its thread begins another evaluation."""
        self._begin(member, now)
        self._allocate_by_bids()
        if not member.evaluated:
            self._allocated -= member.share
            member.evaluated, member.period = True, self._period_number
        free = self._free
        self._reserve(member, free, Hold(self._period_number, now, get_ident()))
        return free

    def most_available(self, member: "SharedIncome", now: int) -> Fraction:
        """Return what a view could have at most, if all bid and no other view got anything; nothing is reserved."""
        self._begin(member, now)
        return max(NO_MONEY, self.ledger.available)

    def bid(self, member: "SharedIncome", bid: Bid) -> None:
        """Take a bid before the view opens; a view that evaluates twice in a period has what is free."""
        if not member.evaluated:
            self._bids[member] = bid

    def keep(self, member: "SharedIncome", amount: Fraction) -> Fraction:
        """Keep of a reservation what the choice costs, and return it; the other views of this instant get the rest."""
        hold = self._holds.get(member)
        if hold is None or hold.period != self._period_number:
            return amount
        kept = min(amount, self.ledger.reservations[member])
        self._give_back(member)
        self._reserve(member, kept, replace(hold, decided=True))
        self._unextended += 1
        return kept

    def extend(self, member: "SharedIncome") -> Fraction:
        """Reserve and return a part of what no view kept, in whole units; views that ask later get as much."""
        hold = self._holds.get(member)
        if hold is None or not hold.decided or hold.extended:
            return NO_MONEY
        more = NO_MONEY
        if hold.period == self._period_number:
            more = self._free / self._unextended // self.rule.unit * self.rule.unit
        self._unextended -= 1
        self._reserve(member, more, replace(hold, extended=True))
        return more

    def claim(self, member: "SharedIncome", amount: Fraction) -> Fraction:
        """Reserve all that a view may have spent whose evaluation got a part of what the others of its instant left."""
        self._give_back(member)
        claimed = min(amount, self.ledger.available)
        self._reserve(member, claimed, Hold(self._period_number, 0, get_ident()))
        return claimed

    def spend(self, member: "SharedIncome", cost: Fraction, overdraft: bool) -> None:
        """Pay out of a view's reservation, which ends with it."""
        if self._give_back(member, cost):
            member.share = max(NO_MONEY, member.share - cost)
        self.ledger.overdraft |= overdraft
        self.ledger.spend(cost)

    @property
    def _free(self) -> Fraction:
        """The amount that is not reserved, and belongs to no view that may still come in this period."""
        return max(NO_MONEY, self.ledger.available - self._allocated)

    def _begin(self, member: "SharedIncome", now: int) -> None:
        """Begin an evaluation: earlier reservations of its thread end, and a new period is paid for."""
        over = [
            one
            for one, hold in self._holds.items()
            if one is member or (hold.ends(now) and not (self.overlapping and hold.decided))
        ]
        for one in over:
            self._give_back(one)
        self._move(now)

    def _reserve(self, member: "SharedIncome", amount: Fraction, hold: "Hold") -> None:
        self.ledger.reserve(member, amount)
        self._holds[member] = hold

    def _give_back(self, member: "SharedIncome", cost: Fraction = NO_MONEY) -> bool:
        """End a view's reservation; False if it was of an earlier period.

        Of an earlier period the cost is available, and of the rest as much as the bank has room for.
        """
        hold = self._holds.pop(member, None)
        amount = self.ledger.cancel(member)
        if hold is not None and hold.decided and not hold.extended:
            self._unextended -= 1
        if hold is None or hold.period == self._period_number:
            self.ledger.available += amount
            return True
        used = min(amount, cost)
        banked = min(amount - used, max(NO_MONEY, self.rule.bank - self.ledger.carried))
        self.ledger.available += used + banked
        self.ledger.carried += banked
        return False

    def _move(self, now: int) -> None:
        """Pay and allocate anew if a period has begun."""
        number = now // self.period
        if self._period_number is not None and number <= self._period_number:
            return
        periods = 1 if self._period_number is None else number - self._period_number
        for _ in range(periods):
            self.ledger.open()
        self._period_number = number
        self._bids.clear()
        self._allocate_by_weights()

    def check(self) -> None:
        """Raise BudgetError if all views together spent more than was paid."""
        self.ledger.check()

    def dump(self) -> dict[str, Any]:
        """Return what must survive a restart, beside the ledgers of the views."""
        with self.lock:
            reserved = sum(self.ledger.reservations.values(), NO_MONEY)
            purse = self.ledger.dump() | {"available": str(self.ledger.available + reserved)}
            return {"purse": purse, "period": self._period_number}

    def dump_parts(self) -> list[list[str]] | None:
        """Return how the budget was allocated, once a period; later changes of a view are in its own ledger."""
        with self.lock:
            if self._dumped == self._period_number:
                return None
            self._dumped = self._period_number
            return [[str(one.share), str(one.due)] for one in self.members]

    def load(self, state: Mapping[str, Any], parts: Sequence[Sequence[str]]) -> None:
        """Resume from an earlier run, when all views are there and have their ledgers."""
        self.ledger.load(state["purse"])
        self._period_number = state["period"]
        for one, (share, due) in zip(self.members, parts, strict=False):
            if one.period != self._period_number:
                one.share, one.due, one.evaluated = Fraction(share), Fraction(due), False
        self._count_allocated()

    def _allocate_by_weights(self) -> None:
        """Allocate whole units; the view with the largest remainder is first to get what cannot be divided.

        A view that was given more than was due before has its minimum all the same: others wait for theirs.
        """
        unit, available = self.rule.unit, self.ledger.available
        weights = sum((one.weight for one in self.members), NO_MONEY)
        minimums = sum((one.minimum for one in self.members), NO_MONEY)
        by_weight = 1 - minimums
        least = {one: max(NO_MONEY, one.minimum * available // unit * unit) for one in self.members}
        for one in self.members:
            part = one.minimum
            if weights:
                part += one.weight / weights * by_weight
            one.due = min(one.due, unit) + part * available
            one.share = max(least[one], one.due // unit * unit)
            one.evaluated = False
        spare = available - sum((one.share for one in self.members), NO_MONEY)
        # By what views are due beyond their share; the other way round where something is to be taken back.
        for one in sorted(self.members, key=lambda one: one.due - one.share, reverse=spare >= 0):
            if abs(spare) < unit:
                break
            step = unit if spare > 0 else -min(-spare // unit * unit, one.share - least[one])
            one.share, spare = one.share + step, spare - step
        for one in self.members:
            one.due -= one.share
        self._count_allocated()

    def _allocate_by_bids(self) -> None:
        """Allocate what belongs to views that have bid, and what is free, where it brings most, in whole units."""
        bids, self._bids = self._bids, {}
        if not bids:
            return
        unit, bidders = self.rule.unit, list(bids)
        others = sum((one.share for one in self.members if not one.evaluated and one not in bids), NO_MONEY)
        units = int(max(NO_MONEY, self.ledger.available - others) / unit)
        sure = [min(one.share, one.minimum * self.rule.per_evaluation) for one in bidders]
        shares = allocate(
            units,
            list(bids.values()),
            float(unit),
            [float(one.weight / one.users) for one in bidders],
            [math.ceil(amount / unit) for amount in sure],
        )
        for one, share in zip(bidders, shares, strict=True):
            one.share = share * unit
        self._count_allocated()

    def _count_allocated(self) -> None:
        self._allocated = sum((one.share for one in self.members if not one.evaluated), NO_MONEY)


@dataclass(frozen=True)
class Hold:
    """The period, the instant and the thread of a reservation in the common ledger."""

    period: int | None
    now: int
    thread: int
    decided: bool = False
    """whether the evaluation has decided, so that what is reserved is what its choice costs"""
    extended: bool = False

    def ends(self, now: int) -> bool:
        """Return whether it is over because its thread begins another evaluation at this instant."""
        return self.thread == get_ident() and not (self.decided and self.now == now)


@dataclass(eq=False)
class SharedIncome(Income):
    """A view's part of a shared budget, as the income of its ledger."""

    budget: SharedBudget
    name: str
    weight: Fraction
    minimum: Fraction
    users: int = 1
    """how many queries have the view, whose demand is that of all"""
    share: Fraction = NO_MONEY
    """what is left of its part of this period"""
    due: Fraction = NO_MONEY
    """what it was given too little or too much, below one unit"""
    evaluated: bool = False
    """whether it has evaluated in this period"""
    period: int | None = None
    """in which it evaluated last"""

    def open(self, ledger: Ledger) -> Budget:
        with self.budget.lock:
            ledger.available, ledger.paid = self.budget.open(self, ledger.now), self.share
            ledger.carried = max(NO_MONEY, ledger.available - ledger.paid)
        return Budget(float(ledger.available), float(ledger.paid), float(ledger.rule.bank))

    def most_available(self, now: int) -> Budget:
        """Return what the view could have at most; nothing is reserved."""
        with self.budget.lock:
            most = self.budget.most_available(self, now)
        rule = self.budget.rule
        return Budget(float(most), float(rule.per_evaluation), float(rule.bank))

    def bid(self, answers: Floats, cost: Floats) -> None:
        """Bid with the choice that the view would make with all that, best first: answers of each entry, and cost."""
        with self.budget.lock:
            self.budget.bid(self, Bid(answers, cost))

    def keep(self, ledger: Ledger, amount: Fraction) -> None:
        with self.budget.lock:
            ledger.available = self.budget.keep(self, min(ledger.available, amount))

    def extend(self, ledger: Ledger) -> None:
        with self.budget.lock:
            ledger.available += self.budget.extend(self)

    def claim(self, ledger: Ledger, amount: Fraction) -> Fraction:
        with self.budget.lock:
            ledger.available = self.budget.claim(self, amount)
        return ledger.available

    def spend(self, ledger: Ledger, cost: Fraction) -> None:
        with self.budget.lock:
            self.budget.spend(self, cost, ledger.overdraft)

    def balance(self, ledger: Ledger) -> str:
        return f"{self.name} has {ledger.available} cost units of the shared budget"

    def dump(self) -> dict[str, Any]:
        return {"own": str(self.share), "due": str(self.due), "period": self.period}

    def load(self, state: Mapping[str, Any]) -> None:
        self.share, self.due = Fraction(state["own"]), Fraction(state["due"])
        self.period, self.evaluated = state["period"], True

    def check(self, ledger: Ledger) -> None:
        self.budget.check()
