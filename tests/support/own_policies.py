"""Policies as somebody outside the project would write them."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import Results, Round
from freshkeeper.policies.gain import Gain
from freshkeeper.policies.lru import Lru
from freshkeeper.policies.plan import Plan
from freshkeeper.policies.random import Random
from freshkeeper.policies.ranked import Ranked
from freshkeeper.policies.sbm import Sbm


def apart(scores: Floats, round: Round) -> Floats:
    """Of those that are alike one comes first, wherever they are."""
    return scores + [zlib.crc32(str(key).encode()) / 2**40 for key in round.keys]


class Dearest(Ranked):
    """Demand by the root of the probability of being stale."""

    name = "dearest"

    def score(self, round: Round) -> Floats:
        worth = np.where(round.stale_candidates, round.demand[:, 0] * np.sqrt(round.staleness), -np.inf)
        return apart(worth, round)


@dataclass
class FailsLater(Ranked):
    """Fails from an instant on."""

    from_ms: int = 3000

    def score(self, round: Round) -> Floats:
        if round.now >= self.from_ms:
            raise ZeroDivisionError("no luck")
        return np.where(round.stale_candidates, round.staleness, -np.inf)


@dataclass
class SeesKeys(Ranked):
    """Writes the keys of every round, and those of what came, to a file."""

    file: str = ""

    def score(self, round: Round) -> Floats:
        assert all(isinstance(key, str) for key in round.keys)
        self._write("round", round.keys)
        return np.where(round.stale_candidates, round.staleness, -np.inf)

    def observe(self, results: Results) -> None:
        self._write("results", results.keys)

    def _write(self, what: str, keys: Iterable[str]) -> None:
        with Path(self.file).open("a") as file:
            file.writelines(f"{what} {key}\n" for key in keys)


class ApartSbm(Sbm):
    def score(self, round: Round) -> Floats:
        return apart(super().score(round), round)


class ApartLru(Lru):
    def score(self, round: Round) -> Floats:
        return apart(super().score(round), round)


class ApartGain(Gain):
    def score(self, round: Round) -> Floats:
        return apart(super().score(round), round)


class ApartPlan(Plan):
    """By its score alone, as shards have it."""

    select = Ranked.select

    def score(self, round: Round) -> Floats:
        return apart(super().score(round), round)


class ApartRandom(Random):
    def score(self, round: Round) -> Floats:
        return apart(super().score(round), round)
