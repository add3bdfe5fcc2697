"""`freshkeeper simulate`."""

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshkeeper.options import assignments, numbers
from freshkeeper.screen import Bar, complain, print_json, say, show, table

if TYPE_CHECKING:
    from rich.table import Table

    from simulator.config import Experiment
    from simulator.experiment import Part
    from simulator.summary import Row


def simulate(
    config: Annotated[
        Path | None, typer.Argument(help="a YAML config; without one, the defaults of Planning Ahead")
    ] = None,
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
    try:
        with live.bar.running():
            rows = run(experiment, place, _command(), _processes(experiment, jobs), resume, live.update)
    except KeyboardInterrupt:
        complain(f"stopped; what is finished is kept: go on with --out {place} --resume")
        raise typer.Exit(130) from None
    page = _report(place) if report else None
    for line in live.notes():
        say(line)
    if as_json:
        print_json({"run": str(place), "rows": [_row(experiment, row) for row in rows]})
        return
    show(_table(experiment, rows))
    say(f"run directory: {place}" + (f"\npage: {page}" if page else ""))


class _Live:
    """The standings so far, while the run goes on, and what there is to say of it in the end."""

    def __init__(self, experiment: "Experiment") -> None:
        from simulator.config import settings_of

        self.bar = Bar("simulating")
        self._settings = settings_of(experiment)
        self._seen: dict[tuple[int, str], list[float]] = {}
        self._parts: list[Part] = []

    def update(self, part: "Part", done: int, of: int) -> None:
        """One more task is done; the table shows what moved last."""
        self._parts.append(part)
        for policy, result in part.numbers.items():
            if result["freshness"] is not None:
                seen = self._seen.pop((part.index, policy), [])
                self._seen[part.index, policy] = [*seen, result["freshness"]]
        last = sorted(list(self._seen)[-self.bar.room :], key=lambda key: key[0])
        means = {key: sum(self._seen[key]) / len(self._seen[key]) for key in last}
        rows = [
            [self._settings[index].name, policy, f"{means[index, policy]:.3f}", str(len(self._seen[index, policy]))]
            for index, policy in last
        ]
        self.bar.update(done, of, table("", ["setting", "policy", "freshness so far", "seeds"], rows, words=2))

    def notes(self) -> list[str]:
        """Why the bound was left out, and how many refreshes came late."""
        without = [part for part in self._parts if part.bound is None]
        some = len({part.index for part in without})
        where = "" if len(without) == len(self._parts) else f" in {some} of {len(self._settings)} settings"
        reasons = dict.fromkeys(part.why_no_bound for part in without)
        late, sent = (sum(n[what] for p in self._parts for n in p.numbers.values()) for what in ("late", "requests"))
        came = [f"{late:,} of {sent:,} refreshes came after their deadline"] if late else []
        return [f"the clairvoyant bound is left out{where}: {reason}" for reason in reasons] + came


def _table(experiment: "Experiment", rows: "list[Row]") -> "Table":
    """One row per setting and policy; what is the same in all of them is said once, above."""
    from simulator.config import settings_of

    swept = {setting.name: setting.swept for setting in settings_of(experiment)}
    columns = {
        "setting": [swept[row.setting] for row in rows],
        "case": [row.case for row in rows],
        "knowledge": [row.knowledge for row in rows],
        "policy": [row.policy for row in rows],
        "γ": [f"{row.budget:g}" for row in rows],
        "bank": [f"{row.bank:g}" for row in rows],
        "freshness": [_number(row.freshness) for row in rows],
        "± 95 %": [_number(row.ci95) for row in rows],
        "of bound": ["" if row.over_budget else _number(row.share_of_bound) for row in rows],
        "requests": [f"{row.requests_per_evaluation:.2f}" for row in rows],
        "": ["over budget" if row.over_budget else "" for row in rows],
    }
    said = [f"{head} {columns[head][0]}" for head in ("case", "knowledge", "γ", "bank") if len(set(columns[head])) == 1]
    shown = {
        head: cells
        for head, cells in columns.items()
        if any(cells) and (len(set(cells)) > 1 or head not in ("case", "knowledge", "γ", "bank"))
    }
    title = "Mean freshness, and requests per evaluation"
    words = sum(head in shown for head in ("setting", "case", "knowledge", "policy"))
    cells = list(zip(*shown.values(), strict=True))
    return table("\n".join([title, ", ".join(said)] if said else [title]), list(shown), cells, words=words)


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
