"""Rows of the journal, of production and of simulations alike: docs/semantics.md says what their columns mean."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.term_text import key_as_text
from freshkeeper.maintenance.cache.budget.audit import Audit
from freshkeeper.maintenance.cache.evaluation import Answers, Record, Refreshes
from freshkeeper.maintenance.journal.journal import Column

KIND_PREFIXES = ("", "miss ", "edges ")
"""The prefix of the key of a refresh, by its kind."""


def keys_as_text(keys: Sequence[Hashable]) -> list[str]:
    return [key_as_text(key) for key in keys]


@dataclass(frozen=True)
class JournalRows:
    """Makes the journal's rows of one policy in one setting; `sns` and `srs` write lookup keys and cached entries."""

    setting: str
    policy: str
    seed: int
    case: str
    knowledge: str
    sns: Callable[[Sequence[Hashable]], list[str]] = keys_as_text
    srs: Callable[[Sequence[Hashable]], list[str]] = keys_as_text

    def evaluation(self, record: Record, fresh: float | None = None, warmup: bool = False) -> dict[str, Any]:
        more = {"case": self.case, "knowledge": self.knowledge, "warmup": warmup, "fresh": fresh}
        return {"setting": self.setting, "policy": self.policy, "seed": self.seed} | vars(record) | more

    def refreshes(self, refreshes: Refreshes) -> dict[str, Column]:
        """Return a row for each requested entry, and for each late response."""
        return self._setting(len(refreshes.keys)) | {
            "k": refreshes.k,
            "t_ms": refreshes.t_ms,
            "sr": self._labels(refreshes),
            "changed": refreshes.changed,
            "requests": refreshes.sent,
            "latency_ms": [None if late else refreshes.fetch_ms for late in refreshes.late.tolist()],
            "error": refreshes.errors,
            "gain": refreshes.gain,
            "late": refreshes.late,
        }

    def answers(self, record: Record, answers: Answers) -> dict[str, Column]:
        rows = len(answers)
        return self._setting(rows) | {
            "case": [self.case] * rows,
            "k": np.full(rows, record.k),
            "t_ms": np.full(rows, record.t_ms),
            "sn": self.sns(answers.keys),
            "sr": self.srs(answers.entries),
            "weight": answers.weight,
            "refreshed_ms": answers.refreshed,
        }

    def audits(self, record: Record, audits: Sequence[Audit]) -> dict[str, Column]:
        rows = len(audits)
        keys = [audit.sn for audit in audits]
        return self._setting(rows) | {
            "k": np.full(rows, record.k),
            "t_ms": np.full(rows, record.t_ms),
            "sn": self.sns(keys),
            "fresh": [audit.fresh for audit in audits],
        }

    def _setting(self, rows: int) -> dict[str, Column]:
        return {"setting": [self.setting] * rows, "policy": [self.policy] * rows, "seed": np.full(rows, self.seed)}

    def _labels(self, refreshes: Refreshes) -> list[str]:
        if not refreshes.kinds.any():  # copies only, as nearly always
            return self.srs(refreshes.keys)
        # keys of one kind become text together, which is faster, and then take their places again
        kinds = refreshes.kinds.tolist()
        texts = {}
        for kind in Kind:
            keys = [key for key_kind, key in zip(kinds, refreshes.keys, strict=True) if key_kind == kind]
            to_text = self.srs if kind == Kind.COPY else self.sns
            texts[kind] = iter(to_text(keys))
        return [KIND_PREFIXES[kind] + next(texts[kind]) for kind in kinds]


def plain(columns: Mapping[str, Column]) -> dict[str, list[object]]:
    return {name: column.tolist() if isinstance(column, np.ndarray) else [*column] for name, column in columns.items()}
