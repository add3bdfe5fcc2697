"""The configs that come with freshkeeper, by name: `fig2a` is configs/fig2a.yaml, wherever it was installed."""

from importlib.resources import files
from pathlib import Path

from freshkeeper.policies.errors import ConfigError, nearest

PLACE = Path(str(files("freshkeeper"))) / "configs"


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


def about(name: str) -> str:
    """Its title, or else what its first comment says."""
    lines = named(name).read_text("utf-8").splitlines()
    titles = [line.partition(":")[2].strip(' "') for line in lines if line.startswith("title:")]
    return next(iter([*titles, *(line.lstrip("# ") for line in lines if line.startswith("#"))]), "")


def or_named(path: Path) -> Path:
    """A file as it was given, or the config of that name where there is no such file."""
    return named(str(path)) if not path.exists() and str(path) in names() else path
