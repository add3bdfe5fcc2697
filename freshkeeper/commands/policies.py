"""`freshkeeper policies`."""

import inspect
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any

import typer

from freshkeeper.commands.screen import print_json, say, show, table
from freshkeeper.maintenance.base.errors import ConfigError


def policies(
    check: Annotated[
        str, typer.Option(metavar="NAME", help="run the contract on a policy: a name or module:Class")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print the list as JSON")] = False,
) -> None:
    """List the policies, plug-ins included, or check one of them against the contract.

    Example: `freshkeeper policies --check mine:Newest`
    """
    from freshkeeper.policies import registry

    if check:
        _check(check)
        return
    listed = [_described(name, registry.try_load(name)) for name in registry.names()]
    if as_json:
        print_json(listed)
        return
    rows = [[entry["name"], entry["cases"], entry["knowledge"], entry["settings"], entry["about"]] for entry in listed]
    show(table("", ["policy", "cases", "knowledge", "settings", "what it does"], rows, words=5))


def _described(name: str, found: Any) -> dict[str, str]:
    """Return what a policy declares, or the error of a plug-in that did not load."""
    if isinstance(found, Exception):
        return {"name": name, "cases": "", "knowledge": "", "settings": "", "about": str(found), "error": str(found)}
    text = inspect.getdoc(inspect.getmodule(found)) or inspect.getdoc(found) or ""
    about = next(iter(text.splitlines()), "").split(": ", 1)[-1].replace("002", "Planning Ahead")
    try:
        cases, knowledge = (", ".join(sorted(declared)) for declared in (found.cases, found.knowledge))
    except TypeError as error:
        return _described(name, ConfigError(f"the policy {name!r} declares no sets of cases and knowledge: {error}"))
    return {
        "name": name,
        "cases": cases,
        "knowledge": knowledge,
        "settings": ", ".join(_settings(found)),
        "about": about,
    }


def _settings(found: Any) -> list[str]:
    known = fields(found) if is_dataclass(found) else ()
    return [f"{f.name}={json.dumps(f.default, default=str)}" for f in known if f.init and f.default is not MISSING]


def _check(name: str) -> None:
    from freshkeeper.policies.base import Budget, Trait
    from freshkeeper.policies.contract import check, check_staler_first, examples, expects
    from freshkeeper.policies.registry import make

    policy = make(name)
    done = 0
    for case in sorted(policy.cases):
        for knowledge in sorted(policy.knowledge):
            for n, round in enumerate(examples(case, knowledge)):
                check(policy, round, Budget(float(n % 4), 2.0, float(n % 3)))
                done += 1
            check_staler_first(policy, case, knowledge)
    say(f"{policy.name} keeps the contract on {done} rounds")
    for trait in Trait:
        waived = "" if expects(policy, trait) else ": not checked, since the policy waives it"
        say(f"  {trait}{waived}")
