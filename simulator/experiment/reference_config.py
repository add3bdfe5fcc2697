"""The reference config: every key with its default and its meaning, made from the models themselves."""

import textwrap
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from freshkeeper.simulator.experiment.experiment_config import Experiment

HEAD = """\
# Every key of an experiment with its default, which is 002's own where 002 says one.
# A list where one value is expected means a grid; `sweep` varies any key, dotted.
# Try: freshkeeper simulate configs/reference.yaml
"""


def reference() -> str:
    """The whole file."""
    return HEAD + "\n".join(_lines(Experiment, Experiment(), "")) + "\n"


def _lines(model: type[BaseModel], values: BaseModel, indent: str) -> list[str]:
    lines: list[str] = []
    for name, field in model.model_fields.items():
        value = getattr(values, name)
        lines += _comment(field, indent)
        if isinstance(value, BaseModel):
            lines += [f"{indent}{name}:", *_lines(type(value), value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {_written(values, name)}")
    return lines


def _comment(field: FieldInfo, indent: str) -> list[str]:
    text = field.description or ""
    return ["", *(f"{indent}# {line}" for line in textwrap.wrap(text, 100 - len(indent)))]


def _written(values: BaseModel, name: str) -> str:
    plain: Any = values.model_dump(mode="json")[name]
    if name == "policies":
        plain = [policy["name"] for policy in plain]
    if isinstance(plain, list) and len(plain) == 1 and name in ("case", "knowledge", "budget", "bank"):
        plain = plain[0]
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()
