"""The options of `run`, made from the model of its config: adding one touches the model alone."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, signature
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from freshkeeper.commands.options import duration, lists, pairs, shares
from freshkeeper.maintenance.settings.durations import to_delay

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

READERS: dict[str, Callable[[str, Any], Any]] = {
    "volatile": lists,
    "weights": shares,
    "minimum": shares,
    "delay": partial(duration, read=to_delay),
    "idle": duration,
    "limit": duration,
}
"""Keys whose text is read otherwise than as IRI=FILE or as it stands."""
PLAIN = (bool, int, float)
GIVEN = ("query", "queries", "templates")
"""Keys that are no options: what is run is named, or stands in a file."""


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function, as a command: in the place of its `**options` every key of a config but the query."""
    from freshkeeper.maintenance.run.run_config import RunConfig

    @wraps(function)
    def command(**given: Any) -> None:
        function(**given)

    own = [each for each in signature(function).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    keys = [_parameter(key, field) for key, field in RunConfig.model_fields.items() if key not in GIVEN]
    command.__dict__["__signature__"] = signature(function).replace(parameters=[*own, *keys])
    command.__annotations__ = {each.name: each.annotation for each in [*own, *keys]}
    return command


def said(ctx: typer.Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that were given, and did not come from their defaults, as a config has them."""
    from freshkeeper.maintenance.run.run_config import RunConfig

    found: dict[str, Any] = {}
    for key, value in options.items():
        source = ctx.get_parameter_source(key)
        if source is not None and source.name != "DEFAULT":
            field = RunConfig.model_fields[key]
            read: Callable[[str, Any], Any] = READERS.get(key, pairs if isinstance(value, list) else _as_it_stands)
            found[key] = read(_name(key, field), value)
    return found


def _as_it_stands(_: str, value: Any) -> Any:
    return value


def _parameter(key: str, field: "FieldInfo") -> Parameter:
    kind, default = _kind(key, field), field.get_default()
    option = typer.Option(_flag(key, field, kind), metavar=_extra(field).get("metavar"), help=field.description)
    shown = None if kind == list[str] | None else default if kind in PLAIN or default is None else _text(default)
    return Parameter(key, Parameter.KEYWORD_ONLY, default=shown, annotation=Annotated[kind, option])


def _kind(key: str, field: "FieldInfo") -> Any:
    """What the command line reads for a key: a flag, a number, several texts, or a text that the model understands."""
    if get_origin(field.annotation) is dict:
        return list[str] | None
    first, *others = get_args(field.annotation) or (field.annotation,)
    bare = get_args(first)[0] if get_origin(first) is Annotated else first
    kind = bare if bare in PLAIN and key not in READERS else str
    return kind | None if NoneType in others else kind


def _flag(key: str, field: "FieldInfo", kind: Any) -> str:
    return f"--{_name(key, field)}" + (f"/--no-{key}" if kind is bool else "")


def _text(default: object) -> str:
    return str(getattr(default, "value", default))


def _extra(field: "FieldInfo") -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _name(key: str, field: "FieldInfo") -> str:
    return str(_extra(field).get("option", key.replace("_", "-")))
