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
from freshkeeper.commands.trace import ARRIVALS, CHANGES, EDGES, UNIT, trace_of_files
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
    arrivals: Annotated[str, Option(metavar="FILE[:TIME,KEY]", help=f"in place of a trace: {ARRIVALS}")] = "",
    edges: Annotated[str, Option(metavar="FILE[:KEY,ENTRY]", help=EDGES)] = "",
    changes: Annotated[str, Option(metavar="FILE[:TIME,ENTRY[,VALUE]]", help=CHANGES)] = "",
    unit: Annotated[str, Option(help=UNIT)] = "",
    **options: Any,
) -> None:
    """Run policies × settings × seeds against a workload or a trace; write a run directory and a page.

    Window and step of a trace default to a suggestion from its arrivals, which is printed. A key with several values,
    or a range, makes a grid; `--dry-run` prints it.

    Examples: `freshkeeper simulate fig2a --seeds 3`,
    `freshkeeper simulate --trace DIR --window 7d --step 6h --budget 5,10 --policy lru,ibm,gain --knowledge learned`,
    `freshkeeper simulate --arrivals clicks.csv:at,product --changes prices.csv:at,product,price --policy lru,plan`,
    `freshkeeper simulate --sweep "workload.edges=250..4000 times 2" --dry-run`
    """
    from freshkeeper.maintenance.base.shipped_configs import file_or_config, kind_of
    from freshkeeper.maintenance.base.yaml_file import read_yaml
    from freshkeeper.simulator.experiment.experiment_config import Experiment, load, resolve
    from freshkeeper.simulator.experiment.replay import fit_to_trace

    given, chosen = given_keys(Experiment, options), Chosen.of(options)
    fixed = changed(given, change, sweep)
    if config:
        file = file_or_config(config)
        if file.exists() and kind_of(read_yaml(file)) == "following":
            if given:
                raise ConfigError(f"{file} follows trains and has no {min(given)}; --set its keys")
            _follow(file, assignments(change), chosen.out or free(config.stem))
            return
    name, notes = config.stem if config else "simulation", list[str]()
    if arrivals or edges or changes:
        if given.get("trace") or not arrivals:
            raise ConfigError("give --trace, or --arrivals with --changes (and --edges)")
        name = Path(arrivals.rpartition(":")[0] or arrivals).name.split(".")[0]
        place = chosen.out or free(name)
        fixed["trace"] = str(place.with_name(f"{place.name}-trace"))
        notes = trace_of_files(Path(fixed["trace"]), arrivals, edges, changes, unit)
    elif given.get("trace") and not config:
        name = Path(given["trace"]).resolve().name
    experiment, fitted = fit_to_trace(load(config, fixed) if config else resolve({}, fixed))
    carry_out(experiment, chosen.out or free(name), chosen, [*notes, *fitted])


def _follow(file: Path, changes: dict[str, Any], out: Path) -> None:
    """Run an experiment of the kind `following`."""
    from freshkeeper.simulator.following.following_config import load
    from freshkeeper.simulator.following.following_report import measure

    page = measure(load(file, changes), out, shlex.join(["freshkeeper", *sys.argv[1:]]), complain)
    say(f"run directory: {out}\npage: {page}")
