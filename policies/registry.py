"""Which policies there are: our own, those of installed plug-ins, and `module:Class`.

A plug-in registers in the entry-point group `freshkeeper.policies`. A broken one is listed with its error, never fatal.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from policies.base import Policy
from policies.bundle import Bundle
from policies.clairvoyant import Clairvoyant
from policies.errors import FreshkeeperError, UnknownPolicyError, UnknownSettingError, nearest
from policies.fba import Fba
from policies.gain import Gain
from policies.ibm import Ibm
from policies.lru import Lru
from policies.oracle import Oracle
from policies.plan import Plan
from policies.random import Random
from policies.sbm import Sbm
from policies.unlimited import Unlimited

GROUP = "freshkeeper.policies"
OURS: tuple[type[Policy], ...] = (
    Random, Lru, Sbm, Ibm, Fba, Gain, Plan, Bundle, Oracle, Clairvoyant, Unlimited,
)  # fmt: skip


@cache
def plugins() -> tuple[dict[str, type[Policy]], dict[str, str]]:
    """The plug-ins that load, by name, and the error of each that does not."""
    loaded: dict[str, type[Policy]] = {}
    broken: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        try:
            loaded[entry.name] = _checked(entry.load(), entry.value)
        except Exception as error:  # a plug-in may fail in any way, and must not take the others along
            broken[entry.name] = f"{type(error).__name__}: {error}"
    return loaded, broken


def available() -> dict[str, type[Policy]]:
    """Every policy that can be made, by name; ours cannot be replaced by a plug-in of the same name."""
    return plugins()[0] | {policy.name: policy for policy in OURS}


def find(name: str) -> type[Policy]:
    """The class of a policy: a registered name or `module:Class`."""
    if ":" in name:
        return _imported(name)
    known = available()
    if name in known:
        return known[name]
    if name in plugins()[1]:
        raise UnknownPolicyError(f"the plug-in policy {name!r} did not load: {plugins()[1][name]}")
    raise UnknownPolicyError(f"there is no policy {name!r}; {nearest(name, list(known))}")


def make(name: str, settings: Mapping[str, Any] | None = None) -> Policy:
    """A policy by name with its settings, each a field of its class."""
    policy = find(name)
    settings = dict(settings or {})
    known: list[str] = [field.name for field in fields(policy) if field.init] if is_dataclass(policy) else []
    for key in settings:
        if key not in known:
            advice = nearest(key, known) if known else "it has no settings"
            raise UnknownSettingError(f"the policy {name!r} has no setting {key!r}; {advice}")
    try:
        return policy(**settings)
    except FreshkeeperError:
        raise
    except (TypeError, ValueError) as error:
        raise UnknownSettingError(f"the policy {name!r} cannot be made with {settings}: {error}") from error


def _imported(path: str) -> type[Policy]:
    module, _, name = path.partition(":")
    try:
        return _checked(getattr(import_module(module), name), path)
    except UnknownPolicyError:
        raise
    except Exception as error:  # importing somebody's module may fail in any way
        raise UnknownPolicyError(f"cannot load the policy {path!r}: {type(error).__name__}: {error}") from error


def _checked(found: Any, path: str) -> type[Policy]:
    wanted = ("name", "cases", "knowledge", "carries_budget", "is_bound", "looks_ahead", "honest", "reach", "select")
    lacking = [name for name in wanted if not hasattr(found, name)]
    if not isinstance(found, type) or lacking:
        raise UnknownPolicyError(f"{path!r} is not a policy class: it lacks {', '.join(lacking) or 'being a class'}")
    return found
