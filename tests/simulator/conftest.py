"""Run directories made by hand: small, with the numbers that a test wants."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from freshkeeper.maintenance.journal import journal

RESULTS = 100.0


@dataclass
class Made:
    """A run directory in the making. `freshness` is by setting and policy: one headline per seed."""

    freshness: Mapping[str, Mapping[str, Sequence[float | None]]]
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    evaluations: int = 10
    warmup: int = 1
    expected: bool = False
    spent: Mapping[str, float] = field(default_factory=dict)
    without: Sequence[str] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)
    t0: int = 0

    def about(self) -> dict[str, object]:
        """run.json."""
        seeds = max(len(values) for by_policy in self.freshness.values() for values in by_policy.values())
        labels = dict.fromkeys(label for by_policy in self.freshness.values() for label in by_policy)
        return {
            "freshkeeper": "0.2.0",
            "versions": {"python": "3.11"},
            "command": "freshkeeper simulate configs/made.yaml",
            "config": dict(self.config),
            "seeds": list(range(seeds)),
            "settings": {name: self.setting(name) for name in self.freshness},
            "policies": {
                label: {
                    "name": label,
                    "is_bound": label in ("clairvoyant", "unlimited"),
                    **self.policies.get(label, {}),
                }
                for label in labels
            },
            "bound": {"included": True, "reason": ""},
            **self.extra,
        }

    def setting(self, name: str) -> dict[str, object]:
        """One setting of run.json."""
        usual = {"varied": {}, "budget": 10, "bank": 0, "case": "bgp", "knowledge": "exact", "step_ms": 1000}
        return usual | dict(self.settings.get(name, {}))

    def rows(self) -> list[dict[str, object]]:
        """The evaluations: the warm-up is always wholly fresh, so that it shows where it is counted."""
        return [
            self.row(setting, policy, seed, k, headline)
            for setting, by_policy in self.freshness.items()
            for policy, values in by_policy.items()
            for seed, headline in enumerate(values)
            for k in range(1, self.evaluations + 1)
        ]

    def row(self, setting: str, policy: str, seed: int, k: int, headline: float | None) -> dict[str, object]:
        """One evaluation; no headline means no answers."""
        results = RESULTS if headline is not None else 0.0
        fresh = results if k <= self.warmup else results * (headline or 0.0)
        spent = self.spent.get(policy, 10.0)
        about = self.setting(setting)
        return {
            "setting": setting,
            "policy": policy,
            "case": about["case"],
            "knowledge": about["knowledge"],
            "seed": seed,
            "k": k,
            "t_ms": self.t0 + k * 1000,
            "warmup": k <= self.warmup,
            "results": results,
            "fresh": None if self.expected else fresh,
            "expected_fresh": fresh,
            "budget": 10.0,
            "spent": spent,
            "carried": 0.0,
            "decide_us": 100.0 * k,
            "fetch_ms": 0.0,
            "errors": 0,
        }


def columns(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def write(directory: Path, name: str, rows: Sequence[Mapping[str, object]], without: Sequence[str] = ()) -> None:
    """One table of a run directory, without some columns."""
    table = journal.table(name, columns(rows))
    journal.write(directory, name, [table])
    if without:
        from pyarrow import parquet

        kept = [column for column in table.column_names if column not in without]
        parquet.write_table(table.select(kept), directory / f"{name}.parquet")


def make(directory: Path, freshness: Mapping[str, Any], **parts: Any) -> Path:
    """Write a run directory; freshness by policy alone is of one setting."""
    flat = not isinstance(next(iter(freshness.values())), Mapping)
    made = Made({"default": freshness} if flat else freshness, **parts)
    write(directory, "evaluations", made.rows(), made.without)
    (directory / "run.json").write_text(json.dumps(made.about()), "utf-8")
    return directory


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run directory of this name and say where it is."""
    return lambda freshness, name="run", **parts: make(tmp_path / name, freshness, **parts)


@pytest.fixture(scope="session")
def make_run_at() -> Callable[..., Path]:
    """Write a run directory somewhere, for what is made once."""
    return make


@pytest.fixture(scope="session")
def write_table() -> Callable[..., None]:
    """Write one more table into a run directory, from rows."""
    return write
