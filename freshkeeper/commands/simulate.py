"""`freshkeeper simulate`."""

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshkeeper.options import assignments, numbers
from freshkeeper.screen import Bar, print_json, say, show, table

if TYPE_CHECKING:
    from rich.table import Table

    from simulator.config import Experiment
    from simulator.experiment import Part
    from simulator.summary import Row


def simulate(
    config: Annotated[Path | None, typer.Argument(help="a YAML config; without one, the defaults of Planning Ahead")] = None,
    trace: Annotated[Path | None, typer.Option(help="a directory with a recorded trace")] = None,
    policy: Annotated[str, typer.Option(metavar="A,B", help="which policies")] = "",
    budget: Annotated[str, typer.Option(metavar="5,10", help="cost units per evaluation")] = "",
    bank: Annotated[str, typer.Option(metavar="N", help="capacity of the bank, or window for γ·ω/β")] = "",
    window: Annotated[str, typer.Option(help="range, as 4s or PT4S")] = "",
    step: Annotated[str, typer.Option(help="step")] = "",
    case: Annotated[str, typer.Option(help="bgp, aggregate, or both with a comma")] = "",
    knowledge: Annotated[str, typer.Option(help="exact, published, learned, or several")] = "",
    start: Annotated[str, typer.Option(help="warm or cold")] = "",
    seeds: Annotated[int | None, typer.Option(min=1, help="how many seeds")] = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="how many evaluations; default: 50, or all")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any key of a config")] = None,
    jobs: Annotated[int, typer.Option(min=0, help="processes; 0: as many as help")] = 0,
    out: Annotated[Path | None, typer.Option(help="the run directory; default: runs/NAME")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with a run that was stopped")] = False,
    report: Annotated[bool, typer.Option(help="write the page report.html")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print the rows as one line of JSON")] = False,
) -> None:
    """Run policies × settings × seeds against a workload or a trace; write a run directory and a page.

    Examples: `freshkeeper simulate configs/fig2a.yaml`,
    `freshkeeper simulate --trace DIR --window 7d --step 6h --budget 5 --policy lru,ibm,gain --knowledge learned`
    """
    from simulator.config import load, resolve
    from simulator.experiment import simulate as run

    changes = assignments(change) | {
        key: value
        for key, value in {
            "trace": str(trace) if trace else None,
            "policies": policy or None,
            "budget": numbers("budget", budget) if budget else None,
            "bank": numbers("bank", bank) if bank else None,
            "window": window or None,
            "step": step or None,
            "case": case.split(",") if case else None,
            "knowledge": knowledge.split(",") if knowledge else None,
            "start": start or None,
            "seeds": seeds if seeds or not trace or config else 1,
            "evaluations": evaluations,
        }.items()
        if value is not None
    }
    experiment = load(config, changes) if config else resolve({}, changes)
    place = out or _place(config, trace)
    live = _Live(experiment)
    with live.bar.running():
        rows = run(experiment, place, _command(), _processes(experiment, jobs), resume, live.update)
    page = _report(place) if report else None
    if as_json:
        print_json({"run": str(place), "rows": [_row(experiment, row) for row in rows]})
        return
    show(_table(rows))
    say(f"run directory: {place}" + (f"\npage: {page}" if page else ""))


class _Live:
    """The standings so far, while the run goes on."""

    def __init__(self, experiment: "Experiment") -> None:
        from simulator.config import settings_of

        self.bar = Bar("simulating")
        self._settings = settings_of(experiment)
        self._seen: dict[tuple[int, str], list[float]] = {}

    def update(self, part: "Part", done: int, of: int) -> None:
        """One more task is done."""
        for policy, result in part.numbers.items():
            if result["freshness"] is not None:
                self._seen.setdefault((part.index, policy), []).append(result["freshness"])
        rows = [
            [self._settings[index].name, policy, f"{sum(seen) / len(seen):.3f}", str(len(seen))]
            for (index, policy), seen in sorted(self._seen.items())
        ]
        self.bar.update(done, of, table("", ["setting", "policy", "freshness so far", "seeds"], rows[-30:], words=2))


def _table(rows: "list[Row]") -> "Table":
    columns = ["setting", "policy", "case", "knowledge", "γ", "bank", "freshness", "± 95 %", "of bound", "requests", ""]
    cells = [
        [
            row.setting, row.policy, row.case, row.knowledge, f"{row.budget:g}", f"{row.bank:g}",
            _number(row.freshness), _number(row.ci95), _number(row.share_of_bound),
            f"{row.requests_per_evaluation:.2f}", "over budget" if row.over_budget else "",
        ]
        for row in rows
    ]  # fmt: skip
    return table("Freshness: mean over evaluations and seeds; requests per evaluation", columns, cells, words=4)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _row(experiment: "Experiment", row: "Row") -> dict[str, Any]:
    from simulator.config import settings_of

    varied = {setting.name: setting.varied for setting in settings_of(experiment)}
    return {**asdict(row), "setting": varied[row.setting]}


def _report(place: Path) -> Path:
    from simulator.report import write_report

    return write_report(place)


def _place(config: Path | None, trace: Path | None) -> Path:
    """runs/NAME, with a number where there is one already."""
    name = config.stem if config else trace.resolve().name if trace else "simulation"
    for n in range(1, 10_000):
        place = Path("runs") / (name if n == 1 else f"{name}-{n}")
        if not place.exists():
            return place
    return Path("runs") / f"{name}-{os.getpid()}"


def _processes(experiment: "Experiment", jobs: int) -> int:
    """A process of its own pays where it has a second or more of work."""
    if jobs:
        return jobs
    from simulator.config import settings_of

    runs = len(settings_of(experiment)) * len(experiment.seed_list) * len(experiment.policies)
    small = experiment.trace is None and (experiment.evaluations or 50) * experiment.workload.edges <= 100_000
    if len(experiment.seed_list) * len(settings_of(experiment)) == 1 or (small and runs < 150):
        return 1
    return os.cpu_count() or 1


def _command() -> str:
    return shlex.join(["freshkeeper", *sys.argv[1:]])
