"""How a target is kept where the pace of changes and the load jump: 30 seeds, and with --plot FILE a picture.

Freshness is the truth of the simulator, which the controller does not see. What is printed is, for each policy and
target: the mean over the evaluations before each jump, and from 100 evaluations after it on, with the share of the
seeds that are within 2 points; the swing of the pay there, its standard deviation within a seed against its mean; and
requests per evaluation.
"""

import sys

import numpy as np
from stopwatch import show

from freshkeeper.simulator.experiment.experiment_config import GridSetting, resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.stepped import SteppedWorkload, stepped

SEEDS, EVALUATIONS = 30, 900
PARTS = {"before": (200, 300), "changes 2.5 x": (400, 600), "and load 3 x": (700, 900)}
"""The first evaluation that counts and the one behind the last: 100 after the start, or after a jump."""


def setting_of(policy: str, target: float | None, budget: float = 30) -> GridSetting:
    """One policy that begins with nothing, and learns."""
    (found,) = settings_of(
        resolve(
            {"window": "4s", "step": "1s", "start": "cold", "knowledge": "learned", "budget": budget, "hold": target}
            | {"bound": "never", "policies": policy}
        )
    )
    return found


def followed(setting: GridSetting, seed: int) -> np.ndarray:
    """Of every evaluation: the true freshness, the pay, what was spent."""
    task = Task(setting, seed, stepped(SteppedWorkload(), seed), EVALUATIONS)
    world, truth = task.world(setting.experiment.policies[0].make())
    rows = []
    for evaluation in world.run():
        results, fresh = truth.measure(world.manager, evaluation)
        control = getattr(world.manager.ledger, "controller", None)
        pay = np.nan if control is None else float(control.pay)
        rows.append((fresh / results if results else np.nan, pay, evaluation.record.spent))
    world.manager.ledger.check()
    return np.array(rows).T


def row(policy: str, target: float, part: str, runs: np.ndarray) -> dict[str, object]:
    """One part of the runs of all seeds, as a row of the table."""
    begin, end = PARTS[part]
    fresh = np.nanmean(runs[:, 0, begin:end], axis=1)
    pay = runs[:, 1, begin:end]
    return {
        "policy": policy, "target": target, "part": part, "freshness": f"{fresh.mean():.3f}",
        "seeds": f"{fresh.min():.3f} to {fresh.max():.3f}",
        "within 2 points": f"{(abs(fresh - target) <= 0.02).mean():.0%}",
        "swing of the pay": f"{(pay.std(axis=1) / pay.mean(axis=1)).mean():.0%}",
        "requests": f"{runs[:, 2, begin:end].mean():.2f}",
    }  # fmt: skip


def plot(runs: np.ndarray, target: float, file: str) -> None:
    """Freshness and pay over time, the mean of the seeds and the middle half of them."""
    import altair as alt
    import pandas as pd

    rows = []
    for name, values in (
        ("true freshness, mean of 20 evaluations", runs[:, 0]),
        ("requests paid per evaluation", runs[:, 1]),
    ):
        smooth = np.nanmean(values.reshape(len(values), -1, 20), axis=2)
        low, middle, high = np.percentile(smooth, [25, 50, 75], axis=0)
        for n, (a, b, c) in enumerate(zip(low, middle, high, strict=True)):
            rows.append({"what": name, "evaluation": 20 * n + 10, "low": a, "middle": b, "high": c})
    frame = pd.DataFrame(rows)

    def part(name: str, lines: list[float]) -> alt.LayerChart | alt.FacetChart:
        base = alt.Chart(frame[frame["what"] == name]).encode(x=alt.X("evaluation", title="evaluation"))
        y = alt.Y("low", title=name, scale=alt.Scale(zero=False))
        marks = [alt.Chart(pd.DataFrame({"x": [300, 600]})).mark_rule(strokeDash=[4, 4]).encode(x="x")]
        marks += [alt.Chart(pd.DataFrame({"y": lines})).mark_rule(color="firebrick").encode(y="y")] if lines else []
        band = [base.mark_area(opacity=0.3).encode(y=y, y2="high"), base.mark_line().encode(y="middle")]
        return alt.layer(*band, *marks).properties(width=640, height=170)

    names = list(frame["what"].unique())
    alt.vconcat(part(names[0], [target]), part(names[1], [])).save(file, scale_factor=1.5)


def main(arguments: list[str]) -> None:
    """All policies and targets, in a table."""
    file = arguments[arguments.index("--plot") + 1] if "--plot" in arguments else None
    seeds = int(arguments[arguments.index("--seeds") + 1]) if "--seeds" in arguments else SEEDS
    for policy, target in (("plan", 0.95), ("plan", 0.9), ("lru", 0.9)):
        runs = np.array([followed(setting_of(policy, target), seed) for seed in range(seeds)])
        rows = [row(policy, target, part, runs) for part in PARTS]
        show(f"{policy}, target {target}", columns := list(rows[0]), [[str(r[name]) for name in columns] for r in rows])
        if file is not None and (policy, target) == ("plan", 0.95):
            plot(runs, target, file)


if __name__ == "__main__":
    main(sys.argv[1:])
