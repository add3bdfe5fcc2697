"""Rows of the journal, of production and of simulations alike: docs/semantics.md says what their columns mean."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.cache.budget.audit import Audit
from freshkeeper.maintenance.cache.evaluation import Answers, Record, Refreshes
from freshkeeper.maintenance.journal.journal import Column

LABELS = ("", "miss ", "edges ")
"""What stands before the key of a refresh, by its kind."""


def written(key: object) -> str:
    """A key as text: the terms of a tuple with blanks between."""
    return " ".join(map(text_of, key)) if isinstance(key, tuple) else text_of(key)


def all_written(keys: Sequence[Hashable]) -> list[str]:
    """Keys as text, each by itself."""
    return [written(key) for key in keys]


@dataclass(frozen=True)
class Rows:
    """What one policy does in one setting, as rows; lookup keys and cached entries are written as they are told to."""

    setting: str
    policy: str
    seed: int
    case: str
    knowledge: str
    sns: Callable[[Sequence[Hashable]], list[str]] = all_written
    srs: Callable[[Sequence[Hashable]], list[str]] = all_written

    def evaluation(self, record: Record, fresh: float | None = None, warmup: bool = False) -> dict[str, Any]:
        """The row of an evaluation, with the number of fresh answers where somebody knows it."""
        what = {"case": self.case, "knowledge": self.knowledge, "warmup": warmup, "fresh": fresh}
        return {"setting": self.setting, "policy": self.policy, "seed": self.seed} | vars(record) | what

    def refreshes(self, done: Refreshes) -> dict[str, Column]:
        """A row for each entry that was asked for, and for each that came late."""
        return self._whose(len(done.keys)) | {
            "k": done.k,
            "t_ms": done.t_ms,
            "sr": self._labels(done),
            "changed": done.changed,
            "requests": done.sent,
            "latency_ms": [None if late else done.fetch_ms for late in done.late.tolist()],
            "error": done.errors,
            "gain": done.gain,
            "late": done.late,
        }

    def answers(self, record: Record, answers: Answers) -> dict[str, Column]:
        """A row for each answer."""
        rows = len(answers)
        return self._whose(rows) | {
            "case": [self.case] * rows,
            "k": np.full(rows, record.k),
            "t_ms": np.full(rows, record.t_ms),
            "sn": self.sns(answers.keys),
            "sr": self.srs(answers.entries),
            "weight": answers.weight,
            "refreshed_ms": answers.refreshed,
        }

    def audits(self, record: Record, audits: Sequence[Audit]) -> dict[str, Column]:
        """A row for each answer that was checked."""
        rows = len(audits)
        return self._whose(rows) | {
            "k": np.full(rows, record.k),
            "t_ms": np.full(rows, record.t_ms),
            "sn": self.sns([audit.sn for audit in audits]),
            "fresh": [audit.fresh for audit in audits],
        }

    def _whose(self, rows: int) -> dict[str, Column]:
        return {"setting": [self.setting] * rows, "policy": [self.policy] * rows, "seed": np.full(rows, self.seed)}

    def _labels(self, done: Refreshes) -> list[str]:
        if not done.kinds.any():  # copies only, as nearly always
            return self.srs(done.keys)
        kinds = done.kinds.tolist()
        keys = {kind: [key for of, key in zip(kinds, done.keys, strict=True) if of == kind] for kind in Kind}
        words = {kind: iter((self.srs if kind == Kind.COPY else self.sns)(found)) for kind, found in keys.items()}
        return [LABELS[kind] + next(words[kind]) for kind in kinds]


def plain(columns: Mapping[str, Column]) -> dict[str, list[object]]:
    """Columns as lists of what JSON has."""
    return {name: column.tolist() if isinstance(column, np.ndarray) else [*column] for name, column in columns.items()}
