"""The list of policies: our own, those of installed plug-ins, and `module:Class`, each by name with its settings.

A plug-in registers in the entry-point group `freshkeeper.policies`. A broken one is listed with its error, never fatal.
A policy's file is imported when it is asked for, so that nobody waits for solvers that they do not use.
"""

import ast
import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from freshkeeper.maintenance.base.errors import (
    ConfigError,
    FreshkeeperError,
    UnknownPolicyError,
    UnknownSettingError,
    nearest,
)
from freshkeeper.policies.base import Policy

GROUP = "freshkeeper.policies"
BUILTIN = {
    "no-cache": "freshkeeper.policies.no_cache:NoCache",
    "fetch-once": "freshkeeper.policies.fetch_once:FetchOnce",
    "ttl": "freshkeeper.policies.ttl:Ttl",
    "refresh-ahead": "freshkeeper.policies.refresh_ahead:RefreshAhead",
    "random": "freshkeeper.policies.random:Random",
    "lru": "freshkeeper.policies.lru:Lru",
    "sbm": "freshkeeper.policies.sbm:Sbm",
    "ibm": "freshkeeper.policies.ibm:Ibm",
    "fba": "freshkeeper.policies.fba:Fba",
    "gain": "freshkeeper.policies.gain:Gain",
    "plan": "freshkeeper.policies.plan:Plan",
    "bundle": "freshkeeper.policies.bundle:Bundle",
    "oracle": "freshkeeper.policies.oracle:Oracle",
    "clairvoyant": "freshkeeper.policies.clairvoyant:Clairvoyant",
    "unlimited": "freshkeeper.policies.unlimited:Unlimited",
}
"""In the order in which tables show them: caches without a budget, baselines, 002's, ours, bounds."""

DECLARED = ("name", "cases", "knowledge", "is_bound", "scope", "keeps_budget", "reach", "select")
"""What a class must have to be a policy; `BasePolicy` has the usual of all but name and select."""

KINDS: dict[type, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a word", NoneType: "null", tuple: "a list",
    list: "a list", frozenset: "a list", set: "a list", dict: "a mapping",
}  # fmt: skip
"""The types of settings, in words."""
CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
EXAMPLE = 'write it as "bandit(bonus=2, decay=.9)"'
EXAMPLE_AS_MAPPING = "{name: bandit, bonus: 2}"


@cache
def plugins() -> dict[str, EntryPoint]:
    """Return the installed plug-ins by name, loaded or not; none replaces a built-in policy."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in BUILTIN}


def names() -> list[str]:
    """Every name that a policy can be asked for by."""
    return [*BUILTIN, *sorted(plugins())]


def available() -> dict[str, type[Policy]]:
    """Every policy that loads, by name."""
    return {name: found for name in names() if not isinstance(found := try_load(name), FreshkeeperError)}


def try_load(name: str) -> type[Policy] | FreshkeeperError:
    """Return a policy, or the error that kept it from loading: a listing shows both."""
    try:
        return find(name)
    except FreshkeeperError as error:
        return error


def find(name: str) -> type[Policy]:
    """Return the class of a policy: a registered name or `module:Class`."""
    if name in BUILTIN:
        return _load(BUILTIN[name])
    if name in plugins():
        return _load(plugins()[name].value)
    if ":" in name:
        return _load(name)
    raise UnknownPolicyError(f"there is no policy {name!r}; {nearest(name, names())}")


def make(written: str | Mapping[str, Any], settings: Mapping[str, Any] | None = None, /, **more: Any) -> Policy:
    """Return a policy by its name and settings, each a field of its class.

    `written` is a name, a name with settings as on the command line, or a mapping as in YAML (`parse`).

    >>> from freshkeeper import policy
    >>> policy("gain").name, policy("gain", windows=2) == policy("gain(windows=2)")
    ('gain', True)
    """
    name, chosen = parse(written)
    chosen |= {**(settings or {}), **more}
    found = find(name)
    values = _checked(name, settings_of(found), chosen)
    try:
        return found(**values)
    except (TypeError, ValueError) as error:
        raise UnknownSettingError(f"the policy {name!r} cannot be made with {chosen}: {error}") from error


def parse(written: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a policy and its settings; ConfigError if neither text nor mapping is well-formed.

    Values are numbers, true, false, null, quoted text, lists, or words.

    >>> parse("bandit(bonus=2, decay=.9)")
    ('bandit', {'bonus': 2, 'decay': 0.9})
    >>> parse({"name": "bandit", "bonus": 2})
    ('bandit', {'bonus': 2})
    """
    if not isinstance(written, str):
        settings = dict(written)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f"a policy needs a name, as {EXAMPLE_AS_MAPPING}, not {dict(written)!r}")
        if "(" in name:
            name, own = parse(name)
            settings = own | settings
        return name, settings
    name, bracket, inside = (part.strip() for part in written.partition("("))
    if not bracket:
        return name, {}
    text, settings = f"_({inside}", {}
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"the policy {written!r} cannot be read ({error.args[0]}): {EXAMPLE}") from None
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        raise ConfigError(f"the policy {written!r} cannot be read (each setting needs its name): {EXAMPLE}")
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in settings:
            raise ConfigError(f"the policy {written!r} has the setting {keyword.arg} twice: {EXAMPLE}")
        settings[keyword.arg] = _value(keyword.value, text)
    return name, settings


