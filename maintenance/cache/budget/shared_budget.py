"""One budget for several views: where it brings most or by weights, with a part that nobody else can take.

Every period the budget is paid once and parted: each member's minimum first, the rest by weights. Members that bid
before they open part theirs anew among each other, by what each unit of money brings (`bids.py`). What a member leaves
when it has evaluated is there for those that come after it in the period, and then for the common bank.

Several threads may share it: what an evaluation may spend is taken out of the purse until it has spent. A thread does
one evaluation after the other, so what it took for an earlier one is back when it begins the next.

Several views may also ask their sources at the same time: each opens and decides, and keeps what its choice costs;
when all have, what nobody kept is parted among them for second tries.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock, get_ident
from typing import Any

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.maintenance.cache.budget.bids import Bid, parted
from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule, Ledger, exact
from freshkeeper.policies.base import Budget


@dataclass(eq=False)
class SharedBudget:
    """γ per period of event time, for all members together.

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
    members: list["Member"] = field(default_factory=list)
    _whole: Ledger = field(init=False)
    overlapping: bool = False
    """whether an evaluation may begin while others of its thread wait for what they have chosen"""
    lock: Lock = field(default_factory=Lock)
    _now: int | None = None
    _reserved: Fraction = Fraction(0)
    """what belongs to members that have not evaluated in this period"""
    _minimum: Fraction = Fraction(0)
    """the minimum shares of all members together"""
    _holding: dict["Member", "Held"] = field(default_factory=dict)
    _bids: dict["Member", Bid] = field(default_factory=dict)
    """of this period, by members that have not evaluated in it"""
    _dumped: int | None = None
    """the period whose parts were dumped last"""
    _waiting: int = 0
    """how many keep what their choice costs and have not asked for more"""

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ConfigError(f"a budget is shared per period of at least 1 ms, not {self.period}")
        self._whole = Ledger(self.rule)

    @property
    def whole(self) -> Ledger:
        """What all members together were paid and spent."""
        return self._whole

    def summary(self) -> dict[str, float]:
        """What was spent, and what evaluations may spend that have decided and are still asking."""
        with self.lock:
            reserved = sum((held.amount for held in self._holding.values() if held.decided), Fraction(0))
            return {"spent": float(self._whole.spent), "reserved": float(reserved)}

    def member(self, name: str, weight: Amount = 1, minimum: Amount = 0, users: int = 1) -> "Member":
        """The ledger of one view; `minimum` is the share of the budget that is its own whatever the others want.

        Of several `users` the weight is that of all together.
        """
        share, part = exact(minimum, f"the minimum share of {name}"), exact(weight, f"the weight of {name}")
        if part == 0 and share == 0:
            raise ConfigError(f"{name} has neither weight nor a minimum share: it would starve")
        with self.lock:
            if self._minimum + share > 1:
                raise ConfigError(f"the minimum shares up to that of {name} are more than the whole budget")
            added = Member(self.rule, shared=self, name=name, weight=part, minimum=share, users=users)
            self._minimum += share
            self.members.append(added)
        return added

    def leave(self, member: "Member") -> None:
        """A view is no more: what it held is there for the others."""
        with self.lock:
            self._give_back(member)
            self._bids.pop(member, None)
            if member in self.members:
                self.members.remove(member)
                self._minimum -= member.minimum
            self._reserve()

    @property
    def begun(self) -> bool:
        """Whether a period has been paid for, here or in an earlier process whose state was loaded."""
        return self._now is not None

    def open(self, member: "Member", now: int) -> Fraction:
        """What a member may spend: nobody else can until it has spent, or its thread begins another evaluation."""
        self._begin(member, now)
        self._part_by_value()
        if not member.done:
            self._reserved -= member.own
            member.done, member.period = True, self._now
        free = self._free
        self._hold(member, Held(free, self._now, now, get_ident()))
        return free

    def foreseen(self, member: "Member", now: int) -> Fraction:
        """What a member could have at most, if all bid and nobody else got anything."""
        self._begin(member, now)
        return max(Fraction(0), self._whole.available)

    def bid(self, member: "Member", bid: Bid) -> None:
        """What money would bring to a member, told before it opens; a second time in a period it has what is free."""
        if not member.done:
            self._bids[member] = bid

    def keep(self, member: "Member", amount: Fraction) -> Fraction:
        """What a member needs of what it took; the others of this instant may have the rest."""
        held = self._holding.get(member)
        if held is None or held.period != self._now:
            return amount
        self._give_back(member)
        self._hold(member, replace(held, amount=min(amount, held.amount), decided=True))
        self._waiting += 1
        return min(amount, held.amount)

    def extend(self, member: "Member") -> Fraction:
        """A part of what nobody kept, in whole units; those that come later have the same."""
        held = self._holding.get(member)
        if held is None or not held.decided or held.extended:
            return Fraction(0)
        more = (
            self._free / self._waiting // self.rule.unit * self.rule.unit if held.period == self._now else Fraction(0)
        )
        self._waiting -= 1
        self._whole.available -= more
        self._holding[member] = replace(held, amount=held.amount + more, extended=True)
        return more

    def reach(self, member: "Member", amount: Fraction) -> Fraction:
        """All that a member may have spent, where its evaluation had a part of what others of its instant left."""
        self._give_back(member)
        taken = min(amount, self._whole.available)
        self._hold(member, Held(taken, self._now, 0, get_ident()))
        return taken

    def spend(self, member: "Member", cost: Fraction) -> None:
        """Out of what the member took, which is over then."""
        if self._give_back(member, cost):
            member.own = max(Fraction(0), member.own - cost)
        self._whole.overdraft |= member.overdraft
        self._whole.spend(cost)

    @property
    def _free(self) -> Fraction:
        """What nobody holds and belongs to nobody who may still come in this period."""
        return max(Fraction(0), self._whole.available - self._reserved)

    def _begin(self, member: "Member", now: int) -> None:
        """An evaluation begins: what earlier ones of its thread hold is back, and a new period is paid for."""
        for one in [
            one
            for one, held in self._holding.items()
            if one is member or (held.ends(now) and not (self.overlapping and held.decided))
        ]:
            self._give_back(one)
        self._move(now)

    def _hold(self, member: "Member", held: "Held") -> None:
        self._whole.available -= held.amount
        self._holding[member] = held

    def _give_back(self, member: "Member", cost: Fraction = Fraction(0)) -> bool:
        """Put what a member took into the purse; of an earlier period all but the cost as far as the bank has room."""
        held = self._holding.pop(member, None)
        self._waiting -= held is not None and held.decided and not held.extended
        if held is None or held.period == self._now:
            self._whole.available += Fraction(0) if held is None else held.amount
            return True
        used = min(held.amount, cost)
        banked = min(held.amount - used, max(Fraction(0), self.rule.bank - self._whole.carried))
        self._whole.available += used + banked
        self._whole.carried += banked
        return False

    def _move(self, now: int) -> None:
        """Pay and part anew if a period has begun."""
        period = now // self.period
        if self._now is not None and period <= self._now:
            return
        for _ in range(1 if self._now is None else period - self._now):
            self._whole.open()
        self._now = period
        self._bids.clear()
        self._part()

    def check(self) -> None:
        """All together spent no more than was paid."""
        self._whole.check()

    def dump(self) -> dict[str, Any]:
        """What must survive a restart, beside the members' own ledgers: the purse."""
        with self.lock:
            held = sum((held.amount for held in self._holding.values()), Fraction(0))
            return {"purse": self._whole.dump() | {"available": str(self._whole.available + held)}, "period": self._now}

    def dump_parts(self) -> list[list[str]] | None:
        """How the purse was parted, once a period; what a member did since is in its own ledger."""
        with self.lock:
            if self._dumped == self._now:
                return None
            self._dumped = self._now
            return [[str(one.own), str(one.due)] for one in self.members]

    def load(self, state: Mapping[str, Any], parts: Sequence[Sequence[str]]) -> None:
        """Go on from an earlier run, when all members are there and have their ledgers."""
        self._whole.load(state["purse"])
        self._now = state["period"]
        for one, (own, due) in zip(self.members, parts, strict=False):
            if one.period != self._now:
                one.own, one.due, one.done = Fraction(own), Fraction(due), False
        self._reserve()

    def _part(self) -> None:
        """Whole units; whoever was given least of what was due comes first with what cannot be divided.

        A member that was given more than was due before has its minimum all the same: others wait for theirs.
        """
        unit, available = self.rule.unit, self._whole.available
        weights = sum((one.weight for one in self.members), Fraction(0))
        kept = sum((one.minimum for one in self.members), Fraction(0)) if weights else Fraction(1)
        least = {one: max(Fraction(0), one.minimum * available // unit * unit) for one in self.members}
        for one in self.members:
            part = one.minimum + (one.weight / weights * (1 - kept) if weights else 0)
            one.due = min(one.due, unit) + part * available
            one.own = max(least[one], one.due // unit * unit)
            one.done = False
        spare = available - sum((one.own for one in self.members), Fraction(0))
        # By what they are due beyond their part; the other way round where something is to be taken back.
        for one in sorted(self.members, key=lambda one: one.due - one.own, reverse=spare >= 0):
            if abs(spare) < unit:
                break
            step = unit if spare > 0 else -min(-spare // unit * unit, one.own - least[one])
            one.own, spare = one.own + step, spare - step
        for one in self.members:
            one.due -= one.own
        self._reserve()

    def _part_by_value(self) -> None:
        """What belongs to those that have bid, and what is free, goes where it brings most, in whole units."""
        bids, self._bids = self._bids, {}
        if not bids:
            return
        unit, members = self.rule.unit, list(bids)
        others = sum((one.own for one in self.members if not one.done and one not in bids), Fraction(0))
        units = int(max(Fraction(0), self._whole.available - others) / unit)
        sure = [min(one.own, one.minimum * self.rule.per_evaluation) for one in members]
        given = parted(
            units,
            list(bids.values()),
            float(unit),
            [float(one.weight / one.users) for one in members],
            [math.ceil(amount / unit) for amount in sure],
        )
        for one, share in zip(members, given, strict=True):
            one.own = share * unit
        self._reserve()

    def _reserve(self) -> None:
        self._reserved = sum((one.own for one in self.members if not one.done), Fraction(0))


@dataclass(frozen=True)
class Held:
    """What a member took out of the purse to spend: in which period, at which instant, and whose thread it is."""

    amount: Fraction
    period: int | None
    now: int
    thread: int
    decided: bool = False
    """whether its evaluation has decided"""
    extended: bool = False

    def ends(self, now: int) -> bool:
        """Whether it is over because its thread begins another evaluation at this instant."""
        return self.thread == get_ident() and not (self.decided and self.now == now)


@dataclass(eq=False)
class Member(Ledger):
    """A ledger that draws on the common purse."""

    shared: SharedBudget = field(kw_only=True)
    name: str = field(kw_only=True)
    weight: Fraction = field(kw_only=True)
    minimum: Fraction = field(kw_only=True)
    users: int = 1
    """how many queries have the view, whose demand is that of all"""
    own: Fraction = Fraction(0)
    """what is left of its part of this period"""
    due: Fraction = Fraction(0)
    """what it was given too little or too much, below one unit"""
    done: bool = False
    """whether it has evaluated in this period"""
    period: int | None = None
    """in which it evaluated last"""

    def open(self, now: int = 0) -> Budget:
        """Its own part, and what is free."""
        with self.shared.lock:
            self.available, self.paid = self.shared.open(self, now), self.own
            self.evaluations += 1
            self.carried = max(Fraction(0), self.available - self.paid)
        return Budget(float(self.available), float(self.paid), float(self.rule.bank))

    def foreseen(self, now: int) -> Budget:
        """What it could have at most; nothing is taken."""
        with self.shared.lock:
            most = self.shared.foreseen(self, now)
        return Budget(float(most), float(self.rule.per_evaluation), float(self.rule.bank))

    def bid(self, answers: Floats, cost: Floats) -> None:
        """What it would choose with that, best first: the answers that each entry brings, and what it costs."""
        with self.shared.lock:
            self.shared.bid(self, Bid(answers, cost))

    def keep(self, amount: Amount) -> None:
        """What the evaluation has chosen; the rest is for the others of this instant."""
        with self.shared.lock:
            self.available = self.shared.keep(self, min(self.available, exact(amount, "what is kept")))

    def extend(self) -> None:
        """For second tries, a part of what nobody has chosen to spend."""
        with self.shared.lock:
            self.available += self.shared.extend(self)

    def _at_most(self, amount: Fraction) -> Fraction:
        with self.shared.lock:
            self.available = self.shared.reach(self, amount)
        return self.available

    def spend(self, amount: Amount) -> None:
        """Its own part first."""
        cost = exact(amount, "spending")
        if cost > self.available and not self.overdraft:
            raise BudgetError(f"{self.name} has {self.available} cost units of the shared budget left, not {cost}")
        with self.shared.lock:
            self.shared.spend(self, cost)
        self.available -= cost
        self.spent += cost

    def dump(self) -> dict[str, Any]:
        """With its part of the common purse."""
        return super().dump() | {"own": str(self.own), "due": str(self.due), "period": self.period}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run."""
        super().load(state)
        self.own, self.due = Fraction(state["own"]), Fraction(state["due"])
        self.period, self.done = state["period"], True

    def check(self) -> None:
        """A member may spend what others leave, so only the whole can be checked."""
        self.shared.check()
