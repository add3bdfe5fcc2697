"""Options made from the model of a config, so that a new option is a change of the model only."""

from collections.abc import Iterable, Iterator, Mapping
from inspect import Parameter
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from freshkeeper.commands.command_line import Option
from freshkeeper.commands.options import pairs
from freshkeeper.maintenance.base.durations import to_unit

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

PLAIN = (bool, int, float)


def options_of(model: "type[BaseModel]", keys: Iterable[str], defaults: bool = True) -> Iterator[Parameter]:
    """Yield an option for each key, None unless it is given; `defaults=False`: the help tells no default."""
    for key in keys:
        field = model.model_fields[key]
        kind = _kind(field)
        option = Option(
            _flag(key, field, kind),
            metavar=_extra(field).get("metavar"),
            help=field.description or "",
            shown_default=_help_default(field.get_default(), kind) if defaults else None,
        )
        yield Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def given_keys(model: "type[BaseModel]", options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys given on the command line, with values as a config has them."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        if key in model.model_fields and value is not None:
            field = model.model_fields[key]
            found[key] = value
            if isinstance(value, list):
                found[key] = pairs(_name(key, field), value, _extra(field)["metavar"])
    return found


def _kind(field: "FieldInfo") -> Any:
    """Return the type of an option: a flag, a number, several texts, or a text that the model parses."""
    from pydantic import BeforeValidator

    if get_origin(field.annotation) is dict:
        return list[str] | None
    members: tuple[Any, ...] = (field.annotation,)
    if get_origin(field.annotation) is not list:
        members = get_args(field.annotation) or members  # the members of a union, as in `float | None`
    first, *others = members
    bare, metadata = first, field.metadata
    if get_origin(first) is Annotated:
        bare, *inner = get_args(first)
        metadata = [*inner, *metadata]
    kind: Any = str
    if bare in PLAIN and not any(isinstance(each, BeforeValidator) for each in metadata):
        kind = bare
    if NoneType in others:
        return kind | None
    return kind


def _help_default(default: object, kind: Any) -> Any:
    """Return a default as help displays it."""
    if kind == list[str] | None or default is None:
        return None
    if kind in PLAIN:
        return default
    if isinstance(default, int) and default:
        return to_unit(default)
    return str(getattr(default, "value", default))


def _flag(key: str, field: "FieldInfo", kind: Any) -> str:
    return f"--{_name(key, field)}" + (f"/--no-{key}" if kind is bool else "")


def _extra(field: "FieldInfo") -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _name(key: str, field: "FieldInfo") -> str:
    return str(_extra(field).get("option", key.replace("_", "-")))
