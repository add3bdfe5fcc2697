"""`freshkeeper simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from freshkeeper.commands.experiments import Chosen, carry_out, free
from freshkeeper.commands.options import changed, numbers


def simulate(
    config: Annotated[
        Path | None,
        typer.Argument(help="a YAML config, or a name of `config list`; default: the settings of Planning Ahead"),
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="a directory with a recorded trace")] = None,
    policy: Annotated[str, typer.Option(metavar="A,B", help="which policies")] = "",
    budget: Annotated[str, typer.Option(metavar="5,10", help="cost units per evaluation")] = "",
    bank: Annotated[str, typer.Option(metavar="N", help="capacity of the bank, or window for γ·ω/β")] = "",
    window: Annotated[str, typer.Option(help="range, as 4s or PT4S")] = "",
    step: Annotated[str, typer.Option(help="step")] = "",
    case: Annotated[str, typer.Option(help="bgp, aggregate, or both with a comma")] = "",
    knowledge: Annotated[str, typer.Option(help="exact, published, rates, learned, or several")] = "",
    start: Annotated[str, typer.Option(help="warm or cold")] = "",
    seeds: Annotated[int | None, typer.Option(min=1, help="how many seeds")] = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="how many evaluations; default: 50, or all")] = None,
    answers: Annotated[bool, typer.Option("--answers", help="write every answer too, for the analysis; large")] = False,
    change: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any key of a config")] = None,
    jobs: Annotated[int, typer.Option(min=0, help="processes; 0: as many as help")] = 0,
    on: Annotated[str, typer.Option(help="local, or spark: tasks spread over its executors")] = "local",
    master: Annotated[str, typer.Option(help="where Spark runs; default: local[*]")] = "",
    out: Annotated[Path | None, typer.Option(help="the run directory; default: runs/NAME")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with a run that was stopped")] = False,
    report: Annotated[bool, typer.Option(help="write the page report.html")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print the rows as one line of JSON")] = False,
) -> None:
    """Run policies × settings × seeds against a workload or a trace; write a run directory and a page.

    Examples: `freshkeeper simulate fig2a`,
    `freshkeeper simulate --trace DIR --window 7d --step 6h --budget 5 --policy lru,ibm,gain --knowledge learned`
    """
    from freshkeeper.simulator.experiment.experiment_config import load, resolve

    options = {
        "trace": str(trace) if trace else None,
        "policies": policy or None,
        "budget": numbers("budget", budget) if budget else None,
        "bank": numbers("bank", bank) if bank else None,
        "window": window or None,
        "step": step or None,
        "case": case.split(",") if case else None,
        "knowledge": knowledge.split(",") if knowledge else None,
        "start": start or None,
        "seeds": seeds,
        "evaluations": evaluations,
        "answers": answers or None,
    }
    changes = changed(options, change)
    if trace and not config:
        changes = {"seeds": 1} | changes
    experiment = load(config, changes) if config else resolve({}, changes)
    place = out or free(config.stem if config else trace.resolve().name if trace else "simulation")
    carry_out(experiment, Chosen(place, jobs, resume, report, as_json, on, master))
