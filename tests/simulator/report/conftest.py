"""A page with everything on it, made once, and headless Chromium to look at it."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browser import Chromium, chromium_binary

from freshkeeper.simulator.report.page import write_report

FRESH = {"random": 0.28, "lru": 0.27, "sbm": 0.35, "ibm": 0.47, "plan": 0.5, "literal": 0.8, "clairvoyant": 0.52}
SEEDS = 4


def answered(fresh: float) -> list[tuple[str, int]]:
    """The weights of the entry that changes, whose answers are stale, and of the one that does not."""
    stale = 100 - round(100 * fresh)
    return [(sr, weight) for sr, weight in (("a", stale), ("b", 100 - stale)) if weight]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Chromium:
    """Chromium, where there is one."""
    binary = chromium_binary()
    if binary is None:
        pytest.skip("Chromium is missing, so nobody looks at the page: scripts/install-chromium installs it")
    return Chromium(binary, tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="session")
def whole_run(
    tmp_path_factory: pytest.TempPathFactory, make_run_at: Callable[..., Path], write_table: Callable[..., None]
) -> Path:
    """Two levels of knowledge, three budgets, two workloads, seven policies and every table."""
    grid = list(product(("exact", "learned"), (5, 10, 20), (500, 1000)))
    settings: dict[str, dict[str, Any]] = {
        f"knowledge={knowledge},budget={budget},edges={edges}": {
            "varied": {"budget": budget, "workload.edges": edges, "knowledge": knowledge},
            "budget": budget,
            "knowledge": knowledge,
        }
        for knowledge, budget, edges in grid
    }
    fresh = {
        name: {
            policy: [round(min(1.0, share * (0.6 + setting["budget"] / 25) + seed / 100), 2) for seed in range(SEEDS)]
            for policy, share in FRESH.items()
        }
        for name, setting in settings.items()
    }
    config = {
        "workload": {"edges": 1000, "change_interval_ms": [100, 3000]},
        "sweep": {"budget": [5, 10, 20]},
        "trace": None,
    }
    path = tmp_path_factory.mktemp("whole") / "fig"
    make_run_at(path, fresh, settings=settings, spent={"literal": 21.0}, config=config, evaluations=30, warmup=3)
    pairs = list(product(settings, FRESH))
    whose: list[dict[str, Any]] = [
        {"setting": setting, "policy": policy, "seed": seed} for setting, policy in pairs for seed in range(SEEDS)
    ]
    refreshes = [who | {"k": k, "sr": "a", "changed": (k + who["seed"]) % 5 > 0} for who in whose for k in range(4, 9)]
    answers = [
        who | {"k": k, "t_ms": k * 1000, "sn": "n", "sr": sr, "weight": weight, "refreshed_ms": 0}
        for who in whose
        for k in range(1, 31)
        for sr, weight in answered(fresh[who["setting"]][who["policy"]][who["seed"]] if k > 3 else 1.0)
    ]
    changes = [
        {"setting": name, "seed": seed, "sr": sr, "t_ms": t_ms}
        for name in settings
        for seed in range(SEEDS)
        for sr, t_ms in (("a", 500), ("b", 31_000))
    ]
    write_table(path, "refreshes", refreshes)
    write_table(path, "answers", answers)
    write_table(path, "changes", changes)
    return path


@pytest.fixture(scope="session")
def whole_page(whole_run: Path) -> Path:
    """Its page."""
    return write_report(whole_run)
