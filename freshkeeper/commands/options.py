"""Options as people write them: lists with commas, durations, key=value."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from freshkeeper.maintenance.settings.durations import to_ms
from freshkeeper.policies.errors import ConfigError


def assignments(written: list[str] | None) -> dict[str, Any]:
    """`--set key=value`, the value read as YAML."""
    import yaml

    found = {}
    for each in written or []:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {each}: write it as key=value, for example --set workload.edges=500")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError(
                f"--set {each}: {value!r} is no value; quote it or write a number, a word or [a, b]"
            ) from None
    return found


def changed(options: Mapping[str, Any], written: list[str] | None) -> dict[str, Any]:
    """Keys of a config that were given, by options and by `--set`; a key has one value."""
    given = {key: value for key, value in options.items() if value is not None}
    changes = assignments(written)
    if twice := given.keys() & changes:
        raise ConfigError(f"{min(twice)} is given twice, by an option and by --set; leave one of them out")
    return changes | given


def numbers(name: str, written: str) -> list[float | str]:
    """`5,10` as numbers; `window` is allowed for a bank."""
    found: list[float | str] = []
    for each in written.split(","):
        try:
            found.append(each.strip() if each.strip() == "window" else float(each))
        except ValueError:
            raise ConfigError(f"--{name} {written}: {each!r} is no number; write it as 5 or 5,10,20") from None
    return found


def duration(name: str, written: str, read: Callable[[str], int] = to_ms) -> int | None:
    """`4s`, `PT4S` or milliseconds; nothing for nothing."""
    if not written:
        return None
    try:
        return read(written)
    except ValueError as error:
        raise ConfigError(f"--{name}: {error}") from None


LISTS = "IRI=IRI,IRI, for example http://example.org/blog=http://example.org/followers"
SHARES = "IRI=NUMBER, for example http://example.org/blog=0.5"


def pairs(
    name: str, written: list[str] | None, example: str = "IRI=FILE, for example http://example.org/s=s.nq"
) -> dict[str, str]:
    """`--name IRI=FILE`, several times; the last = parts them, or the first before an address: either may hold more."""
    found: dict[str, str] = {}
    for each in written or []:
        address = re.search(r"=(?=\w+://)", each)
        key, equals, value = (each[: address.start()], "=", each[address.end() :]) if address else each.rpartition("=")
        if not equals or not key or not value:
            raise ConfigError(f"--{name} {each}: write it as {example}")
        iri = key.removeprefix("<").removesuffix(">")
        if iri in found:
            raise ConfigError(f"--{name} names <{iri}> twice")
        found[iri] = value
    return found


def lists(name: str, written: list[str] | None) -> dict[str, list[str]]:
    """`--name IRI=IRI,IRI`, several times."""
    bare = {key: value.split(",") for key, value in pairs(name, written, LISTS).items()}
    return {key: [each.strip().removeprefix("<").removesuffix(">") for each in value] for key, value in bare.items()}


def shares(name: str, written: list[str] | None) -> dict[str, float]:
    """`--name IRI=NUMBER`, several times."""
    found = {}
    for iri, value in pairs(name, written, SHARES).items():
        try:
            found[iri] = float(value)
        except ValueError:
            raise ConfigError(f"--{name} {iri}={value}: {value!r} is no number") from None
    return found
