"""What the tasks of a job do with their shards: catch up with the log, then score, join or save."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from freshkeeper.maintenance.pipeline.enrichment.one_price import Worth
from freshkeeper.maintenance.pipeline.enrichment.scored_parts import Best
from freshkeeper.maintenance.pipeline.enrichment.shard import Asked, Came, Plan, Shard
from freshkeeper.maintenance.pipeline.ship import settled
from freshkeeper.policies.arrays import Floats

_held: dict[tuple[Path, int], Shard] = {}
"""The shards in this worker's memory: what a task may find there from the one before, and can do without."""


@dataclass(frozen=True)
class ShardJob:
    """Of evaluation k; shards that are in nobody's memory are folded from `since` on, behind the snapshot `base`."""

    plan: Plan
    k: int
    since: int
    base: int | None

    def shard(self, number: int) -> Shard:
        """With its window at evaluation k."""
        shard = _held.pop((self.plan.place, number), None)
        if shard is None or shard.plan.life != self.plan.life or (shard.k or self.since) > self.k:
            shard = Shard.of(number, self.plan, self.base)
        for k in range(self.since if shard.k is None else shard.k, self.k + 1):
            if shard.k != k:
                shard.move(self.asked(k))
            if k < self.k and not shard.whole:
                shard.take(self.came(k))
        _held[self.plan.place, number] = shard
        settled()
        return shard

    def asked(self, k: int) -> Asked:
        """From the log."""
        found: Asked = pickle.loads(self.plan.log(k, "asked").read_bytes())
        return found

    def came(self, k: int) -> Came:
        """From the log."""
        found: Came = pickle.loads(self.plan.log(k, "came").read_bytes())
        return found


@dataclass(frozen=True)
class Count(ShardJob):
    """How many of each shard are worth some prices."""

    prices: Floats

    def __call__(self, numbers: Iterable[int]) -> Iterator[Worth]:
        """As `mapPartitions` wants it."""
        for number in numbers:
            yield Worth.of(self.shard(number).scored(self.asked(self.k)).score, self.prices)


@dataclass(frozen=True)
class Score(ShardJob):
    """The best of each shard, among what is worth the price."""

    price: float

    def __call__(self, numbers: Iterable[int]) -> Iterator[Best]:
        """As `mapPartitions` wants it."""
        for number in numbers:
            yield self.shard(number).best(self.asked(self.k), self.price)


@dataclass(frozen=True)
class Answer(ShardJob):
    """The answers of each shard, as files in `place`; a snapshot as well, where one is due."""

    place: Path
    save: bool

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        """As `mapPartitions` wants it."""
        for number in numbers:
            shard = self.shard(number)
            if not shard.whole:
                asked = self.asked(self.k)
                shard.look(asked)
                shard.take(self.came(self.k), asked)
            yield shard.answers(self.place / f"{self.k}-{number}.parquet")
            if self.save:
                shard.save()
