"""`freshkeeper simulate`."""

import shlex
import sys
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.experiments import Chosen, carry_out, experiment_options, free
from freshkeeper.commands.model_options import given_keys
from freshkeeper.commands.options import SWEEP_HELP, assignments, changed
from freshkeeper.commands.screen import complain, say
from freshkeeper.maintenance.base.errors import ConfigError

KEYS = (
    *("trace", "policies", "budget", "bank", "window", "step", "case", "knowledge"),
    *("start", "seeds", "evaluations", "answers", "baselines", "hold", "audit"),
)
"""Keys with an option of their own; `--set` takes any key."""


def options() -> Iterator[Parameter]:
    return experiment_options(KEYS)


def simulate(
    config: Annotated[
        Path | None,
        Argument(help="a YAML config, or a name of `config list`; default: the settings of Planning Ahead"),
    ] = None,
    change: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="any key of a config")] = None,
    sweep: Annotated[list[str] | None, Option(metavar="KEY=VALUES", help=SWEEP_HELP)] = None,
    **options: Any,
) -> None:
    """Run policies × settings × seeds against a workload or a trace; write a run directory and a page.

    Examples: `freshkeeper simulate fig2a`,
    `freshkeeper simulate --trace DIR --window 7d --step 6h --budget 5 --policy lru,ibm,gain --knowledge learned`
    """
    from freshkeeper.maintenance.base.shipped_configs import file_or_config, kind_of
    from freshkeeper.maintenance.base.yaml_file import read_yaml
    from freshkeeper.simulator.experiment.experiment_config import Experiment, load, resolve

    given, chosen = given_keys(Experiment, options), Chosen.of(options)
    changes = changed(given, change, sweep)
    if config:
        file = file_or_config(config)
        if file.exists() and kind_of(read_yaml(file)) == "following":
            if given:
                raise ConfigError(f"{file} follows trains and has no {min(given)}; --set its keys")
            _follow(file, assignments(change), chosen.out or free(config.stem))
            return
    trace = given.get("trace")
    if trace and not config:
        changes = {"seeds": 1} | changes
    experiment = load(config, changes) if config else resolve({}, changes)
    name = "simulation"
    if config:
        name = config.stem
    elif trace:
        name = Path(trace).resolve().name
    carry_out(experiment, chosen.out or free(name), chosen)


def _follow(file: Path, changes: dict[str, Any], out: Path) -> None:
    """Run an experiment of the kind `following`."""
    from freshkeeper.simulator.following.following_config import load
    from freshkeeper.simulator.following.following_experiment import measure

    page = measure(load(file, changes), out, shlex.join(["freshkeeper", *sys.argv[1:]]), complain)
    say(f"run directory: {out}\npage: {page}")
