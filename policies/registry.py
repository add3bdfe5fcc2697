"""The list of policies: our own, those of installed plug-ins, and `module:Class`.

A plug-in registers in the entry-point group `freshkeeper.policies`. A broken one is listed with its error, never fatal.
A policy's file is imported when it is asked for, so that nobody waits for solvers that they do not use.
"""

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from freshkeeper.maintenance.base.errors import FreshkeeperError, UnknownPolicyError, UnknownSettingError, nearest
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

KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
"""What a setting must be, by the type of its default."""


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


def make(name: str, settings: Mapping[str, Any] | None = None) -> Policy:
    """Return a policy by name with its settings, each a field of its class.

    >>> from freshkeeper import policy
    >>> policy("gain").name, policy("random").keeps_budget
    ('gain', True)
    """
    policy, settings = find(name), dict(settings or {})
    _check_settings(name, policy, settings)
    try:
        return policy(**settings)
    except (TypeError, ValueError) as error:
        raise UnknownSettingError(f"the policy {name!r} cannot be made with {settings}: {error}") from error


def _check_settings(name: str, policy: type[Policy], settings: Mapping[str, Any]) -> None:
    parts: tuple[Field[Any], ...] = fields(policy) if is_dataclass(policy) else ()
    defaults = {field.name: field.default for field in parts if field.init}
    for key, value in settings.items():
        if key not in defaults:
            advice = nearest(key, list(defaults)) if defaults else "it has no settings"
            raise UnknownSettingError(f"the policy {name!r} has no setting {key!r}; {advice}")
        kind = type(defaults[key])
        if kind in KINDS and not (type(value) is kind or (kind is float and type(value) is int)):
            raise UnknownSettingError(f"the policy {name!r} cannot be made: {key} must be {KINDS[kind]}, not {value!r}")


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
