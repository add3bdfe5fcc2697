"""The configs that come with freshkeeper, by name: `fig2a` is configs/fig2a.yaml, wherever it was installed."""

from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError, nearest

PLACE = Path(str(files("freshkeeper"))) / "configs"
SOURCES = ("data", "sparql", "fragments", "resources")
"""The kinds of sources, each the key that a config of one has."""


def names() -> list[str]:
    """Every name, in alphabetical order."""
    return sorted(file.stem for file in PLACE.glob("*.yaml"))


def named(name: str) -> Path:
    """The file of a config that comes with freshkeeper."""
    if name not in names():
        raise ConfigError(
            f"there is no config {name!r} among those that come with freshkeeper; {nearest(name, names())}"
        )
    return PLACE / f"{name}.yaml"


def kind_of(keys: Collection[str]) -> str:
    """What a config is of, by its keys."""
    if {"query", "queries", "templates"} & {*keys}:
        return "run"
    if "trains" in keys:
        return "following"
    return "source" if {*SOURCES} & {*keys} else "experiment"


def about(name: str) -> tuple[str, str]:
    """What it is of, and its title, or else what its first comment says."""
    from freshkeeper.maintenance.base.yaml_file import read_yaml

    keys = read_yaml(named(name))
    return kind_of(keys), keys.get("title") or named(name).read_text("utf-8").splitlines()[0].lstrip("# ")


def or_named(path: Path) -> Path:
    """A file as it was given, or the experiment of that name where there is no such file."""
    known = not path.exists() and str(path) in names() and about(str(path))[0] in ("experiment", "following")
    return named(str(path)) if known else path
