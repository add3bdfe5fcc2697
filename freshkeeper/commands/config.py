"""`freshkeeper config init|list|show|validate|schema`."""

import json
from pathlib import Path
from typing import Annotated

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.run import configured, parsed, read_query
from freshkeeper.commands.screen import print_json, say
from freshkeeper.maintenance.base.errors import ConfigError, InputError, nearest


def init(
    out: Annotated[Path, Argument(help="the file to write")] = Path("experiment.yaml"),
    overwrite: Annotated[bool, Option(help="overwrite an existing file")] = False,
    kind: Annotated[str, Option("--for", help="experiment, run, service or source")] = "experiment",
) -> None:
    """Write a config with every key, its default and its meaning.

    Examples: `freshkeeper config init mine.yaml`, `freshkeeper config init run.yaml --for run`
    """
    from freshkeeper.maintenance.base.files import writing

    if out.exists() and not overwrite:
        raise ConfigError(f"{out} is there already; say --overwrite or name another file")
    with writing(out):
        out.write_text(_reference(kind), "utf-8")
    uses = {
        "experiment": f"simulate {out}",
        "run": f"run {out}",
        "service": f"serve {out}",
        "source": f"run QUERY --source IRI={out}",
    }
    say(f"{out}: every key with its default; try `freshkeeper {uses[kind]}`")


def _reference(kind: str) -> str:
    if kind == "experiment":
        from freshkeeper.simulator.experiment.experiment_config import reference

        return reference()
    if kind == "run":
        from freshkeeper.maintenance.runtime.run_config import run_reference

        return run_reference()
    if kind == "service":
        from freshkeeper.maintenance.serve.serve_config import serve_reference

        return serve_reference()
    if kind == "source":
        from freshkeeper.maintenance.sources.source_config import source_reference

        return source_reference()
    raise ConfigError(f"--for {kind}: {nearest(kind, ['experiment', 'run', 'service', 'source'])}")


def list_names(as_json: Annotated[bool, Option("--json", help="print the names as JSON")] = False) -> None:
    """List the configs that come with freshkeeper: experiments that `simulate` knows by name, runs and sources to copy.

    Example: `freshkeeper config list`
    """
    from freshkeeper.maintenance.base.shipped_configs import config_names, config_title

    if as_json:
        print_json({name: config_title(name)[1] for name in config_names()})
        return
    for name in config_names():
        kind, words = config_title(name)
        print(f"{name:18} {kind:11} {words}")


def show(name: Annotated[str, Argument(help="a name from `config list`")]) -> None:
    """Print a config that comes with freshkeeper.

    Example: `freshkeeper config show fig2a > mine.yaml`
    """
    from freshkeeper.maintenance.base.shipped_configs import config_file

    print(config_file(name).read_text("utf-8"), end="")


def validate(file: Annotated[Path, Argument(help="the config to check")]) -> None:
    """Check the config of an experiment, a continuous query or a source, and say what it would run.

    Example: `freshkeeper config validate configs/fig2a.yaml`
    """
    from freshkeeper.maintenance.base.shipped_configs import file_or_config, kind_of
    from freshkeeper.maintenance.base.yaml_file import read_yaml

    check = {"run": _check_run, "source": _check_source, "experiment": _check_experiment, "following": _check_following}
    file = file_or_config(file)
    say(f"{file} is good: {check[kind_of(read_yaml(file))](file)}")


def _check_experiment(file: Path) -> str:
    from freshkeeper.simulator.experiment.experiment import runnable
    from freshkeeper.simulator.experiment.experiment_config import load, settings_of
    from freshkeeper.simulator.trace.trace import check_there

    experiment = load(file)
    settings = settings_of(experiment)
    for trace in dict.fromkeys(setting.experiment.trace for setting in settings):
        if trace is not None:
            check_there(trace)
    runs = sum(len(policies) for policies in runnable(settings).values()) * len(experiment.seed_list)
    return _counted({"setting": len(settings), "seed": len(experiment.seed_list), "run": runs})


def _check_following(file: Path) -> str:
    from freshkeeper.simulator.following.annotation_ways import ways
    from freshkeeper.simulator.following.following_config import load

    experiment = load(file, {})
    loads = len(experiment.clients) * len(experiment.cache)
    return _counted({"annotation": len(list(ways(experiment))), "load": loads})


def _check_source(file: Path) -> str:
    from freshkeeper.maintenance.sources.source_config import read_config

    config = read_config(file)
    return f"a source with {config.kind}, {_counted({'volatile predicate': len(config.volatile)})}"


def _check_run(file: Path) -> str:
    from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition
    from freshkeeper.maintenance.runtime.query_set import check_inputs, definitions_of

    config = configured(str(file), {})
    if config.several:
        definitions = definitions_of(config)
    else:
        definitions = {"": QueryDefinition(query=read_query(config.query))}
    counts = {"window": 0, "SERVICE pattern": 0}
    for name, one in definitions.items():
        try:
            query = parsed(one.query, one.dialect or config.dialect, config.streams)
            check_inputs(one.query, query, config.streams, config.graph_files, config.sources)
        except InputError as error:
            raise InputError(f"the query {name}: {error}" if name else str(error)) from None
        counts["window"] += len(query.windows)
        counts["SERVICE pattern"] += len(query.services)
    what = "a query" if len(definitions) == 1 else f"{len(definitions):,} queries"
    return f"{what} with {_counted(counts)}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {word}{'' if n == 1 else 's'}" for word, n in counts.items())


def schema() -> None:
    """Print the JSON schema of configs, for editors.

    Example: `freshkeeper config schema > schema.json`
    """
    from freshkeeper.simulator.experiment.experiment_config import Experiment

    print(json.dumps(Experiment.model_json_schema(), indent=2))
