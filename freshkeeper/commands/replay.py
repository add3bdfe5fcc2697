"""`freshkeeper replay`."""

from pathlib import Path
from typing import Annotated

import typer

from freshkeeper.commands.experiments import Chosen, carry_out, free
from freshkeeper.commands.options import changed, numbers
from freshkeeper.commands.screen import say
from freshkeeper.policies.errors import ConfigError


def replay(
    source: Annotated[Path, typer.Argument(help="a run directory, a recorded journal, or a trace")],
    policy: Annotated[str, typer.Option(metavar="A,B", help="which policies")] = "",
    budget: Annotated[str, typer.Option(metavar="5,10", help="cost units per evaluation")] = "",
    bank: Annotated[str, typer.Option(metavar="N", help="capacity of the bank, or window for γ·ω/β")] = "",
    knowledge: Annotated[str, typer.Option(help="exact, published, rates, learned, or several")] = "",
    case: Annotated[str, typer.Option(help="bgp, aggregate, or both with a comma")] = "",
    window: Annotated[str, typer.Option(help="range of the window, as 4s; default: as in run.json")] = "",
    step: Annotated[str, typer.Option(help="step; of a journal it is known")] = "",
    setting: Annotated[str, typer.Option(help="which setting of a journal; a query's are its sources")] = "",
    seeds: Annotated[int | None, typer.Option(min=1, help="how many seeds; default: as in the run, else 1")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any key of a config")] = None,
    target: Annotated[float | None, typer.Option(help="say which budget is enough for so much freshness")] = None,
    jobs: Annotated[int, typer.Option(min=0, help="processes; 0: as many as help")] = 0,
    on: Annotated[str, typer.Option(help="local, or spark: tasks spread over its executors")] = "local",
    master: Annotated[str, typer.Option(help="where Spark runs; default: local[*]")] = "",
    out: Annotated[Path | None, typer.Option(help="the run directory; default: runs/NAME-replay")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with a replay that was stopped")] = False,
    report: Annotated[bool, typer.Option(help="write the page report.html")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print the rows as one line of JSON")] = False,
) -> None:
    """What if: other policies, budgets and knowledge against what arrived and changed.

    A journal tells arrivals only as its answers do, and without changes.parquet only the changes that refreshes saw.

    Example: `freshkeeper replay runs/mine --policy gain,plan --budget 1,2,5,10 --knowledge learned --target .9`
    """
    from freshkeeper.simulator.experiment.replay import cheapest, replay_of

    if target is not None and not 0 <= target <= 1:
        raise ConfigError(f"--target {target:g}: it must be a freshness from 0 to 1")
    options = {
        "policies": policy or None,
        "budget": numbers("budget", budget) if budget else None,
        "bank": numbers("bank", bank) if bank else None,
        "knowledge": knowledge.split(",") if knowledge else None,
        "case": case.split(",") if case else None,
        "window": window or None,
        "step": step or None,
        "seeds": seeds,
    }
    changes = changed(options, change)
    place = out or free(f"{source.resolve().name}-replay")
    if place.exists() and not resume:
        raise ConfigError(f"{place} is there already; go on with it (--resume) or name another directory (--out)")
    found = replay_of(source, changes, place.with_name(f"{place.name}-trace"), setting)
    rows = carry_out(found.experiment, Chosen(place, jobs, resume, report, as_json, on, master), found.notes)
    for (name, *_), row in cheapest(rows, target).items() if target is not None else ():
        met = f"with γ = {row.budget:g} ({row.setting}): {row.freshness:.3f}" if row else "with none of these budgets"
        say(f"{name} reaches {target:g} {met}")
