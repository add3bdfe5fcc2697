"""`freshkeeper replay`."""

from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.experiments import Chosen, carry_out, experiment_options, free, unbudgeted
from freshkeeper.commands.model_options import given_keys
from freshkeeper.commands.options import SWEEP_HELP, changed
from freshkeeper.commands.screen import say
from freshkeeper.maintenance.base.errors import ConfigError

KEYS = ("policies", "budget", "bank", "knowledge", "case", "window", "step", "seeds", "baselines")


def options() -> Iterator[Parameter]:
    return experiment_options(KEYS)


def replay(
    source: Annotated[Path, Argument(help="a run directory, a recorded journal, or a trace")],
    setting: Annotated[str, Option(help="which setting of a journal; a query's are its sources")] = "",
    change: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="any key of a config")] = None,
    sweep: Annotated[list[str] | None, Option(metavar="KEY=VALUES", help=SWEEP_HELP)] = None,
    target: Annotated[float | None, Option(help="say which budget is enough for so much freshness")] = None,
    **options: Any,
) -> None:
    """Run other policies, budgets and knowledge against recorded arrivals and changes.

    Keys that are not given keep their value from the run. A journal provides the step, and the window if it has a
    run.json. Its arrivals are those in its answers; without changes.parquet, its changes are those that refreshes saw.

    Example: `freshkeeper replay runs/mine --policy gain,plan --budget 1,2,5,10 --knowledge learned --target .9`
    """
    from freshkeeper.simulator.experiment.experiment_config import Experiment, settings_of
    from freshkeeper.simulator.experiment.replay import cheapest, replay_of

    if target is not None and not 0 < target < 1:
        raise ConfigError(f"--target {target:g}: it must be a freshness above 0 and below 1")
    chosen = Chosen.of(options)
    place = chosen.out or free(f"{source.resolve().name}-replay")
    changes = changed(given_keys(Experiment, options), change, sweep)
    if target is not None:
        changes["target"] = target
    if place.exists() and not chosen.resume:
        raise ConfigError(f"{place} is there already; go on with it (--resume) or name another directory (--out)")
    found = replay_of(source, changes, place.with_name(f"{place.name}-trace"), setting)
    rows = carry_out(found.experiment, place, chosen, found.notes)
    unheld = unbudgeted(settings_of(found.experiment))
    held = [row for row in rows if row.policy not in unheld]
    for (name, *_), row in cheapest(held, target).items() if target is not None else ():
        met = f"with γ = {row.budget:g} ({row.setting}): {row.freshness:.3f}" if row else "with none of these budgets"
        say(f"{name} reaches {target:g} {met}")
