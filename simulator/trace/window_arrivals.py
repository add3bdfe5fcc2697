"""Arrivals from what windows held: how many mappings each SN had at each evaluation.

From one evaluation to the next those leave that came one range before. What a count has more than what is left then has
arrived since. So the windows of these arrivals hold at every evaluation what was counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from freshkeeper.policies.arrays import Ids, Ints
from freshkeeper.simulator.trace.trace import Arrivals


@dataclass(frozen=True, eq=False)
class Counts:
    """How many mappings SNs had, one row per evaluation and SN, sorted by evaluation."""

    k: Ints
    sn: Ids
    mappings: Ints

    @classmethod
    def of(cls, k: Ints, sn: Ids, mappings: Ints) -> "Counts":
        """All answers of an SN, with whatever policy, say the same of it; the largest number is right."""
        order = np.lexsort((mappings, sn, k))
        k, sn, mappings = k[order], sn[order], mappings[order]
        last = np.ones(k.size, bool)
        last[:-1] = (np.diff(k) != 0) | (np.diff(sn) != 0)
        return cls(k[last], sn[last], mappings[last])

    def each(self, evaluations: int, sns: int) -> Iterator[Ints]:
        """The counts of all SNs, evaluation by evaluation."""
        ends = np.searchsorted(self.k, np.arange(evaluations), side="right").tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            counts = np.zeros(sns, np.int64)
            counts[self.sn[begin:end]] = self.mappings[begin:end]
            yield counts


def arrivals_from(counts: Counts, evaluations: int, span: int, sns: int) -> tuple[Arrivals, int]:
    """Arrivals, timed by evaluation from 0 on, and how many mappings left before their time.

    A mapping stays for `span` evaluations, so what arrives at k has arrived in the place of what came at k − span.
    """
    came = _held_at_first(counts, evaluations, span, sns)
    held = came.sum(axis=0)
    found: list[tuple[int, Ints]] = []
    early = 0
    for k, now in enumerate(counts.each(evaluations, sns)):
        if k:
            found.append((k - span, came[k % span].copy()))
            left = held - came[k % span]
            early += int(np.maximum(0, left - now).sum())
            came[k % span] = np.maximum(0, now - left)
            held = left + came[k % span]
    found += [(k - span, came[k % span]) for k in range(evaluations, evaluations + span)]
    return _listed(found), early


def _held_at_first(counts: Counts, evaluations: int, span: int, sns: int) -> Ints:
    """What the first window holds, by the evaluation (modulo the span) at which it leaves: the latest that can be.

    Of those that leave at r, r + span, ... there are as many as later arrivals in their place fall short of zero.
    """
    change, lowest = np.zeros((span, sns), np.int64), np.zeros((span, sns), np.int64)
    first = before = np.zeros(sns, np.int64)
    for k, now in enumerate(counts.each(evaluations, sns)):
        first = first if k else now
        if k:
            change[k % span] += now - before
            lowest[k % span] = np.minimum(lowest[k % span], change[k % span])
        before = now
    leaving = -lowest
    for r in range(1, span):
        leaving[r] = np.minimum(leaving[r], first - leaving[1:r].sum(axis=0))
    leaving[0] = first - leaving[1:].sum(axis=0)
    return leaving


def _listed(found: list[tuple[int, Ints]]) -> Arrivals:
    sns = [np.repeat(np.arange(counts.size, dtype=np.int32), counts) for _, counts in found]
    times = [np.full(each.size, k, np.int64) for (k, _), each in zip(found, sns, strict=True)]
    return Arrivals(np.concatenate(times), np.concatenate(sns))
