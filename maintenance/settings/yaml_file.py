"""A YAML file as keys and values, or one line that says why it is not."""

from pathlib import Path
from typing import Any

import yaml

from freshkeeper.policies.errors import ConfigError


def read_yaml(path: Path) -> dict[str, Any]:
    """The keys and values of a file; an empty one has none."""
    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deep to be read") from None
    if plain is None:
        return {}
    if not isinstance(plain, dict):
        raise ConfigError(f"{path} must hold keys and values, not a {type(plain).__name__}")
    return plain