def split(written: str) -> list[str]:
    """Split several policies at the commas that are outside brackets and quotes.

    >>> split("lru,bandit(bonus=2, decay=.9)")
    ['lru', 'bandit(bonus=2, decay=.9)']
    """
    found, depth, quote = [""], 0, ""
    for sign in written:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth and not quote:
            found.append("")
        else:
            found[-1] += sign
    return [each.strip() for each in found]


def as_text(written: str | Mapping[str, Any]) -> str:
    """Return a policy with its settings as on the command line, in the order given.

    >>> as_text({"name": "bandit", "bonus": 2, "eager": True})
    'bandit(bonus=2, eager=true)'
    """
    name, settings = parse(written)
    inside = ", ".join(f"{key}={_word(value)}" for key, value in settings.items())
    return f"{name}({inside})" if inside else name


def _value(node: ast.expr, text: str) -> Any:
    """Return the value of a setting; what is no number, text or list is a word."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(part, text) for part in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = zip(node.keys, node.values, strict=True)
        return {_value(key, text): _value(value, text) for key, value in pairs if key is not None}
    if isinstance(node, ast.Name):
        return CONSTANTS.get(node.id.lower(), node.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.get_source_segment(text, node)


def _word(value: object) -> str:
    """Write the value of a setting so that `parse` reads it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_word, value))}]"
    for word, constant in CONSTANTS.items():
        if value is constant:
            return word
    if isinstance(value, str) and value.isidentifier() and value.lower() not in CONSTANTS:
        return value
    return repr(value)


@dataclass(frozen=True)
class PolicySetting:
    """A setting of a policy: a field of its class that can be given."""

    name: str
    kind: str
    """the type in words"""
    default: object
    """`dataclasses.MISSING` where it must be given"""
    about: str
    """the docstring of the field"""
    hint: object

    def __str__(self) -> str:
        return self.name if self.default is MISSING else f"{self.name}={_word(self.default)}"


def settings_of(policy: type[Policy]) -> list[PolicySetting]:
    """Return the settings of a policy: the fields of its dataclass that can be given."""
    if not is_dataclass(policy):
        return []
    try:
        hints = get_type_hints(policy)
    except Exception:  # somebody's annotations may name what is imported for type checkers only
        hints = {}
    found = []
    for field in fields(policy):
        if not field.init:
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        hint = hints.get(field.name, Any if default is None else type(default))
        found.append(PolicySetting(field.name, _kind(hint), default, _field_docs(policy).get(field.name, ""), hint))
    return found


def title_of(policy: Policy) -> str:
    """Return a policy as on the command line, with the settings that are not the defaults."""
    settings: dict[str, Any] = {}
    for setting in settings_of(type(policy)):
        value = getattr(policy, setting.name, setting.default)
        if not _equal(value, setting.default):
            settings[setting.name] = value
    return as_text({"name": policy.name or type(policy).__name__, **settings})


def _equal(value: object, default: object) -> bool:
    try:
        return bool(value == default)
    except ValueError:  # arrays
        return False


@cache
def _field_docs(policy: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class and its bases, which Python itself does not keep."""
    docs: dict[str, str] = {}
    for kind in reversed(policy.__mro__[:-1]):
        try:
            body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for field, following in pairwise(statements):
            match field, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = " ".join(text.split())
    return docs


def _kind(hint: object) -> str:
    """Return the type of a setting in words."""
    members = get_args(hint)
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(_word, members))}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_kind, members))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    plain = get_origin(hint) or hint
    if isinstance(plain, type):
        return KINDS.get(plain, plain.__name__)
    return "any value"


def _checked(name: str, known: Sequence[PolicySetting], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as the class takes them; UnknownSettingError for an unknown, wrong or missing one."""
    by_name = {setting.name: setting for setting in known}
    there = f"its settings are {', '.join(map(str, known))}" if known else "it has no settings"
    values = {}
    for key, value in given.items():
        if key not in by_name:
            advice = nearest(key, list(by_name))
            hint = f"{advice} {there}" if advice.startswith("did") else there
            raise UnknownSettingError(f"the policy {name!r} has no setting {key!r}; {hint}")
        setting = by_name[key]
        try:
            values[key] = _fitting(value, setting.hint)
        except ValueError:
            raise UnknownSettingError(
                f"the policy {name!r} cannot be made: {key} must be {setting.kind}, not {value!r}; {there}"
            ) from None
    for setting in known:
        if setting.default is MISSING and setting.name not in values:
            raise UnknownSettingError(f"the policy {name!r} cannot be made without {setting.name}; {there}")
    return values


def _fitting(value: object, hint: object) -> object:
    """Return a value as its annotation has it; ValueError if it is of another type."""
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError
        return value
    if origin in (Union, UnionType):
        for member in get_args(hint):
            with suppress(ValueError):
                return _fitting(value, member)
        raise ValueError
    plain = origin or hint
    if not isinstance(plain, type):
        return value
    if issubclass(plain, Enum):
        return plain(value)
    if plain in (int, float):
        wanted = Integral if plain is int else Real
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise ValueError
        return value
    if plain in (tuple, frozenset, set) and isinstance(value, list):
        return plain(value)
    if plain in KINDS and not isinstance(value, plain):
        raise ValueError
    return value


def _load(path: str) -> type[Policy]:
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # importing somebody's module may fail in any way
        said = " ".join(str(error).split())
        raise UnknownPolicyError(f"the policy {path!r} did not load: {type(error).__name__}: {said}") from error
    lacking = [part for part in DECLARED if not hasattr(found, part)]
    if not isinstance(found, type) or lacking:
        raise UnknownPolicyError(f"{path!r} is not a policy class: it lacks {', '.join(lacking) or 'being a class'}")
    return found
