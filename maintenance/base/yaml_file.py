"""Read YAML files, or raise one line that says what is wrong."""

from pathlib import Path
from typing import Any

import yaml

from freshkeeper.maintenance.base.errors import ConfigError


class _UniqueKeyLoader(yaml.SafeLoader):
    """A loader that refuses repeated keys: YAML would silently take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping, or raise an error at a repeated key."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} stands there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the keys and values of a file; an empty one has none."""
    plain = _read(path)
    if plain is None:
        return {}
    if not isinstance(plain, dict):
        raise ConfigError(f"{path} must hold keys and values, not a {type(plain).__name__}")
    return plain


def read_yaml_list(path: Path) -> list[dict[str, Any]]:
    plain = _read(path)
    if not isinstance(plain, list) or not all(isinstance(row, dict) for row in plain):
        raise ConfigError(f"{path} must hold a list of rows, each of keys and values")
    return plain


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigError(f"{path} is no YAML: {where}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deep to be read") from None
