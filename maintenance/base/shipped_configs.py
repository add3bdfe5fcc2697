"""The configs that come with freshkeeper, by name: `fig2a` is configs/fig2a.yaml, wherever it was installed."""

from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError, nearest

PLACE = Path(str(files("freshkeeper"))) / "configs"
SOURCES = ("data", "sparql", "fragments", "resources")
"""The kinds of sources, each the key that a config of one has."""


def config_names() -> list[str]:
    return sorted(file.stem for file in PLACE.glob("*.yaml"))


def config_file(name: str) -> Path:
    if name not in config_names():
        raise ConfigError(
            f"there is no config {name!r} among those that come with freshkeeper; {nearest(name, config_names())}"
        )
    return PLACE / f"{name}.yaml"


def kind_of(keys: Collection[str]) -> str:
    """Return what a config describes, by its keys: a run, a source, an experiment, or a following."""
    if {"query", "queries", "templates"} & {*keys}:
        return "run"
    if "trains" in keys:
        return "following"
    if {*SOURCES} & {*keys}:
        return "source"
    return "experiment"


def config_title(name: str) -> tuple[str, str]:
    """Return the kind of a config and its title, or the text of its first comment."""
    from freshkeeper.maintenance.base.yaml_file import read_yaml

    keys = read_yaml(config_file(name))
    return kind_of(keys), keys.get("title") or config_file(name).read_text("utf-8").splitlines()[0].lstrip("# ")


def file_or_config(path: Path) -> Path:
    """Return the file, or the shipped experiment of that name if there is no such file."""
    name = str(path)
    if path.exists() or name not in config_names():
        return path
    if config_title(name)[0] in ("experiment", "following"):
        return config_file(name)
    return path
