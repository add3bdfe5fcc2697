"""`freshkeeper policies`."""

import inspect
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.screen import TextTable, print_json, say, show
from freshkeeper.maintenance.base.errors import ConfigError

if TYPE_CHECKING:
    from freshkeeper.policies.base import Policy


def policies(
    name: Annotated[str, Argument(help="show this policy alone; or new, to write a package")] = "",
    new_name: Annotated[str, Argument(metavar="[NEW_NAME]", help="new: the name of the policy to write")] = "",
    check: Annotated[
        str, Option(metavar="NAME", help="run the contract on a policy: a name or module:Class, with settings")
    ] = "",
    out: Annotated[Path | None, Option(help="new: the directory of the package; default: its name")] = None,
    as_json: Annotated[bool, Option("--json", help="print the list as JSON")] = False,
) -> None:
    """List the policies, plug-ins included, show one of them, check one against the contract, or write a new one.

    Examples: `freshkeeper policies plan`, `freshkeeper policies --check "mine:Newest(patience=2)"`,
    `freshkeeper policies new bandit`
    """
    from freshkeeper.policies import registry

    if check:
        _check(check)
        return
    if name == "new":
        _write(new_name, out)
        return
    if new_name or out is not None:
        raise ConfigError("a second name and --out are for a new policy: freshkeeper policies new NAME")
    if name:
        _show(registry.find(registry.parse(name)[0]), name, as_json)
        return
    listed = [_described(name, registry.try_load(name)) for name in registry.names()]
    if as_json:
        print_json(listed)
        return
    rows = [[entry["name"], entry["cases"], entry["knowledge"], entry["settings"], entry["about"]] for entry in listed]
    show(TextTable("", ["policy", "cases", "knowledge", "settings", "what it does"], rows, words=5))


def _described(name: str, found: Any) -> dict[str, Any]:
    """Return what a policy declares, or the error of a plug-in that did not load."""
    from freshkeeper.policies.registry import settings_of

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
        "settings": ", ".join(map(str, settings_of(found))),
        "about": about,
    }


def _write(name: str, out: Path | None) -> None:
    from freshkeeper.policies.plug_in_template import write_package

    if not name:
        raise ConfigError("name the policy to write: freshkeeper policies new NAME")
    directory = out or Path(name)
    for path in write_package(name, directory):
        say(f"  {path}")
    say(f"Next: cd {directory} && pip install -e '.[test]' && pytest")


def _show(found: "type[Policy]", name: str, as_json: bool) -> None:
    """Print the docstring and the settings of one policy."""
    from freshkeeper.policies.registry import settings_of

    described, settings = _described(name, found), settings_of(found)
    rows = [
        {
            "setting": setting.name,
            "type": setting.kind,
            "default": "" if setting.default is MISSING else str(setting).partition("=")[2],
            "meaning": setting.about,
        }
        for setting in settings
    ]
    text = inspect.getdoc(found) or ""
    if as_json:
        print_json(described | {"doc": text, "settings": rows})
        return
    print(f"{name}: {described['about']}\n\n{text}\n")
    print(f"cases: {described['cases']}; knowledge: {described['knowledge']}")
    if not rows:
        print("It has no settings.")
        return
    show(TextTable("", list(rows[0]), [list(row.values()) for row in rows], words=4))
    given = ", ".join(map(str, settings))
    print(f'Set them as --policy "{name}({given})" or {{name: {name}, ...}} in YAML.')


def _check(name: str) -> None:
    from freshkeeper.policies.base import Trait
    from freshkeeper.policies.contract import check_contract, expects
    from freshkeeper.policies.registry import make

    policy = make(name)
    say(f"{name} keeps the contract on {check_contract(policy)} rounds")
    for trait in Trait:
        waived = "" if expects(policy, trait) else ": not checked, since the policy waives it"
        say(f"  {trait}{waived}")
