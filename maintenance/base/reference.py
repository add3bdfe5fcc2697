"""Reference files: every key of a model with its default and its meaning as YAML, made from the model itself."""

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError


def option(name: str, metavar: str) -> dict[str, Any]:
    """Return how a key is called on the command line, as extra data of its field."""
    return {"option": name, "metavar": metavar}


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model: its own first, then those of the models that it extends."""
    declared = (name for kind in model.__mro__ for name in inspect.get_annotations(kind))
    return [name for name in dict.fromkeys(declared) if name in model.model_fields]


def reference(head: str, values: BaseModel) -> str:
    """Return a reference file: its first lines as comments, then every key with its value."""
    return "".join(f"# {line}\n" for line in head.splitlines()) + "\n".join(_lines(values, "")) + "\n"


def _lines(values: BaseModel, indent: str) -> Iterator[str]:
    for name in keys_of(type(values)):
        field, value = type(values).model_fields[name], getattr(values, name)
        yield ""
        yield from (f"{indent}# {line}" for line in textwrap.wrap(field.description or "", 100 - len(indent)))
        yield from (f"{indent}#   {line}" for example in field.examples or () for line in example.splitlines())
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {_yaml_value(values, name)}"


def _stands_for_a_list(values: BaseModel, name: str, one: object) -> bool:
    """Return whether a list of one may be written as its only item."""
    try:
        read = type(values).model_validate(values.model_dump(mode="json") | {name: one})
    except ValidationError:
        return False
    return bool(getattr(read, name) == getattr(values, name))


def _yaml_value(values: BaseModel, name: str) -> str:
    plain: Any = values.model_dump(mode="json")[name]
    if isinstance(plain, list) and plain and all(isinstance(each, dict) and "name" in each for each in plain):
        plain = [each["name"] for each in plain]
    if isinstance(plain, list) and len(plain) == 1 and _stands_for_a_list(values, name, plain[0]):
        plain = plain[0]
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()
